"""Whether a batch may pass: one suite per table, and the gate that gives them consequences."""
