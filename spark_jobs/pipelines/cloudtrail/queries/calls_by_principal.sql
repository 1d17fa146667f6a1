-- cost: Which principal's calls make up an account's activity?
-- Per account: calls, the share of the account, and how many of them change something. Service accounts and people alike.
SELECT account_id, principal_arn, count(*) AS calls, round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY account_id), 1) AS percent,
       count(*) FILTER (NOT coalesce(read_only, false)) AS changing, count(DISTINCT event_source) AS services
  FROM silver.cloudtrail_events
 GROUP BY account_id, principal_arn
 ORDER BY calls DESC, principal_arn
