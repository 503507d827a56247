"""The branches of a session, and the one that is current: each an `ItemLog` of a rollout of its own.

Nothing is made on the disk before the first item. A branch is a fork by reference; which ones there are is told by the
ledger (see `ledger`), whose line makes it one: a crash before that leaves a rollout that is no branch and in nobody's
way. A branch that is deleted is only said to be: its rollout stays, as others may go on from it, until somebody deletes
that (`rollout delete`). Its name is never used again.

Every method may be called in a thread of its own, `close` once, when no other call is under way. Making it touches no
file. Each begins with a look at the ledger, so that what another process has done to the branches before is known.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollout.adapters.agents.conversation import BranchError, Conversation, Place, read_conversation, read_totals
from rollout.adapters.agents.itemlog import ItemLog
from rollout.adapters.agents.ledger import MAIN, Branch, Cleared, Current, Ledger
from rollout.adapters.agents.opaque import parts_of
from rollout.errors import NotFound, RolloutError, UsageError
from rollout.files.directories import mark_synced
from rollout.files.source import Origin
from rollout.files.thread_names import Names
from rollout.format import labels
from rollout.format.labels import UNLABELLED
from rollout.items.events import Entry
from rollout.limits import DEFAULT, Limits
from rollout.session.environment import Ports
from rollout.session.log import SessionLog
from rollout.session.shared_log import SharedRecorder
from rollout.store import Store

MODEL_PROVIDER = "openai"
ORIGINATOR = "openai-agents"
"""What the session_meta of a session's rollout says."""
_MOST_BASES = 100
"""A branch of more generations than these stands alone: each costs every reader an open file."""


class Snapshot(NamedTuple):
    """The newest entries of a log; `is_whole`: there are no others."""

    log: ItemLog
    entries: Sequence[Entry]
    is_whole: bool


