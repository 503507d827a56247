"""Mend a rollout offline: `plan_repair` looks and changes nothing, `apply_repair` does what the plan says.

The *end* is mended as the next writer would do it (see `files.recovery`). *Inside*, one pass over the text gives that
of a new file. Each record gets a line of its own there, byte for byte as it stands; NUL runs, blank lines, byte-order
marks and carriage returns at line ends are dropped; damaged pieces move to `<name>.damaged-<n>`, a JSON line {"offset",
"base64"} for each. What is whole comes out as it went in, so a file that needs nothing gives itself, and no steps. A
line that is only longer than the limit stays: another limit reads it. A session_meta that is missing stays missing.

The new file takes the old one's place only if it reconstructs to the same state and needs no repair itself. Before
that the old one, in which the offsets of damaged bytes count, is copied to `<name>.backup-<n>`. After a crash at any
point the file is the old or the new one, and the backup is there with the new one. Everything is done under the
writer's lock. A file that continues this one from a byte offset (`history_base`) needs the bytes before it where they
are: then the end alone is mended.

Whoever else writes a rollout file anew proves it as a repair does (`Proof`), under the same lock. The *fingerprint* of
a file is what a reader learns of it: history (from which the prompt follows), previous model, reference context in its
three states, world state, token usage, session, thread id, and the turns.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rollout.dialects.codex import envelope
from rollout.errors import Conflict, InUse, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files import recovery
from rollout.files.disk import REAL, AppendFile, FileSystem
from rollout.files.fork import Users
from rollout.files.lineage import holds_record
from rollout.files.plain import FileSource
from rollout.files.port import Progress, explained
from rollout.files.sealed.reader import MAGIC
from rollout.files.source import AnySource, Origin, find, locate_to_change
from rollout.files.staging import BACKUP, DAMAGED, hidden, replace, write
from rollout.files.writer import holder
from rollout.fold.projection import ContextBaseline
from rollout.fold.turn_list import Turn
from rollout.format import lines, records
from rollout.format.records import Line, Segment
from rollout.limits import DEFAULT, MIB, Limits
from rollout.session.state import read_state

T = TypeVar("T")
_BOM = b"\xef\xbb\xbf"
_NULS = "NUL bytes"


@dataclasses.dataclass(frozen=True, slots=True)
class RepairStep:
    """What is done in `line` (from 1) to `size_bytes` bytes from `offset` on, and the `reason`.

    `action` is newline (the last record gets one), cut (kept in a file beside first), drop, move (to a file beside),
    separate (the record gets a line of its own) or unmark (the record no longer waits for the rest of its batch). Like
    steps in neighbouring lines are one, `count` times, up to `last_line`. `inside`: not at the end of the file.
    """

    action: str
    line: int
    last_line: int
    offset: int
    size_bytes: int
    reason: str
    inside: bool = True
    count: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """Damaged bytes, and where they stood."""

    offset: int
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class RepairPlan:
    """What `apply_repair` would do to the file at `path`, of `size_bytes`: nothing, if there are no `steps`.

    `in_use` names the files that continue this one from behind the first inside step: those steps are then refused.
    """

    path: Path
    size_bytes: int
    steps: tuple[RepairStep, ...]
    in_use: tuple[str, ...]
    _end: recovery.RecoveryPlan = dataclasses.field(repr=False)
    _origin: Origin = dataclasses.field(repr=False)

    @property
    def inside(self) -> tuple[RepairStep, ...]:
        """The steps for which the file has to be written anew."""
        return tuple(step for step in self.steps if step.inside)


@dataclasses.dataclass(frozen=True, slots=True)
class RepairResult:
    """Where `apply_repair` put what it took out of `path`; None where there was nothing."""

    path: Path
    torn: Path | None = None
    damaged: Path | None = None
    backup: Path | None = None


def plan_repair(
    source: AnySource,
    *,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    progress: Progress | None = None,
    fs: FileSystem = REAL,
) -> RepairPlan:
    """What is to be mended in a plain file. Reads everything, changes nothing.

    Raises:
        Locked: somebody has it open to write.
        SourceError: it cannot be found or read.
        UsageError: the source is bytes.
        WriteError: it is sealed, or may not be written.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        raise UsageError("bytes in memory cannot be repaired", remedy="give a path, a thread id or -1")
    origin = find(locate_to_change(source, None if home is None else Path(home).expanduser(), fs=fs), home, limits)
    assert origin.path is not None  # it is no bytes
    with locked(fs, origin.path, "repaired") as file:
        return look(fs, file, origin, origin.path, progress)


