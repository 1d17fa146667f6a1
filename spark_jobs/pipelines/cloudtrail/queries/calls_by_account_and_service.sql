-- cost: Which account and service do the calls come from?
-- Calls per day, with the share of the day: what an account's logs, metrics and API charges follow. From the hourly gold table.
SELECT CAST(window_date AS DATE) AS day, account_id, event_source AS service, sum(event_count) AS calls, sum(error_count) AS errors,
       round(100.0 * sum(event_count) / sum(sum(event_count)) OVER (PARTITION BY window_date), 1) AS percent_of_day
  FROM gold.cloudtrail_activity_1h
 GROUP BY window_date, account_id, event_source
 ORDER BY day, calls DESC, service