class Branches:
    """All branches of one session. Safe to use from several threads and processes."""

    def __init__(self, ports: Ports, session_id: str, lock_timeout_s: float) -> None:
        assert ports.home is not None
        self._home, self._ports, self._session_id, self._lock_timeout_s = ports.home, ports, session_id, lock_timeout_s
        cipher = ports.keys.cipher()
        self._store = Store(ports.home, fs=ports.fs, clock=ports.clock, randomness=ports.randomness, cipher=cipher)
        self._label = UNLABELLED
        with contextlib.suppress(UsageError):  # the session id, if it can be a label
            self._label = labels.label(session_id)
        self._guard = threading.RLock()  # of all below
        self._ledger = Ledger(ports, ports.home, session_id, lock_timeout_s)
        self._logs: dict[str, ItemLog] = {}  # by thread id
        self._made: dict[str, Path] = {}  # the same: the rollouts that this object has made for the main branch
        self._current: str | None = None  # not looked up yet
        self._clears = 0  # that it has taken note of

    @property
    def current(self) -> str:
        """The current branch: what the ledger said at first, what `switch` has said since, main after a clear."""
        with self._guard:
            self._ledger.refresh()
            if self._current is None:
                self._current = self._ledger.current
            elif self._clears != self._ledger.clears:
                self._current = MAIN
            self._clears = self._ledger.clears
            return self._current

    def items(self, limit: int | None, branch: str | None = None) -> list[Any]:
        """The newest items of a branch (None: the current one), oldest first. NotFound if its rollout was deleted."""
        log = self._log(branch)
        return [] if log is None else log.newest(limit)

    def add(self, items: list[Any]) -> None:
        """Appends to the current branch, with the label in force here. RecordError, NotFound, WriteError."""
        if items:
            parts = parts_of(items)  # refused before anything is made
            self._begun().write(parts)

    def pop(self) -> Any:
        """Takes the newest item of the current branch out."""
        log = self._writable()
        return None if log is None else log.pop()

    def snapshot(self, limit: int) -> Snapshot | None:
        """The newest items of the current branch, to be replaced later; None if there are none."""
        log = self._writable()
        entries: Sequence[Entry] = [] if log is None else log.entries(limit + 1)
        return None if log is None or not entries else Snapshot(log, entries[-limit:], len(entries) <= limit)

    def replace(
        self, snapshot: Snapshot, start: int, items: list[Any], prunes: Callable[[Any], bool] | None = None
    ) -> bool:
        """Puts items in the place of a snapshot's from `start` on, all or nothing; False if these have changed.

        `prunes` tells the oldest items that may go as well (see `ItemLog.replace`).
        """
        parts = parts_of(items)
        is_all, expected = snapshot.is_whole and start == 0, snapshot.entries[start:]
        return bool(expected) and snapshot.log.replace(expected, parts, is_all=is_all, prunes=prunes)

    def replace_all(self, items: list[Any]) -> None:
        """Puts items in the place of all of the current branch, all or nothing."""
        parts = parts_of(items)
        self._begun().replace_all(parts)

    def clear(self) -> None:
        """Takes all items out of the main branch and deletes all others; main is current.

        If the rollout of main was deleted, it begins anew. A crash may leave main cleared and the others there.
        """

        def clear() -> None:
            try:
                self._log_of(self._ledger.branches[MAIN]).replace_all([])
            except NotFound:
                self._begin()
            if self._ledger.current != MAIN or len(self._live()) > 1:
                self._ledger.note(Cleared(self._ports.timestamp()))

        with self._guard:
            if self._log(MAIN) is not None:
                self._ledger.carry_out(clear)
                self._current, self._clears = MAIN, self._ledger.clears

    def close(self) -> None:
        """Lets go of all files."""
        with self._guard:
            for log in self._logs.values():
                log.close()
            self._ledger.close()

    def list_all(self) -> list[tuple[Branch, Conversation]]:
        """The branches, oldest first, and what they say; none if nothing was ever said, or all of it is cleared."""
        current, found = self.current, []
        for branch in self._live():
            with contextlib.suppress(NotFound):  # its rollout was deleted
                found.append((branch, self._read(branch)))
        is_all = len(found) == 1 and found[0][0].branch == current == MAIN
        return [] if is_all and not found[0][1].placed else found

    def read(self, branch: str | None = None) -> Conversation:
        """What a branch (None: the current one) says; nothing, if there is none of that name. SourceError."""
        with self._guard:
            found = self._find(branch)
        return Conversation() if found is None else self._read(found)

    def path_of(self, branch: Branch) -> Path:
        """Where the rollout of a branch is now, sealed or not. NotFound."""
        return self._ledger.find(branch)

    def switch(self, name: str) -> None:
        """Makes a branch the current one, here and for those who open the session from now on. BranchError."""

        def change() -> None:
            self._check_live(name)
            if self._ledger.current != name:
                self._ledger.note(Current(name))

        with self._guard:
            if self.current == name == MAIN:
                return
            self._check_live(name)
            self._ledger.carry_out(change)
            self._current = name

    def delete(self, name: str, *, force: bool) -> None:
        """Deletes a branch; the current one only by `force`: main is current then. BranchError."""

        def change() -> None:
            self._check_live(name)
            self._ledger.note(msgspec.structs.replace(self._ledger.branches[name], deleted=True))

        if name == MAIN:
            raise BranchError("the main branch cannot be deleted", remedy="clear the session")
        with self._guard:
            is_current = self.current == name
            if is_current and not force:
                raise BranchError(f"{name!r} is the current branch", remedy="switch to another, or give force=True")
            self._check_live(name)
            self._ledger.carry_out(change)
            if is_current:
                self._current = MAIN

    def create(
        self, name: str | None = None, choose: Callable[[Conversation], int] | None = None, *, after: bool = False
    ) -> str:
        """A branch of the current one, which becomes current. Its name, made up if there is none yet. BranchError.

        It begins ahead of the turn that `choose` tells, or with `after` behind it; without it, behind everything.
        """
        if name is not None:
            _check_name(name)
        with self._guard:
            self._begun()
            self._current = self._ledger.carry_out(lambda: self._create(name, choose, after))
            return self._current

    def _create(self, name: str | None, choose: Callable[[Conversation], int] | None, after: bool) -> str:
        source = self._find(None)
        if name is not None and name in self._ledger.branches:
            raise BranchError(f"the name {name!r} has already been used", remedy="choose another")
        assert source is not None

        def fork(recorder: SharedRecorder) -> Branch:
            end = Place(str(recorder.path), recorder.writer.end)
            place: Place | None = end
            turn, taken, beginning = None, 0, "branch_from_end"
            if choose is not None:  # nothing needs to be read for the end
                conversation = read_conversation(self._origin(recorder.path, end.offset))
                turn = choose(conversation)
                kept = conversation.count_up_to(turn, after=after)
                taken = len(conversation.placed) - kept
                place = conversation.placed[kept].place if taken else end
                beginning = f"branch_{'after' if after else 'from'}_turn_{turn}"
            with self._fork(place or end, end) as child:
                if place is None:
                    child.remove_items(taken)
            path, created = child.path.relative_to(self._home).as_posix(), self._ports.timestamp()
            own_name = name or self._free_name(beginning)
            return Branch(own_name, child.id, path, created, source.branch, turn, after or turn is None)

        branch = self._log_of(source).carry_out(fork)
        self._ledger.note(branch)
        return branch.branch

    def _fork(self, place: Place, end: Place) -> SessionLog:
        """The rollout of a new branch: it refers to its source up to a place, or stands alone if that is deep."""
        with self._origin(Path(end.path), end.offset).opened() as lineage:
            is_deep = sum(1 for _ in lineage) >= _MOST_BASES
        with self._store.open(Path(place.path), "read") as source:
            return source.fork(place.offset, copy=is_deep)

    def _free_name(self, beginning: str) -> str:
        first = name = f"{beginning}_{int(self._ports.clock())}"
        number = 1
        while name in self._ledger.branches:
            number += 1
            name = f"{first}_{number}"
        return name

    def record_usage(self, counted: object) -> bool:
        """Records what a run has used for the newest turn of the current branch; False if there is none."""

        def append(recorder: SharedRecorder) -> bool:
            origin = self._origin(recorder.path, recorder.writer.end)
            part = read_conversation(origin).tell_usage(counted, read_totals(origin))
            if part is not None:
                recorder.write([part])
            return part is not None

        log = self._writable()
        return log is not None and log.carry_out(append)

    def _read(self, branch: Branch) -> Conversation:
        return self._log_of(branch).read(lambda path: read_conversation(self._origin(path)))

    def _origin(self, path: Path, size: int | None = None, limits: Limits = DEFAULT) -> Origin:
        fs, keys = self._ports.fs, self._ports.keys
        return Origin(None, path, self._home, limits, size=size, fs=fs, keys=keys, likely=self._ledger.likely)

    def _live(self) -> list[Branch]:
        with self._guard:
            return [branch for branch in self._ledger.branches.values() if not branch.deleted]

    def _check_live(self, name: str) -> None:
        if name not in [branch.branch for branch in self._live()]:
            raise BranchError(f"there is no branch {name!r}", remedy="see list_branches()")

    def _find(self, name: str | None) -> Branch | None:
        """The branch of a name (None: the current one; NotFound if that was deleted)."""
        current = self.current
        branch = self._ledger.branches.get(current if name is None else name)
        if branch is None or not branch.deleted:
            return branch
        if name is None:
            remedy = "switch to another"
            raise NotFound(f"the current branch {current!r} was deleted", path=self._ledger.path, remedy=remedy)
        return None

    def _log(self, name: str | None = None) -> ItemLog | None:
        """The log of a branch (None: the current one); None if nothing was ever written to it, or it was deleted."""
        with self._guard:
            branch = self._find(name)
            return None if branch is None else self._log_of(branch)

    def _log_of(self, branch: Branch) -> ItemLog:
        with self._guard:
            thread = branch.thread
            if thread not in self._logs:
                find, ports = functools.partial(self._ledger.find, branch), self._ports
                made = self._made.get(thread)
                self._logs[thread] = ItemLog(find, self._origin, ports, self._label, self._lock_timeout_s, made)
            return self._logs[thread]

    def _writable(self) -> ItemLog | None:
        """The log of the current branch, which the ledger on the disk has; None if nothing was ever written."""
        with self._guard:
            log = self._log()
            if not self._ledger.is_settled:
                self._ledger.carry_out(lambda: None)
            return log

    def _begun(self) -> ItemLog:
        """The same, made if it is not there."""
        with self._guard:
            log = self._writable()
            if log is None:
                self._ledger.carry_out(self._begin)
                log = self._writable()
            assert log is not None
            return log

    def _begin(self) -> None:
        """Makes the rollout of the main branch, durably, then says so in the ledger, which is held.

        Unless it is there: another process was faster.
        """
        with contextlib.suppress(NotFound, KeyError):
            self._ledger.find(self._ledger.branches[MAIN])
            return
        made = self._store.create(
            cwd=Path.cwd(),
            model_provider=MODEL_PROVIDER,
            originator=ORIGINATOR,
            session_id=self._label.session_id,
            agent_session_id=self._session_id,
        )
        made.close()
        mark_synced(self._ports.fs, made.path.parent)
        self._made[made.id] = made.path
        path = made.path.relative_to(self._home).as_posix()
        self._ledger.note(Branch(MAIN, made.id, path, self._ports.timestamp()))
        with contextlib.suppress(RolloutError):  # no name that a thread can have, or it cannot be written
            Names(self._home, self._ports.fs).note(made.id, self._session_id, self._ports.timestamp())


def _check_name(name: object) -> None:
    """BranchError for what is no name of a branch."""
    if not isinstance(name, str) or not name.strip():
        raise BranchError("a branch needs a name", remedy="give one that is not blank")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BranchError(f"{name!r} is no text", remedy="give a name without lone surrogates") from None
