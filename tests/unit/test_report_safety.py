"""The report is inert and self-contained, and a run's name cannot leave the reports folder."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.report.masking import LONGEST, mask_record
from spark_jobs.report.place import report_folder, safe_name
from spark_jobs.report.render import POLICY
from spark_jobs.report.write import write_report
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.settings import load_settings
from spark_jobs.spec.tables import BOOKS, DECISIONS, FILE_OUTCOMES, FILES, VERDICTS
from tests.builders.ops_rows import (
    ACTIVITY,
    BRONZE,
    NOW,
    SILVER,
    books_row,
    failed_verdict,
    file_row,
    gold_row,
    outcome_row,
    record,
    small_settings,
    write,
)  # fmt: skip
from tests.builders.page import Page

SCRIPT = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover='alert(3)' javascript:alert(4)\u202e"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "p", "h1", "h2", "h3", "h4", "a", "section", "strong", "div",
    "span", "b", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "details", "summary", "br", "footer",
}  # fmt: skip
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "href", "role", "aria-label", "data-label", "open"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report and the index of a run in which every text that comes from outside is hostile."""
    settings = small_settings(tmp_path_factory.mktemp("lake"))
    run = {"run_id": SCRIPT}
    write(settings, FILES, file_row(settings, "a.gz", path=f"{settings.landing_root}/{SCRIPT}.gz", **run),
          file_row(settings, "c.txt", path=f"{SCRIPT}.txt", state="ignored", reason=SCRIPT, **run))  # fmt: skip
    write(settings, FILE_OUTCOMES, outcome_row(settings, "a.gz", path=f"{settings.landing_root}/{SCRIPT}.gz", notes=SCRIPT, **run),
          outcome_row(settings, "b.gz", outcome="failed", rule=SCRIPT, reason=SCRIPT, heals=True, path=SCRIPT, **run))  # fmt: skip
    hostile = {"rule": SCRIPT, "reason": SCRIPT, "raw": f'{{"a":"{SCRIPT}"}}', "raw_bytes": SCRIPT.encode(), "_source_file": f"x/{SCRIPT}"}
    write(settings, BRONZE.side("quarantine"), record(settings, "a.gz", 1, BRONZE.side("quarantine"), **hostile))
    write(settings, SILVER.side("quarantine"), record(settings, "a.gz", 2, SILVER.side("quarantine"), **hostile))
    write(settings, SILVER, record(settings, "a.gz", 0))
    write(settings, ACTIVITY, gold_row(event_name=SCRIPT, event_source=SCRIPT, account_id=SCRIPT))
    said = {
        "sentence": SCRIPT,
        "expected": SCRIPT,
        "observed": SCRIPT,
        "column": SCRIPT,
        "sample": json.dumps([SCRIPT]),
        "exception": SCRIPT,
    }
    write(
        settings,
        VERDICTS,
        failed_verdict(outcome="hold", **said, **run),
        failed_verdict(outcome="hold", batch_id="v1-00000001", **said, **run),
    )
    write(
        settings,
        BOOKS,
        books_row(BRONZE, written=3, quarantined=1, **run),
        books_row(read=4, written=0, held=3, quarantined=1, outcome="hold", **run),
    )
    write(
        settings,
        DECISIONS,
        {"decision_id": "d", "pipeline": "cloudtrail", "table": SCRIPT, "batch_id": SCRIPT, "decision": SCRIPT, "who": SCRIPT},
    )
    done = write_report(settings, load_pipeline("cloudtrail"), SCRIPT, NOW)
    assert done is not None
    return {"report": done.page.read_text(), "index": (settings.reports_root / "index.html").read_text()}


@pytest.mark.parametrize("which", ["report", "index"])
def test_data_cannot_become_markup(pages, which):
    page = Page(pages[which])
    assert "alert(1)" in page.text, "the hostile text is not shown at all, so nothing is tested"
    assert page.tags <= TAGS
    assert {name for _, name, _ in page.attributes} <= ATTRIBUTES


def test_every_kind_of_outside_text_was_shown(pages):
    assert Page(pages["report"]).text.count("alert(1)") > 15


@pytest.mark.parametrize("which", ["report", "index"])
def test_links_lead_only_to_reports(pages, which):
    links = [value for _, name, value in Page(pages[which]).attributes if name == "href"]
    assert links
    for link in links:
        assert link in ("../../index.html", "report.json") or (link.startswith("cloudtrail/") and link.endswith("/index.html"))
        assert ".." not in link.removeprefix("../../")


@pytest.mark.parametrize("which", ["report", "index"])
def test_the_page_needs_no_network_and_allows_no_script(pages, which):
    page = Page(pages[which])
    assert ("meta", "content", POLICY) in page.attributes
    assert POLICY == "default-src 'none'; style-src 'unsafe-inline'"
    style = pages[which].split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert ("meta", "content", "width=device-width, initial-scale=1") in page.attributes


def test_text_that_reads_backwards_is_written_out(pages):
    assert "\u202e" not in pages["report"] + pages["index"]
    assert "\\u202e" in pages["report"]


@given(st.text(max_size=300))
@example("..")
@example("../../../etc/passwd")
@example("/etc/passwd")
@example("")
@example("a/../b")
@example("a\x00b")
@example("scheduled__2023-07-10T12:10:00+00:00")
@example("\udcff")
def test_a_run_cannot_leave_its_folder(run_id):
    settings = load_settings(reports=Path("/srv/reports"))
    folder = report_folder(settings, "cloudtrail", run_id)
    assert folder.parent == Path("/srv/reports/cloudtrail")
    assert set(folder.name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
    assert 0 < len(folder.name) <= 120


@given(st.text(max_size=40), st.text(max_size=40))
@example("a:b", "a+b")
@example("a_b", "a:b")
@example("x" * 150, "x" * 151)
def test_different_runs_have_different_folders(one, other):
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_masking_keeps_the_form_and_hides_the_values():
    masked = mask_record('{"eventTime":"2099-01-01T00:00:00Z","userIdentity":{"userName":"Mallory"},"n":42,"Grüße":"ß"}')
    assert masked == '{"eventTime":"0000-00-00x00:00:00x","userIdentity":{"userName":"xxxxxxx"},"n":00,"xxxxx":"x"}'


def test_masking_shows_bytes_that_are_no_text():
    assert mask_record(b'{"a":"b\xff\xfe1"}') == '{"a":"x\\xff\\xfe0"}'


@given(st.text(alphabet=st.characters(categories=["L", "N"]), min_size=3, max_size=500))
def test_no_value_survives_masking(value):
    shown = mask_record(json.dumps({"k": value}, ensure_ascii=False))
    assert set(shown) <= set('{}"k: x0…') | {char for char in value if not (char.isalpha() or char.isdigit())}
    assert len(shown) <= LONGEST + 1


def test_nothing_to_mask_is_nothing():
    assert mask_record(None) == ""
