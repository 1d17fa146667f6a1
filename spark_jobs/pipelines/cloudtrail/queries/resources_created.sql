-- cost: Who created what is paid for, per account and service?
-- Successful calls that start or allocate a resource, with the principal to whom its cost belongs.
SELECT account_id, event_source AS service, event_name AS action, principal_arn, count(*) AS created,
       min(event_time) AS first_at, max(event_time) AS last_at
  FROM silver.cloudtrail_events
 WHERE error_code IS NULL AND NOT coalesce(read_only, false)
   AND regexp_matches(event_name, '^(Run|Create|Allocate|Start|Request|Purchase|Restore)[A-Z]')
   AND event_source NOT IN ('iam.amazonaws.com', 'sts.amazonaws.com', 'signin.amazonaws.com')
   AND NOT regexp_matches(event_name, '^Create(Tags|Grant|LogStream|Session)|^Start(Query|Session|Secret)')
 GROUP BY ALL
 ORDER BY created DESC, service, action, principal_arn
