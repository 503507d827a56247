"""`vacuum`: bytes that stand twice are given back, where it is proven that nobody reads anything else afterwards.

*refer*: a fork that holds its source's lines (see `copies`) becomes a fork by reference (`history_base`) with its own
lines alone. The time at which Codex copied a line is given up for the time at which it was written first.
*thin*: exact copies within a file are left out (see `thinning`).
*twin*: a sealed file beside a plain one with the same text, left behind by a crash, goes.
*expire*: what has expired in an encrypted file is emptied, in its place.

Codex 0.169 goes on with a fork by reference only where the source is paginated, with ordinals (tried with the program).
Of another fork it would not know the history, so that one is made only when asked for (`legacy_forks`), and then
without `end_ordinal_exclusive`: Codex neither lists nor resumes such a file, instead of going on without the history.
`Store.detach` makes a copy of it again.

A file is left as it is, with the reason, if somebody writes to it (or to the source that it is to refer to), it is
sealed or damaged, it lacks a base, files that continue it refer to bytes that would move, or it has turns without ids
of their own (theirs follow from offsets). Before a file is replaced the new one is on the disk and proven to say the
same (see `replacing`). A crash leaves the old or the new file under its name. What a fork is to refer to is on the
disk before.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from rollout.core import lines
from rollout.encoding import encode
from rollout.errors import Conflict, RolloutError, UsageError
from rollout.limits import DEFAULT, MIB
from rollout.storage import fork as forks
from rollout.storage.decrypting import DecryptingSource
from rollout.storage.ending import ordinal_of, records_in
from rollout.storage.fs import AppendFile, FileSystem
from rollout.storage.origin import Origin
from rollout.storage.plain import FileSource
from rollout.storage.references import Users
from rollout.storage.sealed import BadFrame, Frames
from rollout.storage.source import open_path
from rollout.upkeeping import copies, rekeying
from rollout.upkeeping.copies import Copied
from rollout.upkeeping.files import Places, Progress, choose, disk_bytes, one_by_one
from rollout.upkeeping.replacing import Exchange, check, exchange
from rollout.upkeeping.rewriting import locked
from rollout.upkeeping.thinning import Thinning

_LEGACY = "Codex would no longer list or resume it, as its source is not paginated; legacy_forks does it all the same"


@dataclasses.dataclass(frozen=True, slots=True)
class VacuumStep:
    """What is done to one file, from `before_bytes` to `after_bytes`; `what` says it in words.

    `done`: it is. Else `reason` says why not; in a dry run None for what would be done. The action "none" is of a file
    that could not be looked at.
    """

    path: Path
    action: Literal["refer", "thin", "twin", "expire", "none"]
    before_bytes: int
    after_bytes: int
    what: str
    done: bool = False
    reason: str | None = None

    @property
    def saved_bytes(self) -> int:
        """What it gives back, if it is done."""
        return self.before_bytes - self.after_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Vacuumed:
    """All steps, by file, sources before their forks. `applied`: not a dry run."""

    applied: bool
    steps: tuple[VacuumStep, ...]

    @property
    def saved_bytes(self) -> int:
        """Of the steps that nothing stands against: given back, or to be given back."""
        return sum(step.saved_bytes for step in self.steps if step.reason is None)


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for: `apply` (else a dry run), and the two things that Codex would notice."""

    apply: bool = False
    legacy_forks: bool = False
    event_images: bool = False


def vacuum(
    paths: Sequence[Path] | None, home: Path, fs: FileSystem, wishes: Wishes, progress: Progress | None = None
) -> Vacuumed:
    """The files at `paths`, or all of the home. SourceError for a path that is not there.

    `progress(bytes_done, bytes_total)` is called behind each file.
    """
    for path in paths or ():
        fs.open_read(path).close()
    places, files = choose(fs, home, paths)
    vacuuming = _Vacuum(home, fs, wishes, places)
    steps = [step for path in one_by_one(files, progress) for step in vacuuming.clean(path)]
    return Vacuumed(wishes.apply, tuple(steps))


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    step: VacuumStep
    change: Exchange
    copied: Copied | None = None


