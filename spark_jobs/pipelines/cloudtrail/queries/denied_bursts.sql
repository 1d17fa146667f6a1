-- security: Who was denied again and again within 15 minutes?
-- At least 5 denials in a window of 15 minutes: somebody tries what they may not do, or a deployment lost a permission.
-- The worst window of each principal.
SELECT account_id, principal_arn, max(denied_count) AS denied_in_15_minutes, arg_max(window_start, denied_count) AS window_start,
       count(*) AS windows
  FROM gold.cloudtrail_denied_15m
 WHERE denied_count >= 5
 GROUP BY account_id, principal_arn
 ORDER BY denied_in_15_minutes DESC, principal_arn
