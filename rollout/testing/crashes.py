"""What a crash may leave of what was done to a disk, and whether anything acknowledged is lost by it.

A POSIX disk promises: bytes and size of a file are safe after its sync, names after the sync of their directory;
nothing else is. So after a crash

- what was appended since the last sync is there up to any byte, and may be followed by NUL bytes up to the size;
  with `sector_bytes`, any one run of sectors of it may be NUL instead (pages are written in any order);
- names that were made, removed or renamed since the last sync of their directory are changed or not, each for itself
  (a rename is one change, safe with its new directory), so a synced file may be missing because its name is;
- bytes whose sync failed may be NUL for ever, even if a later sync succeeds;
- locks are gone.

Everything is deterministic: the same operations and the same seed give the same states.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rollout.testing.disk import NAMING, Effect, Fault, Image, Op, OpKind, SimulatedDisk

Tree = Mapping[str, bytes | None]
Workload = Callable[[SimulatedDisk, Callable[[Any], None]], None]
"""Does something to a disk and calls the second argument with whatever it was told is safe."""
Check = Callable[[SimulatedDisk, list[Any]], None]
"""Recovers a crashed disk and raises AssertionError if something that was acknowledged is not there."""

_ALL_SUBSETS_OF = 8
"""So many unsynced changes of names are combined in every way; of more, a sample of the ways."""


class CrashFailure(AssertionError):
    """A crash after operation `at` lost something; `tree` is what it left. Its cause is what the check raised."""

    def __init__(self, at: int, op: Op | None, acked: Sequence[object], tree: Tree, why: BaseException) -> None:
        super().__init__(f"crash after operation {at} ({op}), acknowledged {acked!r}, left {tree!r}: {why!r}")
        self.at, self.tree = at, tree


@dataclasses.dataclass(frozen=True, slots=True)
class Explored:
    """How much was explored: operations of the workload, and different pairs of a state and what was acknowledged."""

    ops: int
    states: int


def explore(
    workload: Workload,
    check: Check,
    *,
    start: Tree | None = None,
    faults: Sequence[Fault] = (),
    sector_bytes: int = 0,
    limit: int = 4000,
    seed: int = 0,
    newest_first: bool = False,
) -> Explored:
    """Runs `workload` on a disk that holds `start`, and `check` on all that a crash after any operation may leave.

    Args:
        workload: What is done to the disk; it reports what it was told is safe.
        check: Is given each state as a disk, and what had been reported before the crash, oldest first.
        start: What the disk holds, synced, before.
        faults: What goes wrong meanwhile.
        sector_bytes: The size of a sector, if runs of them may be NUL; 0: they may not.
        limit: Contents of files are combined in at most so many ways after one operation, else sampled.
        seed: Of the samples.
        newest_first: Begins with crashes after the last operation: quicker where one is only asked whether any state
            fails, as of a mutant.

    Returns:
        How many operations and states there were.

    Raises:
        CrashFailure: The first state that does not pass.
    """
    disk = SimulatedDisk(start, faults=faults)
    acks: list[tuple[int, object]] = []
    workload(disk, lambda value: acks.append((len(disk.ops), value)))
    seen = set()
    places = range(len(disk.ops) + 1)
    for at in reversed(places) if newest_first else places:
        acked = [value for ops, value in acks if ops <= at]
        for tree in crash_states(disk, at, sector_bytes=sector_bytes, limit=limit, seed=seed):
            key = (len(acked), frozenset(tree.items()))
            if key in seen:
                continue
            seen.add(key)
            try:
                check(SimulatedDisk(tree), acked)
            except Exception as error:
                raise CrashFailure(at, disk.ops[at - 1] if at else None, acked, tree, error) from error
    return Explored(len(disk.ops), len(seen))


def mutants(workload: Workload, *, start: Tree | None = None) -> list[Fault]:
    """The faults that leave out one sync of the workload, or put it behind the operation that comes after it.

    `explore` with any of them should raise CrashFailure: else the sync is not needed, or the check does not look. A
    sync that another one follows is not put behind it: nothing can tell the two orders apart.

    Args:
        workload: As of `explore`.
        start: As of `explore`.
    """
    disk = SimulatedDisk(start)
    workload(disk, lambda _: None)
    syncs = (OpKind.SYNC, OpKind.SYNC_DIR)
    found = []
    for kind in syncs:
        places = [at for at, attempt in enumerate(disk.attempts) if attempt is kind]
        for nth, at in enumerate(places):
            found.append(Fault(nth, Effect.DROP, kind))
            if disk.attempts[at + 1 : at + 2] and disk.attempts[at + 1] not in syncs:
                found.append(Fault(nth, Effect.DELAY, kind))
    return found


def crash_states(
    disk: SimulatedDisk, at: int | None = None, *, sector_bytes: int = 0, limit: int = 4000, seed: int = 0
) -> Iterator[dict[str, bytes | None]]:
    """Every different tree that a crash may leave.

    Args:
        disk: A disk to which something was done.
        at: The crash comes after so many of its operations (None: after all).
        sector_bytes: As of `explore`.
        limit: Where there are more, those in which all files but one are as before or as after, and a sample.
        seed: Of the sample.

    Returns:
        Paths to bytes, or to None for a directory: what `SimulatedDisk` takes.
    """
    seen = set()
    for image in _History(disk, at).images(sector_bytes, limit, random.Random(seed)):
        tree = image.tree()
        key = frozenset(tree.items())
        if key not in seen:
            seen.add(key)
            yield tree


def crash_state(disk: SimulatedDisk, at: int, choose: Callable[[int], int]) -> dict[str, bytes | None]:
    """One tree that a crash may leave after the first `at` operations.

    Args:
        disk: A disk to which something was done.
        at: The number of operations before the crash.
        choose: Is given n and gives a number below it: which of n ways it went; 0 is what is there now.
    """
    return _History(disk, at).image(choose).tree()


class _FileHistory:
    """What is on the disk of a file for sure, and what was done to it since its last sync."""

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = self.content = synced
        self.unsynced: list[Op] = []
        self.unsafe: list[tuple[int, int]] = []  # ranges whose sync failed

    def take(self, op: Op) -> None:
        if op.kind is OpKind.SYNC:
            self.synced = self.content
            self.unsynced.clear()
        elif op.kind is OpKind.SYNC_FAILED:
            self.unsafe.append((self._safe_bytes(), len(self.content)))
        else:
            self.content = op.changed(self.content)
            self.unsynced.append(op)
            end = len(self.content)
            self.unsafe = [(start, min(stop, end)) for start, stop in self.unsafe if start < end]

    def _safe_bytes(self) -> int:
        return min([len(self.synced), *(op.size for op in self.unsynced if op.kind is OpKind.TRUNCATE)])

    def contents(self, sector_bytes: int) -> list[bytes]:
        """All that a crash may leave: first what was there at the last sync, last what is there now."""
        found = dict.fromkeys([self.synced, *self._cuts(), *self._holes(sector_bytes)])
        for content in list(found):
            for unsafe in self.unsafe:
                found[_lost(content, *unsafe)] = None
        found.pop(self.content, None)
        return [*found, self.content]

    def content_of(self, choose: Callable[[int], int]) -> bytes:
        """One that a crash may leave; 0 chooses what is there now."""
        content, done = self.synced, len(self.unsynced) - choose(len(self.unsynced) + 1)
        for op in self.unsynced[:done]:
            content = op.changed(content)
        if done < len(self.unsynced) and (data := self.unsynced[done].data):
            content = self._ends(content, data, choose(len(data) + 1))[choose(3)]
        for unsafe in self.unsafe:
            content = _lost(content, *unsafe) if choose(2) else content
        return content

    def _cuts(self) -> Iterator[bytes]:
        content = self.synced
        for op in self.unsynced:
            if op.kind is OpKind.WRITE:
                for kept in range(len(op.data) + 1):
                    yield from self._ends(content, op.data, kept)
            content = op.changed(content)
            yield content

    def _ends(self, content: bytes, data: bytes, kept: int) -> tuple[bytes, bytes, bytes]:
        """What may stand there of an append: so many bytes, with NULs up to its end or to that of the file."""
        cut = content + data[:kept]
        return cut, cut.ljust(len(content) + len(data), b"\0"), cut.ljust(len(self.content), b"\0")

    def _holes(self, sector_bytes: int) -> Iterator[bytes]:
        if not sector_bytes:
            return
        first, end = self._safe_bytes(), len(self.content)
        edges = [first, *(at for at in range(0, end, sector_bytes) if at > first), end]
        for start, stop in itertools.combinations(edges, 2):
            yield _lost(self.content, start, stop)


class _History:
    """What is on a disk for sure after the first `at` operations (None: all), and what was done to it since."""

    def __init__(self, disk: SimulatedDisk, at: int | None) -> None:
        self._files = {node: _FileHistory(data) for node, data in disk.start.files.items()}
        self._safe = disk.start.copy()  # for its names
        self._unsafe: list[Op] = []  # changes of names that may be lost
        for op in disk.ops[:at]:
            if op.kind is OpKind.SYNC_DIR:
                self._sync_names(op.node)
            elif op.kind in NAMING:
                if op.kind is OpKind.CREATE:
                    self._files[op.target] = _FileHistory()
                elif op.kind is OpKind.MKDIR:
                    self._safe.dirs[op.target] = {}
                self._unsafe.append(op)
            else:
                self._files[op.node].take(op)

    def _sync_names(self, node: int) -> None:
        safe = [op for op in self._unsafe if op.node == node]
        moved = {(op.old_node, op.old_name) for op in safe if op.kind is OpKind.RENAME}
        self._unsafe = [op for op in self._unsafe if op.node != node and (op.node, op.name) not in moved]
        for op in safe:
            self._safe.do(op)

    def images(self, sector_bytes: int, limit: int, rng: random.Random) -> Iterator[Image]:
        """The possible states, see `crash_states`; not all different."""
        contents = {node: file.contents(sector_bytes) for node, file in self._files.items()}
        for kept in _choices(len(self._unsafe), rng):
            dirs, shown = self._named(kept)
            options = {node: found if node in shown else found[:1] for node, found in contents.items()}
            for files in _combinations(options, limit, rng):
                yield Image(files, dirs)

    def image(self, choose: Callable[[int], int]) -> Image:
        """One possible state; 0 chooses what is there now."""
        dirs, shown = self._named([not choose(2) for _ in self._unsafe])
        return Image({node: file.content_of(choose) for node, file in self._files.items() if node in shown}, dirs)

    def _named(self, kept: Iterable[bool]) -> tuple[dict[int, dict[str, int]], set[int]]:
        """The directories where these changes of names are there, and all that have a name in them."""
        image = self._safe.copy()
        for op in itertools.compress(self._unsafe, kept):
            image.do(op)
        return image.dirs, {node for names in image.dirs.values() for node in names.values()}


def _lost(content: bytes, start: int, stop: int) -> bytes:
    """The content with NULs in that range, as far as it goes."""
    return content[:start] + bytes(len(content[start:stop])) + content[stop:]


def _choices(changes: int, rng: random.Random) -> Iterable[tuple[bool, ...]]:
    """Which of so many changes are there: in every way; of many only the first ones, all but one, and a sample."""
    if changes <= _ALL_SUBSETS_OF:
        return itertools.product((False, True), repeat=changes)
    prefixes = [tuple(at < kept for at in range(changes)) for kept in range(changes + 1)]
    lacking = [tuple(at != lost for at in range(changes)) for lost in range(changes)]
    return prefixes + lacking + [tuple(rng.random() < 0.5 for _ in range(changes)) for _ in range(2**_ALL_SUBSETS_OF)]


def _combinations(options: dict[int, list[bytes]], limit: int, rng: random.Random) -> Iterator[dict[int, bytes]]:
    """One content for each file, in every way if there are at most `limit`."""
    if math.prod(len(found) for found in options.values()) <= limit:
        for chosen in itertools.product(*options.values()):
            yield dict(zip(options, chosen, strict=True))
        return
    for node, found in options.items():
        for content, at in itertools.product(found, (0, -1)):
            yield {other: contents[at] for other, contents in options.items()} | {node: content}
    for _ in range(limit):
        yield {node: rng.choice(found) for node, found in options.items()}