class _Vacuum:
    def __init__(self, home: Path, fs: FileSystem, wishes: Wishes, places: Places) -> None:
        self._home, self._fs, self._wishes, self._places = home, fs, wishes, places
        self._users = Users(home, fs)

    def clean(self, path: Path) -> Iterator[VacuumStep]:
        """The steps of one file."""
        size = disk_bytes(self._fs, path)
        try:
            yield from self._drop_twin(path)
            yield from self._empty_expired(path)
            start, shorter_bytes = 0, 0
            for step, job in self._do(path, self._refer):
                yield step
                if job.copied is not None and not step.done:  # a dry run, or perhaps another day
                    start, shorter_bytes = job.copied.end, step.saved_bytes if step.reason is None else 0
            for step, _ in self._do(path, lambda path: self._thin(path, start, shorter_bytes)):
                yield step
        except (RolloutError, OSError) as error:
            yield VacuumStep(path, "none", size, size, "cannot be looked at", reason=_say(error, path))

    def _do(self, path: Path, look: Callable[[Path], _Job | None]) -> Iterator[tuple[VacuumStep, _Job]]:
        """Looks without a lock, as most files need nothing; then again with it."""
        job = look(path)
        if job is None:
            return
        if job.step.reason is not None:
            yield job.step, job
            return
        origin = Origin(None, path, self._home, fs=self._fs)
        try:
            with locked(self._fs, path, "vacuumed") as file, self._held(job.copied):
                again = look(path)
                if again is None or again.step != job.step:
                    raise Conflict("has just changed", path=path, remedy="try again")
                check(self._fs, file, origin, again.change, self._users)
                if self._wishes.apply:
                    exchange(self._fs, file, origin, again.change, self._users)
        except (RolloutError, OSError) as error:
            yield dataclasses.replace(job.step, reason=_say(error, path)), job
            return
        yield dataclasses.replace(job.step, done=self._wishes.apply), job

    @contextlib.contextmanager
    def _held(self, copied: Copied | None) -> Iterator[None]:
        """What a fork is to refer to: locked, so that nobody deletes or rewrites it, and on the disk with its bases."""
        if copied is None:
            yield
            return
        source = copied.point.path
        with locked(self._fs, source, "referred to"):
            if self._wishes.apply:
                with Origin(None, source, self._home, fs=self._fs).opened() as lineage:
                    paths = [Path(segment.path) for segment in lineage if segment.path is not None]
                for path in paths:
                    with contextlib.closing(self._fs.open_append(path)) as file:
                        file.sync()
                    self._fs.sync_dir(path.parent)
            yield

    def _refer(self, path: Path) -> _Job | None:
        """A fork by reference instead of a copy."""
        origin = Origin(None, path, self._home, fs=self._fs)
        with contextlib.closing(open_path(path, fs=self._fs)) as opened:
            copied = copies.find_copied(opened, origin, self._places, images=self._wishes.event_images)
            if copied is None:
                return None
            size = opened.source.size
            own = _first_record(opened.source, copied.end)
            is_plain, is_encrypted = isinstance(opened.source, FileSource), isinstance(opened.source, DecryptingSource)
        head = _head(copied, has_own=own is not None)
        what = f"refers to {copied.point.path.name} up to byte {copied.point.offset} instead of holding a copy of it"
        reason = None
        if not is_plain:
            reason = "it is encrypted: decrypt it first" if is_encrypted else "it is sealed: unseal it first"
        elif own is not None and ordinal_of(own) != copied.next_ordinal:
            reason = "its own lines are not numbered on from its source's"
        elif not (_is_paginated(copied) or self._wishes.legacy_forks):
            reason = _LEGACY
        step = VacuumStep(path, "refer", size, len(head) + size - copied.end, what, reason=reason)

        def pieces(source: lines.Source) -> Iterator[bytes]:
            yield head
            yield from _text(source, copied.end, source.size)

        return _Job(step, Exchange(path, 0, copied.renewed, pieces), copied)

    def _thin(self, path: Path, start: int, shorter_bytes: int) -> _Job | None:
        """Without exact copies from `start` on; of a file that would be shorter by then."""
        with contextlib.closing(open_path(path, fs=self._fs)) as opened:
            if not isinstance(opened.source, FileSource):
                return None  # sealed: copies cost little there
            thinning = self._thinned(opened.source, start)
            for _ in thinning:
                pass
            size = opened.source.size - shorter_bytes
        if thinning.first is None:
            return None
        doubled = f"{thinning.doubled} records that are doubled" if thinning.doubled else ""
        images = f"{thinning.images} pictures that events repeat" if thinning.images else ""
        what = f"without {' and '.join(filter(None, (doubled, images)))}"
        step = VacuumStep(path, "thin", size, size - thinning.saved_bytes, what)

        def pieces(source: lines.Source) -> Iterator[bytes]:
            yield from _text(source, 0, start)
            yield from self._thinned(source, start)

        return _Job(step, Exchange(path, thinning.first, renewed=False, pieces=pieces))

    def _thinned(self, source: lines.Source, start: int) -> Thinning:
        return Thinning(source, start, source.size, DEFAULT, images=self._wishes.event_images)

    def _empty_expired(self, path: Path) -> Iterator[VacuumStep]:
        with contextlib.closing(open_path(path, fs=self._fs)) as opened:
            count = rekeying.count_expired(opened)
        if not count:
            return
        size = disk_bytes(self._fs, path)
        step = VacuumStep(path, "expire", size, size, f"{count} lines that have expired are emptied")
        try:
            if self._wishes.apply:
                rekeying.empty_expired(self._fs, path, self._home)
        except (RolloutError, OSError) as error:
            yield dataclasses.replace(step, reason=_say(error, path))
            return
        yield dataclasses.replace(step, done=self._wishes.apply)

    def _drop_twin(self, path: Path) -> Iterator[VacuumStep]:
        twin = path.with_name(f"{path.name}.zst")
        if path.suffix != ".jsonl" or twin.name not in self._fs.names(path.parent):
            return
        size = disk_bytes(self._fs, twin)
        step = VacuumStep(twin, "twin", size, 0, f"goes, as {path.name} has the same text")
        try:
            with locked(self._fs, path, "vacuumed") as plain, locked(self._fs, twin, "vacuumed") as sealed:
                if not _has_text_of(sealed, plain):
                    raise UsageError("has another text than the plain file beside it, which counts: look at both")
                if self._wishes.apply:
                    plain.sync()
                    self._fs.sync_dir(path.parent)
                    self._fs.unlink(twin)
                    self._fs.sync_dir(path.parent)
        except (RolloutError, OSError) as error:
            yield dataclasses.replace(step, reason=_say(error, twin))
            return
        yield dataclasses.replace(step, done=self._wishes.apply)


