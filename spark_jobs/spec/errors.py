"""One error root. Every foreseen fault is one sentence: what is wrong, where, and what to do."""


class AssayError(Exception):
    """The root of every foreseen fault. Its text is shown to the user as it stands, without a stack trace."""

    exit_code = 1


class ConfigurationFault(AssayError):
    """A setting, option, folder, permission or installed part is missing or impossible; nothing was started."""

    exit_code = 2


class UnknownName(ConfigurationFault):
    """A pipeline, table, batch or file was named that does not exist."""


class LeaseHeld(AssayError):
    """Another writer holds the lease of a table, so this one does not start (or does not commit)."""

    exit_code = 3


class LeaseLost(LeaseHeld):
    """The lease was taken over by another writer while this one was at work; nothing more is written."""


class CheckpointDamaged(AssayError):
    """A checkpoint file is missing or unreadable, or belongs to other data; noticed before anything is written."""

    exit_code = 4


class SourceChanged(AssayError):
    """Rows of a table that the next layer streams were updated, deleted or restored by somebody else: it is not what was read from."""

    exit_code = 4


class BooksUnbalanced(AssayError):
    """A batch's counts do not add up: a record is unaccounted for. The run fails."""

    exit_code = 5


class StorageFault(AssayError):
    """The machine refused: the disk is full, a folder may not be written, the memory did not suffice. Running again continues."""

    exit_code = 7


class GateStopped(AssayError):
    """A suite failed with the policy `stop`: nothing of the batch is committed."""

    exit_code = 6


class CrashLoop(AssayError):
    """A continuous driver failed many times in a row without one batch coming through: starting it again does not help."""

    exit_code = 8
