"""Faults of the machine are told apart from defects, and said in one sentence that names the place."""

import pytest

from spark_jobs.jobs.storage_faults import storage_fault
from spark_jobs.spec.errors import BooksUnbalanced, StorageFault


def _raised(work):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it raises is what is looked at
        work()
    return caught.value


def test_a_full_disk_as_python_says_it():
    def fill():
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    assert str(storage_fault(_raised(fill), "/lake")).startswith("The disk of /lake is full. Make room")


def test_a_folder_that_may_not_be_written_is_named(tmp_path):
    fault = PermissionError(13, "Permission denied", "/data/lake/_leases")
    assert "may not write /data/lake/_leases" in str(storage_fault(fault, "/lake"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)", "The disk of /lake is full"),
        (
            'Could not create local directory: /lake/_ops/files\nError: Os { code: 13, kind: PermissionDenied, message: "denied" }',
            "may not write /lake/_ops/files",
        ),
        (
            "[STREAM_FAILED] Query [id = 5d] terminated with exception: java.io.IOException: No space left on device SQLSTATE: XXKST",
            "is full",
        ),
        ("Job aborted.\n\tat org.apache.spark.Some.run(Some.scala:1)\nCaused by: java.io.IOException: No space left on device", "is full"),
        (
            "An error occurred.\n: java.io.FileNotFoundException: /data/lake/bronze/x/part-0.parquet (Permission denied)",
            "may not write /data/lake/bronze",
        ),
        ("Task failed\nCaused by: java.lang.OutOfMemoryError: Java heap space", "ASSAY_DRIVER_MEMORY"),
    ],
)
def test_what_delta_and_the_jvm_say(text, said):
    assert said in str(storage_fault(RuntimeError(text), "/lake"))


def test_the_cause_behind_a_fault_counts():
    def fail():
        try:
            raise OSError(28, "No space left on device")
        except OSError:
            raise RuntimeError("could not commit") from None

    assert isinstance(storage_fault(_raised(fail), "/lake"), StorageFault)


@pytest.mark.parametrize(
    "fault",
    [
        KeyError("errorCode"),
        RuntimeError("AnalysisException: column AccessDenied not found"),
        RuntimeError("boom\n=== Streaming Query ===\nFilter (error_code = 'Permission denied')"),
        BooksUnbalanced("lost"),
    ],
)
def test_a_defect_is_no_fault_of_the_machine(fault):
    assert storage_fault(fault, "/lake") is None


def test_a_jvm_that_was_killed_is_said_and_another_server_that_refuses_is_not_taken_for_it():
    import socket

    from py4j.java_gateway import GatewayParameters, JavaGateway

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gone = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    fault = storage_fault(_raised(lambda: gone.jvm.java.lang.System.currentTimeMillis()), "/lake")
    assert fault is not None and str(fault).startswith("The driver's JVM has ended in the middle of its work")
    assert storage_fault(_raised(lambda: socket.create_connection(("127.0.0.1", port))), "/lake") is None
