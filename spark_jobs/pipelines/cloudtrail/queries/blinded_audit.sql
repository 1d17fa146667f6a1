-- security: Who tried to switch off logs, trails or detectors?
-- Also attempts that failed: an error code says so. A shortened lifecycle of a log bucket removes logs as well.
SELECT event_time, account_id, principal_arn, event_source, event_name, error_code, source_ip_address,
       left(request_parameters, 120) AS request, _rid
  FROM silver.cloudtrail_events
 WHERE (event_source, event_name) IN (
           ('cloudtrail.amazonaws.com', 'StopLogging'), ('cloudtrail.amazonaws.com', 'DeleteTrail'),
           ('cloudtrail.amazonaws.com', 'UpdateTrail'), ('cloudtrail.amazonaws.com', 'PutEventSelectors'),
           ('cloudtrail.amazonaws.com', 'DeleteEventDataStore'), ('guardduty.amazonaws.com', 'DeleteDetector'),
           ('guardduty.amazonaws.com', 'UpdateDetector'), ('config.amazonaws.com', 'StopConfigurationRecorder'),
           ('config.amazonaws.com', 'DeleteConfigurationRecorder'), ('ec2.amazonaws.com', 'DeleteFlowLogs'),
           ('logs.amazonaws.com', 'DeleteLogGroup'), ('logs.amazonaws.com', 'DeleteLogStream'),
           ('securityhub.amazonaws.com', 'DisableSecurityHub'), ('organizations.amazonaws.com', 'LeaveOrganization'),
           ('route53resolver.amazonaws.com', 'DeleteResolverQueryLogConfig'))
    OR (event_source = 's3.amazonaws.com' AND event_name IN ('PutBucketLifecycle', 'PutBucketLifecycleConfiguration')
        AND contains(lower(request_parameters), 'cloudtrail'))
 ORDER BY event_time, _rid
