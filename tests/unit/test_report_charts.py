"""The charts of a report: they show what `_ops.progress` says, can be read without being seen, and no data becomes markup."""

import json
import xml.etree.ElementTree as Xml
from datetime import timedelta

import pytest

from spark_jobs.report import charts
from spark_jobs.report.health import MOST_POINTS, health_of_run
from spark_jobs.report.write import write_report
from spark_jobs.spec.pipeline import load_pipeline
from spark_jobs.spec.tables import PROGRESS
from tests.builders.ops_rows import NOW, RUN, small_lake, write
from tests.builders.page import Page
from tests.builders.progress_row import progress_row

CLOUDTRAIL = load_pipeline("cloudtrail")


def batches(count, step=timedelta(minutes=1), **changes):
    return [
        progress_row(
            NOW - step * (count - number), batch_id=f"v1-{number:08d}", run_id=RUN, batch_bytes=1_000_000 * (number + 1), **changes
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    settings = small_lake(tmp_path_factory.mktemp("lake"))
    earlier = progress_row(NOW - timedelta(hours=20), run_id="before", batch_id="<b>bold</b>", batch_limit=None, lag_minutes=9.0)
    older = progress_row(NOW - timedelta(hours=25), run_id="before", batch_id="too-old")
    no_stream = progress_row(NOW, run_id=RUN, phases=None, batch_id="replay-1")
    write(settings, PROGRESS, *batches(4), earlier, older, no_stream)
    return write_report(settings, CLOUDTRAIL, RUN, NOW).page.read_text()


def drawings(page):
    return [Xml.fromstring(f"<svg{part.split('</svg>')[0]}</svg>") for part in page.split("<svg")[1:]]


def test_each_query_has_four_charts_for_the_run_and_for_the_day(page):
    titles = [svg.find("title").text for svg in drawings(page)]
    assert titles == ["Records per second", "Batch duration by phase", "Batch size", "Lag after the batch"] * 2
    of_run, of_day = drawings(page)[:4], drawings(page)[4:]
    assert "silver.cloudtrail_events, 4 batches" in of_run[0].find("desc").text
    assert "5 batches" in of_day[0].find("desc").text  # without the one of yesterday's yesterday


def test_what_is_drawn_is_what_the_rows_say(page):
    rate, took, size, lag = drawings(page)[:4]
    work, checkpoint, *_ = (group.findall("rect") for group in took.findall("g"))
    assert float(work[0].get("height")) == pytest.approx(3 * float(checkpoint[0].get("height")), abs=0.3)  # 1.5 s and 0.5 s
    assert float(work[0].get("y")) == pytest.approx(float(checkpoint[0].get("y")) + float(checkpoint[0].get("height")), abs=0.2)
    heights = [float(box.get("height")) for box in size.find("g").findall("rect")]
    assert heights == [pytest.approx(heights[0] * number, abs=0.3) for number in (1, 2, 3, 4)]
    assert rate.findall("g")[1].find("path").get("d").count(",") == 4
    assert {point.split(",")[1] for point in lag.find("g").find("path").get("d").strip("M").split(" L")} == {
        f"{charts._y(1.5, 2.0):.1f}"
    }  # fmt: skip


def test_the_figures_stand_beneath_as_a_table(page):
    text = Page(page).text
    for value in ("v1-00000003", "500", "1.5", "4.0 MB", "64.0 MB"):
        assert value in text
    assert "too-old" not in text and "replay-1" not in text


def test_names_are_text_and_nothing_is_fetched(page):
    assert "&lt;b&gt;bold&lt;/b&gt;" in page and "<b>bold" not in page
    assert "<script" not in page and "xlink" not in page and "url(" not in page
    assert len({svg.find("title").get("id") for svg in drawings(page)}) == len(drawings(page))


def test_many_batches_become_points_that_lose_none(tmp_path):
    settings = small_lake(tmp_path)
    write(settings, PROGRESS, *batches(1000, timedelta(seconds=20)))
    (silver,) = health_of_run(settings, CLOUDTRAIL, RUN, NOW)["run"]
    assert len(silver["points"]) <= MOST_POINTS
    assert (silver["batches"], silver["rows"]) == (1000, 500_000)
    assert sum(point["batches"] for point in silver["points"]) == 1000
    assert sum(point["rows"] for point in silver["points"]) == 500_000
    assert all(point["done_per_s"] == 250 for point in silver["points"])
    assert silver["points"][1]["in_per_s"] == pytest.approx(25, rel=0.15)  # 500 records each 20 s


def test_without_progress_there_is_no_section(tmp_path):
    done = write_report(small_lake(tmp_path), CLOUDTRAIL, RUN, NOW)
    assert "<svg" not in done.page.read_text()
    assert json.loads(done.page.with_name("report.json").read_text())["health"] == {"run": [], "day": []}


@pytest.mark.parametrize(
    ("value", "unit", "text"), [(0, "s", "0 s"), (1500, "B", "1.5 kB"), (64e6, "B", "64 MB"), (0.25, "min", "0.25 min")]
)
def test_the_numbers_of_an_axis_are_short(value, unit, text):
    assert charts.short(value, unit) == text


def test_a_bound_far_above_every_bar_leaves_the_bars_visible():
    times = [NOW.isoformat()]
    assert charts.bars_and_bound(times, "batch", [1000], "limit", [64_000_000])["above"]
    near = charts.bars_and_bound(times, "batch", [1000], "limit", [2000])
    assert not near["above"] and near["lines"][0]["dots"]
