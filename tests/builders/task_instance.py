"""What a task of a DAG is given when a test calls it: the XComs of the tasks before it."""

from typing import Any


class Instance:
    """A task instance with XComs to pull: `Instance(plan={...})`."""

    def __init__(self, **said: Any) -> None:
        self.said = said

    def xcom_pull(self, task_ids: str) -> Any:
        return self.said[task_ids]