def apply_repair(plan: RepairPlan, *, progress: Progress | None = None, fs: FileSystem = REAL) -> RepairResult:
    """Carry a plan out; what it did is on the disk when it returns.

    After an exception the file was not replaced, though its end may be mended.

    Raises:
        Conflict: the file has changed since.
        InUse: the inside steps were refused, as other files continue this one; the end is mended.
        Locked: somebody has it open to write.
        SourceError: it cannot be read.
        WriteError: the disk fails, or the new file would say something else. Where it says so, it is the new file.
    """
    path = plan.path
    with locked(fs, path, "repaired") as file:
        if look(fs, file, plan._origin, path, progress) != plan:
            raise Conflict("has changed since the plan was made", path=path, remedy="make a new plan")
        proof = Proof(dataclasses.replace(plan._origin, path=path, fs=fs)) if plan.inside and not plan.in_use else None
        kept = recovery.apply(fs, file, path, plan._end)
        if plan._end.needed:
            file.sync()
        done = RepairResult(path, None if kept is None else Path(kept))
        if plan.in_use:
            first = min(step.offset for step in plan.inside)
            needed = f"what is behind byte {first} may not move, as {', '.join(plan.in_use)} continues it"
            raise InUse(needed, path=path, remedy="make that stand alone first (fork it as a copy)")
        return done if proof is None else _replace(fs, file, plan, proof, done)


def look(fs: FileSystem, file: AppendFile, origin: Origin, path: Path, progress: Progress | None = None) -> RepairPlan:
    """`plan_repair` for a file that is open."""
    if file.read_at(0, len(MAGIC)) == MAGIC:
        raise WriteError("is sealed", path=path, remedy="unseal it first")
    end = recovery.inspect(file, file.size(), holds_record, chunk_bytes=origin.limits.chunk_bytes)
    mending = _Mending(FileSource(file), end.cut, origin.limits)
    for _ in mending:
        if progress is not None:
            progress(mending.done_bytes, end.end)
    in_use = list[str]()
    if mending.steps:  # whoever continues it from behind the first step, found or not by readers
        first = min(step.offset for step in mending.steps)
        for user in Users(homes.home_of(path), fs, origin.limits).naming([path]):
            if user.needs(file.identity, first) and fs.status(user.path).identity != file.identity:
                in_use.append(str(user.path))
    steps, line = mending.steps, mending.line
    if end.kept_bytes:
        reason = "a write that was cut short: no reader sees it"
        steps.append(RepairStep("cut", line, line, end.cut, end.kept_bytes, reason, inside=False))
    if end.keep_end != end.end:
        steps.append(RepairStep("drop", line, line, end.keep_end, end.end - end.keep_end, _NULS, inside=False))
    if end.newline:
        steps.append(RepairStep("newline", line, line, end.cut, 0, "the last record has no line end", inside=False))
    return RepairPlan(path, end.end, tuple(steps), tuple(in_use), end, origin)


