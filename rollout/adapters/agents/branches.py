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
from typing import Any, Literal, NamedTuple, overload

import msgspec

from rollout.adapters.agents.cuts import BranchError, Cut, check_name, no_branch
from rollout.adapters.agents.itemlog import ItemLog
from rollout.adapters.agents.ledger import MAIN, Branch, Cleared, Current, Ledger
from rollout.adapters.agents.opaque import parts_of
from rollout.adapters.agents.places import Places
from rollout.adapters.agents.turns import Conversation, Place, read_conversation, read_current
from rollout.adapters.agents.usage import take_usage, tell_usage
from rollout.dialects.codex import encoder
from rollout.errors import NotFound, RolloutError, UsageError
from rollout.files.directories import mark_synced
from rollout.files.source import Origin
from rollout.files.thread_names import Names
from rollout.format import labels
from rollout.format.labels import UNLABELLED, Label
from rollout.items.dialect import Entry
from rollout.limits import DEFAULT, Limits
from rollout.session.environment import Ports
from rollout.session.log import SessionLog
from rollout.session.shared_log import SharedLog, SharedRecorder
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
        self._home = ports.home
        cipher = ports.keys.cipher()
        self._store = Store(ports.home, fs=ports.fs, clock=ports.clock, randomness=ports.randomness, cipher=cipher)
        self._ports, self._session_id, self._lock_timeout_s = ports, session_id, lock_timeout_s
        self._label = _label_of(session_id)
        self._guard = threading.RLock()  # of all below
        self._ledger = Ledger(ports, session_id, lock_timeout_s)
        self._places = Places(self._home, ports.fs, self._ledger)
        self._logs: dict[str, ItemLog] = {}  # by thread id
        self._made: tuple[str, Path] | None = None  # the rollout that this object has made last
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
            self._writable(begins=True).write(parts)

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
        self._writable(begins=True).replace_all(parts)

    def clear(self) -> None:
        """Takes all items out of the main branch and deletes all others; main is current.

        If the rollout of main was deleted, it begins anew. A crash may leave main cleared and the others there.
        """
        with self._guard:
            if self._log(MAIN) is not None:
                self._ledger.carry_out(self._clear)
                self._ledger.settle()
                self._current, self._clears = MAIN, self._ledger.clears

    def _clear(self) -> None:
        log = self._log(MAIN)
        assert log is not None
        try:
            log.clear()
        except NotFound:
            self._begin_anew()
        if self._ledger.current != MAIN or len(self._live()) > 1:
            self._ledger.note(Cleared(self._ports.timestamp()))

    def close(self) -> None:
        """Lets go of all files."""
        with self._guard:
            for log in self._logs.values():
                log.shared.close()
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
        return Conversation([], []) if found is None else self._read(found)

    def switch(self, name: str) -> None:
        """Makes a branch the current one, here and for those who open the session from now on. BranchError."""
        with self._guard:
            if name == MAIN == self.current:
                return
            if name != MAIN and self._log(name) is None:
                raise no_branch(name)

            def change() -> None:
                self._check_live(name)
                if self._ledger.current != name:
                    self._ledger.note(Current(name))

            self._ledger.carry_out(change)
            self._ledger.settle()
            self._current = name

    def delete(self, name: str, *, force: bool) -> None:
        """Deletes a branch; the current one only by `force`: main is current then. BranchError."""
        check_name(name)
        if name == MAIN:
            raise BranchError("the main branch cannot be deleted", remedy="clear the session")
        with self._guard:
            is_current = self.current == name
            if is_current and not force:
                raise BranchError(f"{name!r} is the current branch", remedy="switch to another, or give force=True")
            if self._log(name) is None:
                raise no_branch(name)

            def change() -> None:
                self._check_live(name)
                self._ledger.note(msgspec.structs.replace(self._ledger.branches[name], deleted=True))

            self._ledger.carry_out(change)
            if is_current:
                self._current = MAIN

    def create(self, name: str | None, choose: Cut | Callable[[Conversation], Cut]) -> str:
        """A branch of the current one, which becomes current; `choose` tells what it keeps. Its name. BranchError."""
        if name is not None:
            check_name(name)
        with self._guard:
            self._writable(begins=True)
            self._current = self._ledger.carry_out(lambda: self._create(name, choose))
            return self._current

    def _create(self, name: str | None, choose: Cut | Callable[[Conversation], Cut]) -> str:
        source = self._find(None)
        if name is not None and name in self._ledger.branches:
            raise BranchError(f"the name {name!r} has already been used", remedy="choose another")
        assert source is not None

        def fork(recorder: SharedRecorder) -> Branch:
            end = Place(str(recorder.path), recorder.writer.end)
            conversation, cut = None, choose
            if not isinstance(cut, Cut):
                conversation = read_conversation(self._origin(recorder.path, end.offset))
                cut = cut(conversation)
            made = self._fork(conversation, cut, end)
            path = made.path.relative_to(self._home).as_posix()
            own_name, created = name or self._free_name(cut.name), self._ports.timestamp()
            return Branch(own_name, made.id, path, created, source.branch, cut.turn, cut.after)

        branch = self._log_of(source).shared.carry_out(fork)
        self._ledger.note(branch)
        return branch.branch

    def record_usage(self, counted: object) -> bool:
        """Records what a run has used for the newest turn of the current branch; False if there is none."""
        log = self._writable()
        if log is None:
            return False

        def append(recorder: SharedRecorder) -> bool:
            current = read_current(self._origin(recorder.path, recorder.writer.end))
            if current.turn is None:
                return False
            recorder.write([tell_usage(take_usage(counted, current.turn), current)])
            return True

        return log.shared.carry_out(append)

    def _fork(self, conversation: Conversation | None, cut: Cut, end: Place) -> SessionLog:
        """The rollout of a new branch, on the disk: it refers to the source up to where the cut is."""
        place: Place | None = end
        taken = 0
        if conversation is not None and cut.kept is not None and cut.kept < len(conversation.placed):
            place, taken = conversation.placed[cut.kept].place, len(conversation.placed) - cut.kept
        with self._store.open(Path((place or end).path), "read") as source:
            child = source.fork((place or end).offset, copy=self._is_deep(end))
        with child:
            if place is None:
                child.remove_items(taken)
        return child

    def _is_deep(self, end: Place) -> bool:
        with self._origin(Path(end.path), end.offset).opened() as lineage:
            return sum(1 for _ in lineage) >= _MOST_BASES

    def _free_name(self, beginning: str) -> str:
        first = name = f"{beginning}_{int(self._ports.clock())}"
        number = 1
        while name in self._ledger.branches:
            number += 1
            name = f"{first}_{number}"
        return name

    def _read(self, branch: Branch) -> Conversation:
        return self._log_of(branch).shared.read(lambda path: read_conversation(self._origin(path)))

    def _origin(self, path: Path, size: int | None = None, limits: Limits = DEFAULT) -> Origin:
        fs, keys = self._ports.fs, self._ports.keys
        return Origin(None, path, self._home, limits, size=size, fs=fs, keys=keys, likely=self._places.likely)

    def _live(self) -> list[Branch]:
        with self._guard:
            return [branch for branch in self._ledger.branches.values() if not branch.deleted]

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

    def _check_live(self, name: str) -> None:
        branch = self._ledger.branches.get(name)
        if branch is None or branch.deleted:
            raise no_branch(name)

    def _log(self, name: str | None = None) -> ItemLog | None:
        """The log of a branch (None: the current one); None if nothing was ever written to it, or it was deleted."""
        with self._guard:
            branch = self._find(name)
            return None if branch is None else self._log_of(branch)

    def _log_of(self, branch: Branch) -> ItemLog:
        with self._guard:
            log = self._logs.get(branch.thread)
            if log is None:
                made = self._made[1] if self._made is not None and self._made[0] == branch.thread else None
                find = functools.partial(self._places.find, branch)
                log = ItemLog(SharedLog(find, self._ports, self._label, self._lock_timeout_s, made), self._origin)
                self._logs[branch.thread] = log
            return log

    @overload
    def _writable(self, *, begins: Literal[True]) -> ItemLog: ...
    @overload
    def _writable(self) -> ItemLog | None: ...
    def _writable(self, *, begins: bool = False) -> ItemLog | None:
        """The log of the current branch, which the ledger on the disk has; `begins`: made if it is not there."""
        with self._guard:
            log = self._log()
            if log is None and begins:
                log = self._begun()
            self._ledger.settle()
            return log

    def _begun(self) -> ItemLog:
        """The log of the main branch, made if no other process was faster."""

        def begin() -> None:
            if MAIN not in self._ledger.branches:
                self._begin_main()

        with self._guard:
            self._ledger.carry_out(begin)
            log = self._log()
            assert log is not None
            return log

    def _begin_anew(self) -> None:
        """An empty rollout for the main branch, whose own is gone, unless another process was faster."""
        try:
            self.path_of(self._ledger.branches[MAIN])
        except NotFound:
            self._begin_main()

    def _begin_main(self) -> None:
        """Makes the rollout of the main branch, durably, then says so in the ledger, which is held."""
        made = self._store.create(
            cwd=Path.cwd(),
            model_provider=MODEL_PROVIDER,
            originator=ORIGINATOR,
            session_id=self._label.session_id,
            agent_session_id=self._session_id,
        )
        made.close()
        mark_synced(self._ports.fs, made.path.parent)
        self._made = made.id, made.path
        path = made.path.relative_to(self._home).as_posix()
        self._ledger.note(Branch(MAIN, made.id, path, encoder.timestamp(self._ports.clock())))
        with contextlib.suppress(RolloutError):  # no name that a thread can have, or it cannot be written
            Names(self._home, self._ports.fs).note(made.id, self._session_id, self._ports.timestamp())

    def path_of(self, branch: Branch) -> Path:
        """Where the rollout of a branch is now, sealed or not. NotFound."""
        return self._places.find(branch)


def _label_of(session_id: str) -> Label:
    """The session id as a label, if it can be one."""
    try:
        return labels.label(session_id)
    except UsageError:
        return UNLABELLED
