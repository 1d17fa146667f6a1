"""The run in one line, in one equation, and as a flow from landing to gold."""

from __future__ import annotations

from typing import Any

from spark_jobs.spec.gates import OUTCOMES
from spark_jobs.spec.pipeline import Pipeline
from spark_jobs.spec.tables import LAYERS

WORDS = {
    "pass": "Passed", "warn": "Passed with a note", "hold": "Held", "stop": "Stopped", "unbalanced": "Books do not balance",
    "unequal": "Gold is not what silver says",
}  # fmt: skip


def outcome_of_run(tables: list[dict[str, Any]], files: dict[str, Any], standing: dict[str, Any]) -> dict[str, str]:
    """`state` (pass, warn, hold, stop or unbalanced), its `word`, and a `sentence`. `standing`: see `standing_of_run`."""
    wrong = [table for table in tables if not table["is_balanced"]]
    if wrong:
        bad = next(batch for batch in wrong[0]["batches"] if not batch["is_balanced"])
        sentence = f"A record is unaccounted for: {wrong[0]['table']} {bad['batch_id']}: {bad['equation']}."
        return {"state": "unbalanced", "word": WORDS["unbalanced"], "sentence": sentence}
    unequal = [audit for audit in standing["audits"] if not audit["is_equal"]]
    if unequal:
        said = " ".join(str(audit["sentence"]) for audit in unequal[:3])
        return {"state": "unbalanced", "word": WORDS["unequal"], "sentence": said}
    judged = [*tables, *({**verdict, "sentences": [verdict["sentence"]]} for verdict in standing["whole_tables"])]
    state = max((table["outcome"] for table in judged), key=OUTCOMES.index, default="pass")
    said = [sentence for table in judged if table["outcome"] == state != "pass" for sentence in table["sentences"]]
    said += [
        f"{table['table']} {batch['batch_id']} was {'released' if batch['decision'] == 'release' else 'rejected'} by a person."
        for table in tables
        for batch in table["batches"]
        if batch["decision"] and state == "warn"
    ]
    failed = files["counts"].get("failed", 0)
    if failed:
        them = "them" if failed != 1 else "it"
        said.append(f"{failed:,} file{'s' if failed != 1 else ''} could not be read; the good files beside {them} went through.")
        state = "warn" if state == "pass" else state
    if growing := standing["quarantine"]["growing"]:
        said.append(f"{growing} group{'s' if growing != 1 else ''} of the quarantine {'are' if growing != 1 else 'is'} growing.")
        state = "warn" if state == "pass" else state
    if not said:
        said = _what_held(tables, standing)
    return {"state": state, "word": WORDS[state], "sentence": " ".join(said)}


def _what_held(tables: list[dict[str, Any]], standing: dict[str, Any]) -> list[str]:
    checks, batches = sum(check["batches"] for table in tables for check in table["checks"]), sum(len(table["batches"]) for table in tables)
    said = [f"{checks:,} expectations held on {batches:,} batches."] if checks else []
    if whole := sum(len(verdict["checks"]) for verdict in standing["whole_tables"]):
        said.append(f"{whole} expectations held on whole tables.")
    if standing["audits"]:
        cells = sum(audit["cells"] or 0 for audit in standing["audits"])
        said.append(f"The audit found {cells:,} cells of {len(standing['audits'])} gold tables equal to silver.")
    return said or ["Nothing was judged."]


def summary(tables: list[dict[str, Any]], files: dict[str, Any], standing: dict[str, Any]) -> dict[str, Any]:
    """The equation that covers what the run took in: `lead`, `read`, `terms` (word and number) and whether it `is_balanced`.

    Records are counted where they come in (bronze) and where they end (silver); a run that only went on in silver counts there.
    """
    totals = {table["layer"]: table["books"] for table in tables if table["batches"] and table["layer"] != "gold"}
    balanced = all(table["is_balanced"] for table in tables)
    bronze, silver = totals.get("bronze"), totals.get("silver")
    if bronze is None and silver is None:
        listed = sum(files["counts"].values())
        cared = standing["maintenance"]["sentence"]
        return {
            "lead": f"{listed:,} files entered in the ledger; no record was written." if listed else cared or "No record was written.",
            "read": None,
            "terms": [],
            "is_balanced": balanced,
        }
    first = bronze or silver or {}
    if bronze and silver and bronze["written"] == silver["read"]:
        terms = [
            ("published", silver["written"]), ("quarantined", bronze["quarantined"] + silver["quarantined"]),
            ("duplicate", silver["duplicate"]), ("held", bronze["held"] + silver["held"]),
        ]  # fmt: skip
    else:
        word = "kept in bronze" if bronze else "published"
        terms = [
            (word, first["written"]),
            ("quarantined", first["quarantined"]),
            ("duplicate", first["duplicate"]),
            ("held", first["held"]),
        ]
    balanced = balanced and first["read"] == sum(number for _, number in terms)
    lead = "Every record accounted for" if balanced else "A record is unaccounted for"
    return {
        "lead": lead,
        "read": first["read"],
        "terms": [{"word": word, "number": number} for word, number in terms],
        "is_balanced": balanced,
    }


def flow(pipeline: Pipeline, tables: list[dict[str, Any]], files: dict[str, Any]) -> list[dict[str, Any]]:
    """Landing, bronze, silver and gold: each with a `number`, its `unit`, a `state` and `notes` on what did not go on."""
    counts = files["counts"]
    notes = [
        f"{counts[state]:,} {word}"
        for state, word in (("failed", "failed"), ("ignored", "not logs"), ("not read", "not read yet"))
        if counts.get(state)
    ]
    state = "warn" if counts.get("failed") else "pass"
    stages: list[dict[str, Any]] = [
        {"stage": "landing", "number": counts.get("ok", 0), "unit": "files read", "state": state, "notes": notes}
    ]
    daily = set(map(str, pipeline.gold_tables_of("daily")))
    for layer in LAYERS:
        mine = [table for table in tables if table["layer"] == layer]
        if not mine:
            stages.append({"stage": layer, "number": None, "unit": "not reached", "state": "none", "notes": []})
            continue
        run_of = pipeline.gold_tables_of("daily" if any(table["table"] in daily for table in mine) else "hourly")
        unit = {"bronze": "records kept", "silver": "events published", "gold": f"of {len(run_of)} tables recomputed"}[layer]
        written = sum(bool(table["batches"]) if layer == "gold" else table["books"]["written"] for table in mine)
        notes = [
            f"{number:,} {term}" for term in ("quarantined", "duplicate", "held") if (number := sum(table["books"][term] for table in mine))
        ]
        stopped = [batch for table in mine for batch in table["stopped"]]
        notes += [f"{len(stopped)} batch{'es' if len(stopped) != 1 else ''} stopped"] if stopped else []
        state = max((table["outcome"] for table in mine), key=OUTCOMES.index)
        state = state if all(table["is_balanced"] for table in mine) else "stop"
        stages.append({"stage": layer, "number": written, "unit": unit, "state": state, "notes": notes})
    return stages
