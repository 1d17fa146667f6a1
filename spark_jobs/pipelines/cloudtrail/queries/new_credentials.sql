-- security: Who made users, keys, passwords or wider permissions?
-- The usual ways to stay in an account once one is in. Each row is expected from an administrator or a deployment, not from others.
SELECT event_time, account_id, principal_arn, event_name,
       coalesce(request_parameters ->> 'userName', request_parameters ->> 'roleName', request_parameters ->> 'groupName') AS target,
       request_parameters ->> 'policyArn' AS policy, error_code, _rid
  FROM silver.cloudtrail_events
 WHERE event_source = 'iam.amazonaws.com'
   AND event_name IN ('CreateUser', 'CreateAccessKey', 'CreateLoginProfile', 'UpdateLoginProfile', 'AttachUserPolicy', 'AttachRolePolicy',
                      'AttachGroupPolicy', 'PutUserPolicy', 'PutRolePolicy', 'PutGroupPolicy', 'AddUserToGroup', 'UpdateAssumeRolePolicy',
                      'CreatePolicyVersion', 'SetDefaultPolicyVersion', 'DeactivateMFADevice')
 ORDER BY event_time, _rid