class _Mending:
    """The mended text of `source[:end]`, line by line, and between them what moves away. Iterate once.

    `end` is where the visible text ends (see `recovery`), its last line with or without a newline. When it is over,
    `steps` has what was done, `line` is the line in which byte `end` lies.
    """

    def __init__(self, source: lines.Source, end: int, limits: Limits) -> None:
        self.steps: list[RepairStep] = []
        self.line = 1
        self.done_bytes = 0
        self._source, self._end, self._limits = source, end, limits
        self._newest: dict[tuple[str, str], int] = {}  # the newest step of a kind, by action and reason
        self._pieces = 0  # met so far in this line
        self._batch: list[tuple[int, int, bytes]] = []  # (offset, line, record): a batch that may be the last

    def __iter__(self) -> Iterator[bytes | Moved]:
        for line in records.forward([Segment(self._source, self._end)], self._limits):
            data = line.data
            if line.skipped == "gap":
                self._step("drop", _NULS, line.offset, line.end - line.offset)
            elif line.skipped:
                yield from self._copy(line)
            elif not self._pieces and not data.endswith(b"\r") and envelope.decode_plain(data, self._limits.depth):
                yield from self._put(line.offset, data)
            else:
                yield from self._mend_line(line.offset, data)
            self.done_bytes = line.end
            if line.ends:
                self.line += 1
                self._pieces = 0
        newest_first = ((offset, data) for offset, _, data in reversed(self._batch))
        if recovery.incomplete_batch_start(newest_first, holds_record) is None:
            yield from self._release()
        for offset, number, data in self._batch:  # they stand now: what hides the rest of the batch will move away
            self._step("unmark", "the rest of its batch is damaged", offset, len(data), number)
            yield recovery.unmark(data + b"\n")

    def _mend_line(self, offset: int, data: bytes) -> Iterator[bytes | Moved]:
        pieces = list(envelope.split(data, self._limits.depth))
        if b"\0" in data:
            self._step("drop", _NULS, offset + data.index(b"\0"), data.count(b"\0"))
        elif not pieces:
            self._step("drop", "a blank line", offset, len(data) + 1)
        if pieces and data.endswith(b"\r"):
            self._step("drop", "a carriage return before the line end", offset + len(data.rstrip(b"\r")), 1)
        end = 0
        for piece in pieces:
            between = data[end : piece.offset]
            if _BOM in between:
                self._step("drop", "a byte-order mark", offset + end + between.index(_BOM), len(_BOM))
            end = piece.offset + len(piece.data)
            if piece.envelope is None:
                self._step("move", piece.reason, offset + piece.offset, len(piece.data))
                self._pieces += 1
                yield Moved(offset + piece.offset, piece.data)
                continue
            if self._pieces:
                reason = "a whole record stands behind other bytes in the same line"
                self._step("separate", reason, offset + piece.offset, len(piece.data))
            is_alone = len(pieces) == 1 and b"\0" not in data and _BOM not in between
            yield from self._put(offset + piece.offset, data.rstrip(b"\r") if is_alone else piece.data)

    def _put(self, offset: int, data: bytes) -> Iterator[bytes]:
        """A record. One of a batch is held back: whether it is visible at the end depends on what comes behind."""
        self._pieces += 1
        mark = recovery.batch_mark(data)
        newest = recovery.batch_mark(self._batch[-1][2]) if self._batch else None
        if newest is not None and (mark is None or mark[1] != newest[1] or mark[0] <= newest[0]):
            yield from self._release()
        if mark is None:
            yield data + b"\n"
        else:
            self._batch.append((offset, self.line, data))

    def _release(self) -> Iterator[bytes]:
        yield from (data + b"\n" for _, _, data in self._batch)
        self._batch.clear()

    def _copy(self, line: Line) -> Iterator[bytes]:
        """A line beyond the limit, as it stands."""
        yield from self._release()
        self._pieces += 1
        yield from lines.chunks(self._source, line.offset, line.end, self._limits.chunk_bytes)
        if not line.ends:  # NUL bytes follow, or the end
            yield b"\n"

    def _step(self, action: str, reason: str, offset: int, size_bytes: int, line: int | None = None) -> None:
        here = self.line if line is None else line
        at = self._newest.get((action, reason))
        if at is not None and here <= (before := self.steps[at]).last_line + 1:
            self.steps[at] = dataclasses.replace(
                before, last_line=here, size_bytes=before.size_bytes + size_bytes, count=before.count + 1
            )
            return
        self._newest[action, reason] = len(self.steps)
        self.steps.append(RepairStep(action, here, here, offset, size_bytes, reason))


