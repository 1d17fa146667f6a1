"""Settings: the one place that reads the environment (prefix `ASSAY_`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from spark_jobs.spec.errors import ConfigurationFault
from spark_jobs.spec.tables import TableId
from spark_jobs.spec.triggers import Trigger


class Settings(BaseSettings):
    """Where things are and how large they may grow. Every field can be set as `ASSAY_<FIELD>` in the environment."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", extra="ignore", frozen=True)

    home: Path = Field(Path(".assay"), description="state folder: environment, jars, Airflow, and by default lake and reports")
    lake: str = Field("", description="root folder or URL of the tables; default <home>/lake")
    landing: str = Field("", description="folder or URL prefix where log files land; default <home>/landing")
    reports: Path | None = Field(None, description="folder for the quality reports; default <home>/reports")

    master: str = Field("local[2]", description="Spark master")
    driver_memory: str = Field("2g", description="heap of the driver (and of its local executors)")
    shape: Literal["each", "all"] = Field("each", description="one Spark submit per layer, or one for all three")
    trigger: str = Field("once", description="once | every <n> seconds | as fast as possible")
    gates: bool = Field(True, description="off only for measuring what the gates cost")

    # A batch is at most this much: enough to amortise its fixed cost (about 2 s), small enough for a 2 GB driver.
    batch_files: int = Field(512, ge=1, le=100_000, description="landed files per ledger file, and so per batch")
    batch_mb: int = Field(64, ge=1, le=4096, description="landed (compressed) megabytes per ledger file, and so per batch")
    max_inflated_mb: int = Field(256, ge=1, le=2047, description="a file that inflates beyond this is refused, not read")
    small_mb: int = Field(8, ge=0, description="pending landed megabytes up to which start-up is tuned rather than throughput")

    recent_dates: int = Field(3, ge=1, description="newest date prefixes per account and region that each discover lists")
    sweep_hours: float = Field(24, ge=0, description="a discover lists everything when the last full listing is older than this")
    retry_attempts: int = Field(5, ge=1, description="readings of a file whose failure may heal, before a person must ask for more")
    lease_ttl_s: int = Field(120, ge=5, description="a lease not renewed for this long may be taken over")
    lease_wait_s: int = Field(0, ge=0, description="how long a writer waits for a table that another writes, before it is refused")
    # A chunk takes minutes; half an hour is a backfill that does not step back, and worth a person's look.
    backfill_wait_s: int = Field(1800, ge=0, description="how long a live writer waits for a backfill's chunk, and a chunk for live ones")

    turn_wait_s: int = Field(600, ge=0, description="how long others wait for a continuous driver to step aside at a batch boundary")

    lifetime_min: float = Field(50, gt=0, description="a continuous driver ends after this long, and the next one takes over")
    gold_trigger: str = Field("", description="interval of gold in continuous runs; default: the pipeline's own")

    smtp_host: str = Field("", description="mail server for alerts; empty: no mail is sent")
    smtp_port: int = Field(587, ge=1, le=65535, description="its port: 587 is submission with STARTTLS, 465 is TLS from the first byte")
    smtp_user: str = Field("", description="who signs in there; empty: nobody does")
    smtp_password: SecretStr = Field(SecretStr(""), description="the password")
    smtp_password_file: Path | None = Field(None, description="or the file that holds it, read at each sending")
    smtp_starttls: bool = Field(
        True, description="off only for a server on this machine, or one that offers none: mail is then in the clear"
    )
    alert_from: str = Field("assay@localhost", description="sender of alert mail")
    alert_to: str = Field("", description="receivers of alert mail, separated by commas")
    alert_webhook: SecretStr = Field(
        SecretStr(""), description="URL that alerts are posted to; who has it can write there, so it is a secret"
    )
    alert_webhook_form: Literal["slack", "teams", "json"] = Field("slack", description="what the webhook understands")

    vacuum_hours: int = Field(168, ge=1, description="replaced files stay at least this long: a week, longer than any reader is at work")
    log_days: int = Field(30, ge=1, description="commit files of the `_ops` tables stay at least this long; those of streamed tables stay")
    report_days: int = Field(400, ge=1, description="reports stay this long: a year, and a month to look back at it")

    progress: bool = Field(True, description="off only for measuring what keeping each batch's progress costs")
    # A month shows how this week differs from the weeks before; the books keep every batch's counts for good.
    progress_days: int = Field(30, ge=1, description="rows of `_ops.progress` stay this long")
    metrics_port: int = Field(
        0, ge=0, le=65535, description="port on 127.0.0.1 where a continuous run shows its figures to Prometheus; 0: none"
    )
    metrics_file: Path | None = Field(None, description="text file (*.prom) into which a run writes the same figures; default: none")
    kafka_servers: str = Field("", description="Kafka brokers, host:port,…: each progress goes to a topic there too; default: none")
    kafka_topic: str = Field("streaming-metrics", min_length=1, description="that topic")
    kafka_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how the brokers are spoken to"
    )
    kafka_mechanism: str = Field("PLAIN", description="with SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    kafka_user: str = Field("", description="with SASL: who we are")
    kafka_password: SecretStr | None = Field(None, description="with SASL: the password, shown nowhere")
    kafka_ca: Path | None = Field(None, description="with SSL: the file of the authority that signed the brokers' certificates")

    @field_validator("trigger", "gold_trigger")
    @classmethod
    def _known_trigger(cls, text: str, info: ValidationInfo) -> str:
        if not text and info.field_name == "gold_trigger":
            return text
        try:
            return str(Trigger.parse(text))
        except ConfigurationFault as fault:
            raise ValueError(str(fault)) from None  # so that pydantic names the setting

    @field_validator("alert_webhook")
    @classmethod
    def _web_address(cls, url: SecretStr) -> SecretStr:
        if url.get_secret_value() and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url.get_secret_value()):
            raise ValueError("it is not a URL of the form https://…")
        return url

    @property
    def lake_root(self) -> str:
        """Root of the tables, without a trailing slash: an absolute path or a URL."""
        return absolute(self.lake or str(self.home / "lake"))

    @property
    def landing_root(self) -> str:
        return absolute(self.landing or str(self.home / "landing"))

    @property
    def reports_root(self) -> Path:
        return (self.reports or self.home / "reports").absolute()

    def location(self, table: TableId) -> str:
        return f"{self.lake_root}/{table.folder}"

    def checkpoint(self, table: TableId) -> str:
        """Folder that holds the generations `v1`, `v2` … of a query's checkpoint."""
        return f"{self.lake_root}/_checkpoints/{table}"


