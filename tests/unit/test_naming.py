from __future__ import annotations

import pytest

from spark_jobs.transforms.naming import to_snake_case


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eventTime", "event_time"),
        ("sourceIPAddress", "source_ip_address"),
        ("requestID", "request_id"),
        ("ARN", "arn"),
        ("ARNPrefix", "arn_prefix"),
        ("webIdFederationData", "web_id_federation_data"),
        ("ec2RoleDelivery", "ec2_role_delivery"),
        ("arn", "arn"),
    ],
)
def test_splits_words_where_a_reader_would(name: str, expected: str) -> None:
    assert to_snake_case(name) == expected
