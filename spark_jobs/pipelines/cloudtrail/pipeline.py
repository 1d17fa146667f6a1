"""The CloudTrail pipeline: its landing files, tables, windows and schedule.

Source of the layout: AWS CloudTrail User Guide, "Finding your CloudTrail log files" and "CloudTrail record contents" (1.11).
"""

from spark_jobs.spec.pipeline import FirstSeenSpec, GoldSpec, Landing, Pipeline, SilverSpec
from spark_jobs.spec.windows import WindowSpec

HOUR_S, DAY_S = 3600, 86_400
DENIED = (
    "error_code rlike '(?i)(AccessDenied|Unauthorized|Forbidden|NotAuthorized|AuthFailure)'"  # AWS services spell a denial in many ways
)

PIPELINE = Pipeline(
    name="cloudtrail",
    title="AWS CloudTrail audit logs",
    owner="data-platform",
    description="CloudTrail files to typed events and hourly activity, with every record accounted for.",
    tags=("cloudtrail", "audit", "security"),
    landing=Landing(
        log_name=r".+\.json(\.gz)?",
        records_key="Records",
        ignored=(
            (r"(^|/)CloudTrail-Digest/|_CloudTrail-Digest_", "a CloudTrail digest file: it signs log files and holds no records"),
            (r"\.(tmp|temp|part|partial|crdownload|swp|filepart)$|~$", "a temporary name: the file is still being copied"),
            (r"(^|/)(_SUCCESS|\.DS_Store|Thumbs\.db|desktop\.ini)$", "a marker file of another program"),
        ),
    ),
    silver=SilverSpec(entity="events", key="event_id", date="event_date", time="event_time"),
    gold=(
        GoldSpec(
            subject="activity_1h",
            window=WindowSpec(HOUR_S, HOUR_S),
            grain=("account_id", "aws_region", "event_source", "event_name"),
        ),
        GoldSpec(subject="principal_activity_1h", window=WindowSpec(HOUR_S, HOUR_S), grain=("principal_arn",)),
        GoldSpec(
            subject="denied_15m",
            window=WindowSpec(900, 300),
            grain=("account_id", "principal_arn"),
            counts="denied_count",
            of=DENIED,
        ),
        GoldSpec(
            subject="account_activity_1d",
            window=WindowSpec(DAY_S, DAY_S),
            grain=("account_id", "aws_region", "event_source"),
            cadence="daily",
        ),
    ),
    first_seen=FirstSeenSpec(
        subject="first_seen",
        kinds=(
            ("principal", "principal_arn"),
            ("source_address", "source_ip_address"),
            ("user_agent", "user_agent"),
            ("event_name", "event_name"),
        ),
        keeps=("account_id", "aws_region", "event_source", "_rid"),
    ),
    hourly_cron="10 * * * *",  # CloudTrail delivers within about 5 minutes of a call; 10 past gives the hour time to land
)
