-- security: Who used the root user, and for what?
-- Daily work needs no root user. Every row is to be explained; sessions made with AssumeRoot count as well.
SELECT account_id, event_time, event_source, event_name, source_ip_address,
       coalesce(user_identity.session_context.attributes.mfa_authenticated, 'unknown') AS mfa, error_code, _rid
  FROM silver.cloudtrail_events
 WHERE (user_identity.type = 'Root' AND user_identity.invoked_by IS NULL)
    OR user_identity.session_context.assumed_root = 'true'
 ORDER BY event_time, _rid
