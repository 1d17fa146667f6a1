-- security: Which principals appeared for the first time?
-- Those whose first event lies within 24 hours of the newest event in the lake, newest first. On a young lake that is all of them.
SELECT principal_arn, min(event_time) AS first_event_at, arg_min(event_source, event_time) AS first_service,
       arg_min(event_name, event_time) AS first_action, arg_min(source_ip_address, event_time) AS first_address,
       count(*) AS events, count(error_code) AS errors
  FROM silver.cloudtrail_events
 GROUP BY principal_arn
HAVING min(event_time) > (SELECT max(event_time) - INTERVAL 24 hours FROM silver.cloudtrail_events)
 ORDER BY first_event_at DESC, principal_arn
