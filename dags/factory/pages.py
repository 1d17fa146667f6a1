"""The text on a DAG's page, written from the pipeline's declaration so that it cannot go stale."""

from __future__ import annotations

from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import LAYERS


def dag_page(pipeline: Pipeline, settings: Settings) -> str:
    """Markdown: what the pipeline does, its tables with their keys, and what each gate's failure means."""
    rows = [
        ("bronze", str(pipeline.bronze_table), "one raw record, exact text and lineage", "`_rid`"),
        ("silver", str(pipeline.silver_table), "one event, typed, first arrival kept", f"`{pipeline.silver.key}`"),
    ]
    for spec in pipeline.gold_of("hourly"):
        minutes = f"{spec.window.length_s // 60} minutes every {spec.window.slide_s // 60}"
        rows.append(
            ("gold", str(pipeline.gold_table(spec)), f"one window of {minutes}", ", ".join(f"`{c}`" for c in ("window_start", *spec.grain)))
        )
    table = "\n".join(f"| {layer} | `{name}` | {row} | {key} |" for layer, name, row, key in rows)
    policies = "\n".join(
        f"- **{layer}**: critical → {policy.critical}, warning → {policy.warning}, info → {policy.info}"
        for layer, policy in ((layer, pipeline.policy(layer)) for layer in LAYERS)
    )
    return f"""### {pipeline.title}

{pipeline.description}

A run takes whatever has landed and is not read yet; the data interval names the run, it does not cut data. (A run of Airflow's own
*Backfill* lists only the date prefixes of its interval; `{pipeline.name}_backfill` is for more than a gap, and its page says which to use.)
Running it twice changes nothing. Owner: **{pipeline.owner}**. Shape: `{settings.shape}`.

| layer | table | one row is | key |
|---|---|---|---|
{table}

What a failed expectation does to its batch, by severity:

{policies}

*stop*: nothing of the batch is committed and the gate is red. *hold*: the batch waits in `<table>_held`, and the rest flows on. *warn*: it
is published, and said. For a held or stopped batch `ask_decisions` makes a run of `{pipeline.name}_held`, where a person decides
(`assay held` does the same by command). Each run ends with a quality report, linked from its `report` task.
"""


def daily_page(pipeline: Pipeline) -> str:
    """Markdown: what the day's run does beside the hourly ones, and what its colours mean."""
    tables = ", ".join(f"`{table}`" for table in pipeline.gold_tables_of("daily")) or "none is declared"
    return f"""### {pipeline.title}: once a day

Brings the gold tables of days ({tables}) up to silver, then asks what is too dear to ask of each batch.

| task | red means |
|---|---|
| `look` | silver's log could not be read |
| `build_gold`, `gate_gold` | the gold tables of days were not published; they stay as they were |
| `check_tables`, `gate_tables` | a suite over whole tables failed: uniqueness, all three layers of the day, volume, freshness |
| `audit` | a cell of gold is not what silver's rows give; the log names the cell |
| `maintain` | compaction or clean-up failed; no data is lost by that. It waits for an equal audit, so that it removes no evidence |

A red gate does not keep the tables from being looked at and audited. With nothing new in silver, `build_gold` is skipped and the rest
runs all the same. It may run beside the hourly DAG. Owner: **{pipeline.owner}**.
"""


def continuous_page(pipeline: Pipeline, settings: Settings) -> str:
    """Markdown: what a run is, how to switch to it and back, and what stops it."""
    return f"""### {pipeline.title}: continuously

Takes what lands within seconds ({pipeline.stream_trigger}; gold {pipeline.gold_trigger}), by the same code and into the same tables as
`{pipeline.name}_hourly`. One run is one leg of a relay: its driver lives {settings.lifetime_min:g} minutes, ends between two batches, and
the next run goes on from there. So a new version or setting is in force within that time, without a kill.

- **Switch to continuous:** unpause this DAG. Its first driver waits for an hourly run that is at work. Hourly runs then find nothing to do,
  say so and are green; pause `{pipeline.name}_hourly` or leave it as it is.
- **Switch back:** pause this DAG, then `assay stream stop`: the driver ends between two batches, and no other follows. The next run of
  `{pipeline.name}_hourly` goes on from there.
- **End one driver now:** `assay stream stop`; unless the DAG is paused, the next run begins at once.
- **See how it is:** `assay stream status`, `assay status --watch`.

Switching loses nothing and doubles nothing: what has been read is written in the tables and their checkpoints, not in the mode.
`{pipeline.name}_daily`, backfills, replays and decisions need not be stopped: the driver steps aside for them between two batches.

A driver that fails is restarted, at first after seconds, at last after half a minute. A fault that the next try would find again (a
setting, a checkpoint, the books) and a crash loop (30 failures in a row without one batch) fail the run, and **a failed run pauses this
DAG**: the log of `stream` says the cause in one sentence; mend it and unpause. Owner: **{pipeline.owner}**.
"""


def held_page(pipeline: Pipeline) -> str:
    """Markdown: where a run comes from, what each answer does, and that the command line does the same."""
    return f"""### {pipeline.title}: a batch waits for a person

The run whose gate held or stopped a batch makes a run of this DAG for it. **Required Actions** on the run's page shows the verdict,
what failed, and some of the rows (masked). The answer is recorded with your name in `_ops.decisions`, and carried out in this run.

| | a held batch | a stopped batch | of gold |
|---|---|---|---|
| **Release** | its rows are published, once | it is judged again and published in spite of the verdict | the same |
| **Reject** | its rows go to quarantine under the rule `rejected` | its rows go there too | not offered: gold is recomputed from silver |

A decision is final. `assay held list | show | release | reject` does the same on the command line; this run then ends by itself within
ten minutes. The rest of the pipeline does not wait: good data flows on past a held batch. Owner: **{pipeline.owner}**.
"""


def replay_page(pipeline: Pipeline) -> str:
    """Markdown: what a replay does, and how to choose its records."""
    return f"""### {pipeline.title}: quarantined records again

After a parser or a rule was mended: reads quarantined records again and says how many were **recovered** (they enter silver, once), are
**still bad** (they stay, with today's reason) or were a **duplicate** of an event that had come otherwise. Doing it twice changes nothing.

`assay quarantine list` shows the groups; give a rule or a group's fingerprint, or neither for all that are open. What a person has rejected
or dismissed is read again only when its rule or group is named. `assay quarantine replay` does the same on the command line.
Owner: **{pipeline.owner}**.
"""


def watch_page(pipeline: Pipeline) -> str:
    """Markdown: the alert rules with their thresholds, and who is told how."""
    rules = "\n".join(f"| `{rule.name}` | {rule.threshold} |" for rule in pipeline.alerts)
    return f"""### {pipeline.title}: what must be told

Looks every five minutes, and after each run, failure and missed deadline at once, whether one of these rules fires or is over, and tells
it once by mail (`ASSAY_SMTP_HOST`, `ASSAY_ALERT_TO`) and webhook (`ASSAY_ALERT_WEBHOOK`). All that changed at one look is one message.

| rule | fires on |
|---|---|
{rules}

`assay alerts` shows what fires now, `assay alerts test` sends a test message, `assay alerts silence` keeps one quiet for a while. What to
do about each: `infra/runbook/alerts.md`. Red means that a look could not be made at all. Owner: **{pipeline.owner}**.
"""
