"""The CloudTrail record, format 1.11: JSON names for reading, snake_case names for the silver table.

Source: AWS CloudTrail User Guide, "CloudTrail record contents for management, data, and network activity events",
"CloudTrail userIdentity element" and "CloudTrail Insights insightDetails element". Every field may be absent: what the contract
demands beyond types is in `silver.py`.

A free-form part (request parameters and the like, different for each API) is one string column that holds its exact JSON text.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from spark_jobs.transforms.naming import to_snake_case


def _text(name: str, meaning: str) -> T.StructField:
    return T.StructField(name, T.StringType(), True, {"comment": meaning})


def _flag(name: str, meaning: str) -> T.StructField:
    return T.StructField(name, T.BooleanType(), True, {"comment": meaning})


def _json(name: str, meaning: str) -> T.StructField:
    """A free-form object or array, kept as JSON text."""
    return T.StructField(name, T.StringType(), True, {"comment": f"{meaning} (exact JSON text)", "json": True})


def _part(name: str, meaning: str, *fields: T.StructField) -> T.StructField:
    return T.StructField(name, T.StructType(list(fields)), True, {"comment": meaning})


_SESSION_ISSUER = _part(
    "sessionIssuer",
    "who issued the temporary credentials",
    _text("type", "source of the credentials: Root, IAMUser or Role"),
    _text("userName", "name of the user or role that issued the session"),
    _text("principalId", "internal id of the issuing entity"),
    _text("arn", "ARN of the issuing account, user or role"),
    _text("accountId", "account that owns the issuing entity"),
)

_SESSION_CONTEXT = _part(
    "sessionContext",
    "the session, when the request was made with temporary credentials",
    _SESSION_ISSUER,
    _part(
        "webIdFederationData",
        "web identity federation",
        _text("federatedProvider", "principal name of the identity provider"),
        _json("attributes", "application and user id as the provider reports them"),
    ),
    _part(
        "attributes",
        "attributes of the session",
        _text("creationDate", "when the credentials were issued; AWS writes basic and extended ISO 8601, so it stays text"),
        _text("mfaAuthenticated", "'true' when the session was authenticated with MFA"),
    ),
    _text("sourceIdentity", "the original identity behind chained roles, set by the caller"),
    _text("ec2RoleDelivery", "instance metadata service version that delivered the credentials: 1.0 or 2.0"),
    _text("assumedRoot", "'true' for a session made with AssumeRoot"),
)

_USER_IDENTITY = _part(
    "userIdentity",
    "the identity that made the request",
    _text("type", "Root, IAMUser, AssumedRole, Role, FederatedUser, Directory, AWSAccount, AWSService, IdentityCenterUser, Unknown …"),
    _text("userName", "friendly name of the identity"),
    _text("principalId", "unique id of the identity; holds the session name for temporary credentials"),
    _text("arn", "ARN of the principal"),
    _text("accountId", "account that owns the entity that granted permissions"),
    _text("accessKeyId", "access key that signed the request"),
    _SESSION_CONTEXT,
    _text("invokedBy", "AWS service that made the request"),
    _part(
        "onBehalfOf",
        "the IAM Identity Center user for whom the request was made",
        _text("userId", "id of that user"),
        _text("identityStoreArn", "ARN of the identity store"),
    ),
    _part(
        "inScopeOf",
        "the service and resource to which the credentials were issued",
        _text("sourceArn", "ARN of the resource that invoked the request"),
        _text("sourceAccount", "owner of that resource"),
        _text("issuerType", "type of resource that received the credentials, e.g. AWS::Lambda::Function"),
        _text("credentialsIssuedTo", "resource that received the credentials"),
        _text("credentialsIssuedToVersion", "version of that resource; seen in records, not in the guide"),
    ),
    _text("credentialId", "id of a bearer token's credential"),
    _text("identityProvider", "external identity provider of a SAMLUser or WebIdentityUser"),
)

_RESOURCE = T.StructType(
    [
        _text("ARN", "ARN of the resource"),
        _text("ARNPrefix", "prefix that all accessed objects share, in place of ARN"),
        _text("accountId", "owner of the resource"),
        _text("type", "AWS::<service>::<data type>"),
    ]
)

RECORD_SCHEMA = T.StructType(
    [
        _text("eventTime", "when the request completed, UTC"),
        _text("eventVersion", "version of the record format, major.minor"),
        _USER_IDENTITY,
        _text("eventSource", "the service, e.g. ec2.amazonaws.com"),
        _text("eventName", "the action of that service's API"),
        _text("awsRegion", "region of the request"),
        _text("sourceIPAddress", "address the request came from; a DNS name for AWS services"),
        _text("userAgent", "agent through which the request was made"),
        _text("errorCode", "the service's error, when the request failed"),
        _text("errorMessage", "description of that error"),
        _json("requestParameters", "parameters sent with the request"),
        _json("responseElements", "response of an action that changes state"),
        _json("additionalEventData", "data that is part of neither request nor response"),
        _text("requestID", "the service's id of the request"),
        _text("eventID", "GUID of the event"),
        _text("eventType", "AwsApiCall, AwsServiceEvent, AwsConsoleAction, AwsConsoleSignIn, AwsVpceEvent, AwsCloudTrailInsight"),
        _text("apiVersion", "API version of an AwsApiCall"),
        _flag("managementEvent", "whether it is a management event"),
        _flag("readOnly", "whether the operation only reads"),
        T.StructField("resources", T.ArrayType(_RESOURCE), True, {"comment": "resources accessed in the event"}),
        _text("recipientAccountId", "account that received the event"),
        _json("serviceEventDetails", "the service event: its trigger and result"),
        _text("sharedEventID", "GUID shared by the events of one action sent to several accounts"),
        _text("vpcEndpointId", "VPC endpoint through which the request was made"),
        _text("vpcEndpointAccountId", "owner of that VPC endpoint"),
        _text("eventCategory", "Management, Data, NetworkActivity or Insight"),
        _part(
            "addendum",
            "why the event was delayed, or what was added to an earlier event",
            _text("reason", "DELIVERY_DELAY, UPDATED_DATA or SERVICE_OUTAGE"),
            _text("updatedFields", "names of the fields that were updated"),
            _text("originalRequestID", "request id of the event that is updated"),
            _text("originalEventID", "event id of the event that is updated"),
        ),
        _text("sessionCredentialFromConsole", "'true' when the credentials came from a console session"),
        _part(
            "eventContext",
            "enrichment with resource tags and global condition keys",
            _json("requestContext", "IAM global condition keys evaluated for the request"),
            _json("tagContext", "tags of the resources and of the principal"),
        ),
        _json("edgeDeviceDetails", "edge devices that were the target of the request"),
        _part(
            "tlsDetails",
            "TLS of the request",
            _text("tlsVersion", "TLS version"),
            _text("cipherSuite", "cipher suite"),
            _text("clientProvidedHostHeader", "host name the client used, usually the service's endpoint"),
            _text("keyExchange", "key exchange group"),
        ),
        _part(
            "insightDetails",
            "an Insights event: unusual activity",
            _text("state", "Start or End"),
            _text("eventSource", "service with the unusual activity"),
            _text("eventName", "API with the unusual activity"),
            _text("insightType", "ApiCallRateInsight or ApiErrorRateInsight"),
            _text("errorCode", "error code of an ApiErrorRateInsight"),
            _text("sourceEventCategory", "category of the events that were analysed"),
            _json("insightContext", "statistics and attributions"),
        ),
    ]
)


def _silver(kind: T.DataType) -> Any:
    if isinstance(kind, T.StructType):
        return T.StructType(
            [T.StructField(to_snake_case(f.name), _silver(f.dataType), True, {"comment": f.metadata["comment"]}) for f in kind.fields]
        )
    return T.ArrayType(_silver(kind.elementType)) if isinstance(kind, T.ArrayType) else kind


EVENT_SCHEMA: T.StructType = _silver(RECORD_SCHEMA)
"""RECORD_SCHEMA with snake_case names at every depth; same order, same types (event_time is still text here)."""


def _column(name: str, kind: T.DataType, meaning: str) -> T.StructField:
    return T.StructField(name, kind, True, {"comment": meaning})


ENGINE_COLUMNS = ("_rid", "_source_file", "_record_index", "_file_sha256", "_ingested_at", "_batch_id")

SILVER_SCHEMA = T.StructType(
    [
        _column("event_id", T.StringType(), "GUID of the event; the key of the table"),
        _column("event_time", T.TimestampType(), "when the request completed, UTC"),
        _column("event_date", T.DateType(), "UTC date of event_time; the partition"),
        _column("account_id", T.StringType(), "the account of the event: recipient_account_id, else user_identity.account_id"),
        _column("principal_arn", T.StringType(), "ARN of the caller, else service:<invoked_by>, account:<account_id>, unknown"),
        *[field for field in EVENT_SCHEMA.fields if field.name not in ("event_id", "event_time")],
        _column("_rescued", T.StringType(), "fields the schema does not know: JSON object from JSON path to exact value; null when none"),
        _column("_content_hash", T.LongType(), "xxhash64 of the raw text; differs when a re-delivery differs"),
        _column("_rid", T.StringType(), "record id: <file id>:<record index>"),
        _column("_source_file", T.StringType(), "path or URL of the landed file"),
        _column("_record_index", T.IntegerType(), "position in the file, from 0"),
        _column("_file_sha256", T.StringType(), "SHA-256 of the landed file"),
        _column("_ingested_at", T.TimestampType(), "when bronze took the record in, UTC"),
        _column("_batch_id", T.StringType(), "batch that wrote the row"),
    ]
)
"""The columns of `silver.cloudtrail_events`, in order."""