def _say(error: RolloutError | OSError, path: Path) -> str:
    """Why not, with the name of the file if that is another one."""
    if isinstance(error, OSError):
        return str(error.strerror)
    other = "" if error.path in {None, str(path)} else f"{Path(error.path or '').name}: "
    return f"{other}{error.message}" + ("" if error.remedy is None else f"; {error.remedy}")


def _text(source: lines.Source, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, MIB):
        yield source.read_at(at, min(MIB, end - at))


def _has_text_of(sealed: AppendFile, plain: AppendFile) -> bool:
    at = 0
    try:
        for text in Frames(sealed, DEFAULT).texts():
            if plain.read_at(at, len(text)) != text:
                return False
            at += len(text)
    except BadFrame:
        return False
    return at == plain.size()


def _is_paginated(copied: Copied) -> bool:
    return copied.next_ordinal is not None and bytes(copied.source_mode or b"") == b'"paginated"'


def _first_record(source: lines.Source, start: int) -> bytes | None:
    for block in lines.forward(source, start):
        for line in block.lines if isinstance(block, lines.Batch) else ():
            for data, _ in records_in(line):
                return data
    return None


def _head(copied: Copied, *, has_own: bool) -> bytes:
    """The fork's session_meta with its base. It has a number only if no line of the fork has the next one."""
    is_paginated = _is_paginated(copied)
    base = forks.base_at(copied.point, copied.next_ordinal if is_paginated else None)
    mode = {"history_mode": copied.source_mode} if is_paginated else {}
    keys = {key: value for key, value in copied.meta.line.items() if key != "ordinal"}
    stamp = {key: keys.pop(key) for key in ("timestamp",) if key in keys}
    number = {} if has_own or copied.next_ordinal is None else {"ordinal": copied.next_ordinal}
    return encode({**stamp, **number, **keys, "payload": {**copied.meta.payload, "history_base": base, **mode}}) + b"\n"
