-- cost: Who calls faster than AWS allows?
-- Throttled calls are retried and logged again: they cost time and log volume, and point at a loop without back-off.
SELECT account_id, principal_arn, event_source AS service, event_name AS action, count(*) AS throttled,
       min(event_time) AS first_at, max(event_time) AS last_at
  FROM silver.cloudtrail_events
 WHERE regexp_matches(error_code, '(?i)(Throttl|RequestLimitExceeded|TooManyRequests|RateExceeded|SlowDown)')
 GROUP BY ALL
 ORDER BY throttled DESC, service, action