SECRETS = frozenset(name for name, field in Settings.model_fields.items() if field.annotation is SecretStr)


def absolute(place: str) -> str:
    if "://" in place:
        return place.rstrip("/")
    return str(Path(place).expanduser().absolute())


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment; raises ConfigurationFault with one sentence per wrong value."""
    _refuse_misspelt(os.environ)
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic validates what it is given
    except ValidationError as fault:
        said = [(str(e["loc"][0]).upper(), _input_of(e), e["msg"].removeprefix("Value error, ").rstrip(".")) for e in fault.errors()]
        wrong = "; ".join(f"ASSAY_{name}={value!r}: {what}" for name, value, what in said)
        raise ConfigurationFault(f"A setting is not usable: {wrong}.") from None


def _input_of(error: Any) -> object:
    """The value that was refused; that of a secret is not shown."""
    return "…" if str(error["loc"][0]) in SECRETS else error.get("input")


def _refuse_misspelt(names: Iterable[str]) -> None:
    """A misspelt setting would be ignored in silence. Other programs' variables with our prefix are not like any setting, and pass."""
    known = [f"ASSAY_{field.upper()}" for field in Settings.model_fields]
    for name in names:
        if name.startswith("ASSAY_") and name not in known and (meant := get_close_matches(name, known, 1, cutoff=0.88)):
            raise ConfigurationFault(f"{name} is not a setting. Did you mean {meant[0]}?")
