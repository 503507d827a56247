"""A file takes the place of another one that says the same: what stands against it, the proof, the exchange.

The proof compares fingerprints (see `rewriting`) as the files stand, and behind every rollback that could be written
next, as if its marker stood there: a record that changes nothing now may yet count once others are taken back. Of files
so large that this would fold more than `_PROVEN_BYTES`, rollbacks of 1 to 20 turns and of all are tried.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rollout.core import lines
from rollout.core.gather import Gatherer
from rollout.core.reconstruct import Reconstruction
from rollout.core.turns import Kind, Mark, Span
from rollout.errors import InUse, WriteError
from rollout.limits import MIB
from rollout.state import Turn, read_turns
from rollout.storage.beside import VACUUMED, hidden
from rollout.storage.fs import AppendFile, FileSystem
from rollout.storage.origin import Origin
from rollout.storage.plain import FileSource
from rollout.storage.references import Users, told
from rollout.upkeeping import repair
from rollout.upkeeping.rewriting import Describe, Through, differences, fingerprint, refuse_changed, replace

_EVERY = 1 << 40
_PROVEN_BYTES = 64 * MIB
_FEWEST = 20
_HISTORY_KEYS = ("history_base", "history_mode")


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """How the file at `path` would be written anew: `first` is the offset of the first byte that changes or moves.

    `renewed`: the times of its records may become others.
    """

    path: Path
    first: int
    renewed: bool
    pieces: Callable[[lines.Source], Iterable[bytes]]


def refuse_used(users: Users, fs: FileSystem, path: Path, first: int) -> None:
    """InUse if files go on from the one at `path` with bytes from `first` on, which are to move."""
    identity = fs.status(path).identity
    if used := [user for user in users.naming([path]) if user.needs(identity, first)]:
        raise InUse(f"bytes that would move are referred to by {told(used)}", path=path, remedy="detach those first")


def check(fs: FileSystem, file: AppendFile, origin: Origin, change: Exchange, users: Users) -> None:
    """WriteError, which says why the file may not be changed."""
    path = change.path
    if repair.look(fs, file, origin, path, None).steps:
        raise WriteError("is damaged", path=path, remedy="repair it first")
    with origin.opened() as lineage:
        if list(lineage) and lineage.missing:
            raise WriteError(lineage.missing[0].reason, path=path, remedy="bring the base back first")
    refuse_used(users, fs, path, change.first)
    own = {str(path), str(path.absolute())}
    if any(turn.derived and turn.path in own and turn.end_offset > change.first for turn in read_turns(origin)):
        what = "turns without an id of their own would get other ones: they follow from byte offsets"
        raise WriteError(what, path=path)


def exchange(fs: FileSystem, file: AppendFile, origin: Origin, change: Exchange, users: Users) -> None:
    """Writes the file anew, proves it, and puts it in the place of the old, locked one. WriteError, OSError."""
    path, source = change.path, FileSource(file)
    new = hidden(path, VACUUMED)

    def prove() -> None:
        changed = _differences(origin, Through(None, path, origin.home, origin.limits, fs=fs, at=new), change.renewed)
        with contextlib.closing(fs.open_append(new)) as written:
            if repair.look(fs, written, origin, path, None).steps:
                changed = [*changed, "damage"]
        refuse_changed(path, changed)
        refuse_used(users, fs, path, change.first)  # one may have come meanwhile

    mtime_ns = fs.status(path).mtime_ns
    replace(fs, file, path, new, change.pieces(source), prove, size=source.size, mtime_ns=mtime_ns)


def _differences(old: Origin, new: Through, renewed: bool) -> list[str]:
    """The names of what the two say differently, at the first point at which they do."""
    assert old.path is not None
    describe = _describe_timeless if renewed else _describe
    text_bytes, boundaries = _measure(old)
    for count, is_whole in _rollbacks(text_bytes, boundaries):
        more = b"" if count is None else _marker(count)
        tell: Describe | None = describe if is_whole else None
        here = Through(None, old.path, old.home, old.limits, fs=old.fs, at=old.path, more=more)
        before = _told(fingerprint(here, tell))
        after = _told(fingerprint(dataclasses.replace(new, more=more), tell))
        if changed := differences(before, after):
            return changed
    return []


def _rollbacks(text_bytes: int, boundaries: int) -> Iterator[tuple[int | None, bool]]:
    """How many turns are taken back (None: no rollback), and whether turns are compared, for which all is read."""
    most = max(_FEWEST, _PROVEN_BYTES // max(text_bytes, 1))
    yield None, True
    yield _EVERY, True
    for count in range(1, min(boundaries, most) + 1):
        yield count, text_bytes <= _PROVEN_BYTES


def _marker(count: int) -> bytes:
    return b'{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":%d}}\n' % count


def _told(found: dict[str, object]) -> dict[str, object]:
    """Where the history comes from is no part of what a file says."""
    session = found["session"]
    if isinstance(session, dict):
        session = {key: value for key, value in session.items() if key not in _HISTORY_KEYS}
    return {**found, "session": session}


def _describe(turn: Turn) -> object:
    return _describe_timeless(turn), turn.started, turn.ended


def _describe_timeless(turn: Turn) -> object:
    return turn.id, turn.status, turn.stands, turn.model, turn.user, turn.item_count, turn.plans


class _Boundaries:
    count = 0

    def see(self, marks: Sequence[Mark], spans: Sequence[Span]) -> None:
        self.count += sum(mark.kind in {Kind.BOUNDARY, Kind.ANNOUNCED} for mark in marks)


def _measure(origin: Origin) -> tuple[int, int]:
    """Bytes of text of a lineage, and at least as many boundaries as it has."""
    seen = _Boundaries()
    gatherer = Gatherer(wants_items=False, limits=origin.limits)
    with origin.opened() as lineage:
        Reconstruction(lineage, limits=origin.limits, gatherer=gatherer, observer=seen).run()
        return sum(segment.end for segment in lineage.segments), seen.count
