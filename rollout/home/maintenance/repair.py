"""Mend a rollout offline: `plan_repair` looks and changes nothing, `apply_repair` does what the plan says.

The *end* is mended as the next writer would do it (see `files.recovery`). *Inside*, what can be mended without
inventing anything (see `repair_plan`) gives a new file, and damaged bytes move to `<name>.damaged-<n>`, a JSON line
{"offset", "base64"} for each piece. A session_meta that is missing stays missing.

The new file takes the old one's place only if it reconstructs to the same state and needs no repair itself. Before
that the old one, in which the offsets of damaged bytes count, is copied to `<name>.backup-<n>`. After a crash at any
point the file is the old or the new one, and the backup is there with the new one. Everything is done under the
writer's lock. A file that continues this one from a byte offset (`history_base`) needs the bytes before it where they
are: then the end alone is mended.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rollout.errors import Conflict, InUse, UsageError, WriteError
from rollout.files import layout as homes
from rollout.files import recovery
from rollout.files.dependents import Users
from rollout.files.disk import REAL, AppendFile, FileSystem
from rollout.files.lineage import holds_record
from rollout.files.plain import FileSource
from rollout.files.sealed.reader import MAGIC
from rollout.files.source import AnySource, Origin, find, locate_to_change
from rollout.files.staging import BACKUP, DAMAGED, hidden, replace, write
from rollout.home.maintenance.fingerprint import Through, differences, fingerprint, locked
from rollout.home.maintenance.repair_plan import NULS, Mending, Moved, RepairStep
from rollout.limits import DEFAULT, MIB, Limits

Progress = Callable[[int, int], None]
T = TypeVar("T")


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
        before = _fingerprint(fs, plan, path) if plan.inside and not plan.in_use else {}
        kept = recovery.apply(fs, file, path, plan._end)
        if plan._end.needed:
            file.sync()
        done = RepairResult(path, None if kept is None else Path(kept))
        if plan.in_use:
            first = min(step.offset for step in plan.inside)
            needed = f"what is behind byte {first} may not move, as {', '.join(plan.in_use)} continues it"
            raise InUse(needed, path=path, remedy="make that stand alone first (fork it as a copy)")
        return _replace(fs, file, plan, before, done) if plan.inside else done


def look(fs: FileSystem, file: AppendFile, origin: Origin, path: Path, progress: Progress | None) -> RepairPlan:
    """`plan_repair` for a file that is open."""
    if file.read_at(0, len(MAGIC)) == MAGIC:
        raise WriteError("is sealed", path=path, remedy="unseal it first")
    end = recovery.inspect(file, holds_record, chunk_bytes=origin.limits.chunk_bytes)
    mending = Mending(FileSource(file), end.cut, origin.limits)
    for _ in mending:
        if progress is not None:
            progress(mending.done_bytes, end.end)
    steps = (*mending.steps, *_end_steps(end, mending.line))
    first = min((step.offset for step in mending.steps), default=None)
    in_use = () if first is None else tuple(_forks(fs, file, path, origin, first))
    return RepairPlan(path, end.end, steps, in_use, end, origin)


def _end_steps(end: recovery.RecoveryPlan, line: int) -> Iterator[RepairStep]:
    if end.kept_bytes:
        reason = "a write that was cut short: no reader sees it"
        yield RepairStep("cut", line, line, end.cut, end.kept_bytes, reason, inside=False)
    if end.keep_end != end.end:
        yield RepairStep("drop", line, line, end.keep_end, end.end - end.keep_end, NULS, inside=False)
    if end.newline:
        yield RepairStep("newline", line, line, end.cut, 0, "the last record has no line end", inside=False)


def _forks(fs: FileSystem, file: AppendFile, path: Path, origin: Origin, first: int) -> Iterator[str]:
    """The files, beside or in the home, that continue this one from behind byte `first`, found or not by readers."""
    for user in Users(homes.home_of(path), fs, origin.limits).naming([path]):
        if user.needs(file.identity, first) and fs.status(user.path).identity != file.identity:
            yield str(user.path)


def _replace(
    fs: FileSystem, file: AppendFile, plan: RepairPlan, before: dict[str, object], done: RepairResult
) -> RepairResult:
    """Puts the new file in the old one's place; whatever stands under a hidden name is of no use to anybody."""
    path, source = plan.path, FileSource(file)
    damaged, backup = hidden(path, DAMAGED), hidden(path, BACKUP)
    numbered = _next_number(fs, path)
    moves = any(step.action == "move" for step in plan.inside)

    def mended(kind: type[T]) -> Iterator[T]:
        return (out for out in Mending(source, source.size, plan._origin.limits) if isinstance(out, kind))

    def prove_and_keep(new: Path) -> None:
        _prove(fs, plan, new, before)
        if moves:
            _keep(fs, damaged, numbered("damaged"), map(_encode, mended(Moved)))
        _keep(fs, backup, numbered("backup"), (source.read_at(at, MIB) for at in range(0, source.size, MIB)))
        fs.sync_dir(path.parent)
        if file.size() != source.size:
            raise Conflict("somebody writes to it without a lock", path=path, remedy="end that program, try again")

    replace(fs, path, mended(bytes), check=prove_and_keep)
    return dataclasses.replace(done, damaged=numbered("damaged") if moves else None, backup=numbered("backup"))


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


def _prove(fs: FileSystem, plan: RepairPlan, new: Path, before: dict[str, object]) -> None:
    """WriteError if the file at `new` says anything else than the old one did, or needs repair itself."""
    after = _fingerprint(fs, plan, new)
    changed = differences(before, after)
    with contextlib.closing(fs.open_append(new)) as file:
        again = look(fs, file, plan._origin, plan.path, None)
    if changed or again.steps:
        what = f"another {', '.join(changed)}" if changed else "damage of its own"
        remedy = "it was left as it is; it reads as well as it can"
        raise WriteError(f"cannot be mended inside: the new file would have {what}", path=plan.path, remedy=remedy)


def _fingerprint(fs: FileSystem, plan: RepairPlan, at: Path) -> dict[str, object]:
    """What the file at `at` says, under the planned path."""
    origin = plan._origin
    there = Through(None, plan.path, origin.home, origin.limits, fs=fs, keys=origin.keys, at=at)
    return fingerprint(there)


def _encode(moved: Moved) -> bytes:
    return b'{"offset":%d,"base64":"%b"}\n' % (moved.offset, base64.b64encode(moved.data))


def _next_number(fs: FileSystem, path: Path) -> Callable[[str], Path]:
    """Names beside `path` with the first number that none of them has: a backup and its damaged bytes share it."""
    taken = {listed.name for listed in fs.listed(path.parent)}
    number = 1
    while not taken.isdisjoint(f"{path.name}.{what}-{number}" for what in ("backup", "damaged")):
        number += 1
    return lambda what: path.with_name(f"{path.name}.{what}-{number}")
