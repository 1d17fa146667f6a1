"""One writer per table: a lease with an epoch, renewed while held, checked before every commit.

A lease is a row of small objects, `<lake>/_leases/<table>/<epoch>`: the highest epoch is the holder's. Taking a lease creates the next
epoch exclusively (O_EXCL on a disk, If-None-Match on an object store), so that of two takers exactly one succeeds. A holder whose
process is gone (same host) or that has not renewed for the lease's life may be overtaken; it notices at its next check.

Live writers go before backfills: one that finds a backfill at work waits for its turn and leaves a mark; the backfill looks for
marks between its pieces of work and steps back. A continuous holder never ends by itself: whoever needs one of its tables leaves a mark
and waits, and the continuous one steps aside at its next batch boundary.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from types import TracebackType

from spark_jobs.io.lake import storage
from spark_jobs.io.lease_holder import Holder, myself
from spark_jobs.io.waiting_mark import Kind, Mark, WaitingMark, marks_waiting
from spark_jobs.spec.errors import LeaseHeld, LeaseLost
from spark_jobs.spec.settings import Settings
from spark_jobs.spec.tables import TableId

LOOK_EVERY_S = 0.5  # how soon a waiting writer takes a lease that became free
KEPT_EPOCHS = 5  # older ones are of interest to nobody; a few show who wrote lately


class Lease:
    """The lease of one table, taken by `take`, given back by `release`."""

    def __init__(
        self, settings: Settings, table: TableId, owner: str, *, yields: bool = False, mode: str = "", until: float = 0.0
    ) -> None:  # fmt: skip
        self._fs, root = storage(settings.lake_root)
        self._folder = f"{root}/_leases/{table}"
        self._ttl_s = settings.lease_ttl_s
        self._wait_s = 0 if yields else settings.lease_wait_s
        self._wait_for_backfill_s = 0 if yields else max(settings.lease_wait_s, settings.backfill_wait_s)
        self._wait_for_turn_s = max(settings.lease_wait_s, settings.turn_wait_s)
        self.table = table
        self._me = myself(owner, yields=yields, mode=mode, until=until)
        self.epoch = 0

    def take(self, meanwhile: Callable[[str], None] = lambda _: None) -> None:
        """Become the one writer. Raises LeaseHeld, naming the holder, when another writer is alive.

        A live writer waits for a backfill to step back (`backfill_wait_s`), everybody for a continuous holder to step aside
        (`turn_wait_s`), for any other as long as `lease_wait_s` says, by default not at all. A continuous one waits as long as it takes.
        `meanwhile` is called with a sentence at every look; what it raises ends the waiting.
        """
        began = time.monotonic()
        with WaitingMark(self._fs, self._folder, self._me.owner, self._kind) as mark:
            while (holder := self._take_or_see()) is not None:
                if time.monotonic() - began >= self._patience_s(holder):
                    raise LeaseHeld(
                        f"{self.table} is being written by {holder}. Only one writer at a time: wait until it ends, or stop it; "
                        f"its lease lapses {self._ttl_s} s after its last sign of life."
                    )
                mark.renew()
                meanwhile(f"{self.table} is being written by {holder}; waiting for it.")
                time.sleep(LOOK_EVERY_S)

    @property
    def _kind(self) -> Kind:
        return "backfill" if self._me.yields else "continuous" if self._me.is_continuous else "run"

    def _patience_s(self, holder: Holder) -> float:
        if self._me.is_continuous:
            return float("inf")
        if holder.is_continuous:
            return self._wait_for_turn_s
        return self._wait_for_backfill_s if holder.yields else self._wait_s

    def marks(self) -> list[Mark]:
        """The marks of all that wait for this table."""
        return marks_waiting(self._fs, self._folder)

    def waiting(self) -> list[str]:
        """The owners of live writers that wait for this table."""
        return [mark.owner for mark in self.marks() if mark.kind != "backfill"]

    def _take_or_see(self) -> Holder | None:
        """None when the lease was taken, else who holds it."""
        epoch, holder = self._latest()
        if holder is not None and self._is_alive(holder):
            return holder
        now = time.time()
        self._me = replace(self._me, renewed_at=now, since=now, released=False)
        self._fs.makedirs(self._folder, exist_ok=True)
        try:
            with self._fs.open(self._path(epoch + 1), "xb") as file:
                file.write(json.dumps(asdict(self._me)).encode())
        except FileExistsError:  # taken by another one at this very moment
            return self._take_or_see()
        except OSError:  # the disk is full: an epoch without a holder would keep everybody out until it lapses
            with suppress(OSError):
                self._fs.rm_file(self._path(epoch + 1))
            raise
        self.epoch = epoch + 1
        for old in range(max(1, epoch - 2 * KEPT_EPOCHS), epoch + 1 - KEPT_EPOCHS):
            if self._fs.exists(self._path(old)):
                self._fs.rm_file(self._path(old))
        return None

    def holder(self) -> Holder | None:
        """Who holds the lease now; None when nobody alive does."""
        _, holder = self._latest()
        return holder if holder is not None and self._is_alive(holder) else None

    def newest_epoch(self) -> int:
        """How often the lease was taken; 0: never."""
        return max(self._epochs(), default=0)

    def _is_alive(self, holder: Holder) -> bool:
        return not holder.released and not holder.is_gone() and time.time() - holder.renewed_at < self._ttl_s

    def check(self) -> None:
        """Raises LeaseLost when another writer has taken over. Called before every commit."""
        latest = max(self._epochs(), default=0)
        if latest != self.epoch:
            raise LeaseLost(
                f"{self.table} was taken over by another writer (epoch {latest}, this one was {self.epoch}) while this run was away for "
                f"more than {self._ttl_s} s. This run stops without writing; the other one continues from the same place."
            )

    def renew(self) -> None:
        """Say that this writer is alive. Raises LeaseLost when it was overtaken."""
        self.check()
        self._me = replace(self._me, renewed_at=time.time())
        self._write()

    def say_until(self, until: float) -> None:
        """Let the others see when this holder means to end (epoch seconds)."""
        self._me = replace(self._me, until=until)
        self.renew()

    def release(self) -> None:
        """Give the lease back; a lease that was lost is left alone."""
        if self.epoch and max(self._epochs(), default=0) == self.epoch:
            self._me = replace(self._me, renewed_at=time.time(), released=True)
            self._write()
        self.epoch = 0

    def _write(self) -> None:
        temporary = f"{self._folder}/.{self.epoch:08d}.{os.getpid()}"
        self._fs.pipe_file(temporary, json.dumps(asdict(self._me)).encode())
        self._fs.mv(temporary, self._path(self.epoch))

    def _path(self, epoch: int) -> str:
        return f"{self._folder}/{epoch:08d}"

    def _epochs(self) -> list[int]:
        self._fs.invalidate_cache(self._folder)
        if not self._fs.exists(self._folder):
            return []
        return [int(name) for path in self._fs.ls(self._folder, detail=False) if (name := str(path).rsplit("/", 1)[-1]).isdigit()]

    def _latest(self) -> tuple[int, Holder | None]:
        epoch = max(self._epochs(), default=0)
        if not epoch:
            return 0, None
        try:
            written = json.loads(self._fs.cat_file(self._path(epoch)))
            return epoch, Holder.of(written)
        except ValueError:  # created a moment ago, its owner has yet to write itself in
            written = self._fs.modified(self._path(epoch)).timestamp()
            return epoch, Holder("a writer that is just starting", "?", 0, 0.0, written)


class Leases:
    """The leases of several tables, held together and renewed in the background: `with Leases(...) as leases`."""

    def __init__(
        self, settings: Settings, tables: Sequence[TableId], owner: str, on_lost: Callable[[LeaseLost], None] | None = None, *,
        yields: bool = False, mode: str = "", until: float = 0.0, say: Callable[[str], None] = lambda _: None,
        still: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`still` is called at every look while waiting for others; what it raises ends the waiting."""
        self._still = still
        self._leases = [
            Lease(settings, table, owner, yields=yields, mode=mode, until=until) for table in sorted(tables, key=str)
        ]  # one order, so that two takers never wait in a ring
        self._say = say
        self._every_s = settings.lease_ttl_s / 4
        self._done = threading.Event()
        self._on_lost = on_lost
        self._renewer = threading.Thread(target=self._renew, name="lease-renewer", daemon=True)

    def __enter__(self) -> Leases:
        taken: list[Lease] = []
        said: set[TableId] = set()

        def meanwhile(sentence: str) -> None:
            if lease.table not in said:
                said.add(lease.table)
                self._say(sentence)
            for held in taken:
                held.renew()
            self._still()

        try:
            for lease in self._leases:
                lease.take(meanwhile)
                taken.append(lease)
        except BaseException:
            for lease in taken:
                lease.release()
            raise
        self._renewer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._renewer.join()
        for lease in self._leases:
            with suppress(OSError):  # it lapses by itself, and what ended the run is what must be told
                lease.release()

    def check(self) -> None:
        for lease in self._leases:
            lease.check()

    def say_until(self, until: float) -> None:
        for lease in self._leases:
            lease.say_until(until)

    def marks(self) -> list[Mark]:
        """Of all that wait for one of the tables."""
        return [mark for lease in self._leases for mark in lease.marks()]

    def epoch(self, table: TableId) -> int:
        return next(lease.epoch for lease in self._leases if lease.table == table)

    def _renew(self) -> None:
        while not self._done.wait(self._every_s):
            for lease in self._leases:
                try:
                    lease.renew()
                except LeaseLost as lost:
                    if self._on_lost:
                        self._on_lost(lost)
                    return
                except OSError:
                    continue  # the disk may have room again before the lease lapses; `check` is asked before each commit anyway
