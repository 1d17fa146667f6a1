-- security: Which console logins succeeded without a second factor?
-- Logins through an identity provider bring their own second factor and say MFAUsed = No; they are left out.
SELECT event_time, account_id, user_identity.type AS identity, principal_arn, source_ip_address, user_agent, _rid
  FROM silver.cloudtrail_events
 WHERE event_name = 'ConsoleLogin'
   AND response_elements ->> 'ConsoleLogin' = 'Success'
   AND coalesce(additional_event_data ->> 'MFAUsed', 'No') <> 'Yes'
   AND coalesce(additional_event_data ->> 'SamlProviderArn', '') = ''
   AND coalesce(user_identity.type, '') <> 'AssumedRole'
 ORDER BY event_time, _rid
