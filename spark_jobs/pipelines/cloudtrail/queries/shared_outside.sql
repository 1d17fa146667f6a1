-- security: What was shared with others or opened to the world?
-- Snapshots, images and functions given to other accounts, buckets with a new policy, and firewalls opened to every address.
SELECT event_time, account_id, principal_arn, event_source, event_name, error_code, left(request_parameters, 160) AS request, _rid
  FROM silver.cloudtrail_events
 WHERE (event_name IN ('ModifySnapshotAttribute', 'ModifyImageAttribute', 'ModifyDBSnapshotAttribute', 'ModifyDBClusterSnapshotAttribute')
        AND regexp_matches(request_parameters, '"(add|valuesToAdd)"'))
    OR event_name IN ('PutBucketPolicy', 'PutBucketAcl', 'DeletePublicAccessBlock', 'DeleteBucketPublicAccessBlock')
    OR regexp_matches(event_name, '^AddPermission20')
    OR (event_name = 'AuthorizeSecurityGroupIngress' AND (contains(request_parameters, '"0.0.0.0/0"') OR contains(request_parameters, '"::/0"')))
 ORDER BY event_time, _rid
