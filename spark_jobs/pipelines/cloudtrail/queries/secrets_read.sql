-- security: Who read many secrets, passwords or parameters within an hour?
-- At least 10 reads in one hour by one principal.
SELECT time_bucket(INTERVAL 1 hour, event_time) AS hour, account_id, principal_arn, event_name, count(*) AS reads,
       count(error_code) AS refused, count(DISTINCT source_ip_address) AS addresses
  FROM silver.cloudtrail_events
 WHERE (event_source, event_name) IN (
           ('secretsmanager.amazonaws.com', 'GetSecretValue'), ('secretsmanager.amazonaws.com', 'BatchGetSecretValue'),
           ('ec2.amazonaws.com', 'GetPasswordData'), ('ssm.amazonaws.com', 'GetParameter'), ('ssm.amazonaws.com', 'GetParameters'),
           ('ssm.amazonaws.com', 'GetParametersByPath'))
 GROUP BY ALL
HAVING count(*) >= 10
 ORDER BY reads DESC, hour, principal_arn