def _replace(fs: FileSystem, file: AppendFile, plan: RepairPlan, proof: Proof, done: RepairResult) -> RepairResult:
    """Puts the new file in the old one's place; whatever stands under a hidden name is of no use to anybody."""
    path, source = plan.path, FileSource(file)
    taken = {listed.name for listed in fs.listed(path.parent)}
    numbered = ([f"{path.name}.{what}-{number}" for what in ("damaged", "backup")] for number in itertools.count(1))
    damaged, backup = map(path.with_name, next(names for names in numbered if taken.isdisjoint(names)))
    moves = any(step.action == "move" for step in plan.inside)

    def mended(kind: type[T]) -> Iterator[T]:
        return (out for out in _Mending(source, source.size, plan._origin.limits) if isinstance(out, kind))

    def prove_and_keep(new: Path) -> None:
        with contextlib.closing(fs.open_append(new)) as made:
            proof.check(new, "repaired", is_damaged=bool(look(fs, made, plan._origin, path).steps))
        if moves:
            pieces = ((moved.offset, base64.b64encode(moved.data)) for moved in mended(Moved))
            _keep(fs, hidden(path, DAMAGED), damaged, (b'{"offset":%d,"base64":"%b"}\n' % piece for piece in pieces))
        _keep(fs, hidden(path, BACKUP), backup, lines.chunks(source, 0, source.size, MIB))
        fs.sync_dir(path.parent)
        check_unwritten(file, source.size, path)

    replace(fs, path, mended(bytes), check=prove_and_keep)
    return dataclasses.replace(done, damaged=damaged if moves else None, backup=backup)


def _keep(fs: FileSystem, hidden: Path, name: Path, pieces: Iterable[bytes]) -> None:
    """A new file, its bytes on the disk before it has its name."""
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(hidden)  # of a repair that was cut short
    try:
        with contextlib.closing(fs.open_append(hidden, create=True)) as file:
            write(file, pieces)
            file.sync()
        fs.rename(hidden, name)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(hidden)
        raise


class Proof:
    """What the file of `origin` says now, before another one takes its place."""

    def __init__(self, origin: Origin) -> None:
        self._origin, self._before = origin, fingerprint(origin)

    def check(self, new: Path, what: str, *, is_damaged: bool) -> None:
        """WriteError if the file at `new`, read as if it stood in the place, says anything else, or `is_damaged`."""
        after = fingerprint(dataclasses.replace(self._origin, at=new))
        changed = [name for name, value in self._before.items() if after[name] != value]
        if changed or is_damaged:
            has = f"another {', '.join(changed)}" if changed else "damage of its own"
            why = f"cannot be {what}: the new file would have {has}"
            raise WriteError(why, path=self._origin.path, remedy="it was left as it is; it reads as well as it can")


def fingerprint(origin: Origin) -> dict[str, object]:
    """What a file says, by the names of what it tells."""
    state = read_state(origin)
    history = hashlib.sha256()
    for i in range(len(state.history)):
        item = state.history.raw(i).strip()  # a bare item is its whole line
        history.update(b"%d:%b" % (len(item), item))
    told = state.reference
    return {
        "history": (len(state.history), history.digest()),
        "previous model": state.previous_model,
        "reference context": bytes(told.raw) if isinstance(told, ContextBaseline) else type(told),
        "world state": state.world_state,
        "token usage": state.token_usage,
        "session": state.session,
        "thread id": state.thread_id,
        "turns": [_describe(turn) for turn in state.all_turns],
    }


def _describe(turn: Turn) -> object:
    """A turn wherever its bytes lie: derived turn ids go with byte offsets, so they are left out."""
    own_id = None if turn.derived else turn.id
    return own_id, turn.status, turn.stands, turn.started, turn.ended, turn.model, turn.user, turn.item_count


@contextlib.contextmanager
def locked(fs: FileSystem, path: Path, what: str) -> Iterator[AppendFile]:
    """The file under the writer's lock. What the system refuses, here or inside, is a WriteError: it cannot be `what`.

    Locked if somebody else holds it, NotFound.
    """
    with explained(path, what), contextlib.closing(fs.open_append(path)) as file:
        file.lock(holder(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"))
        yield file


def check_unwritten(file: AppendFile, size: int, path: Path) -> None:
    """Conflict if a locked file has another size than it had."""
    if file.size() != size:
        raise Conflict("somebody writes to it without a lock", path=path, remedy="end that program, try again")
