"""The rollouts of a home as a tree.

Forks stand under what they were forked from, reverts under what they went back in, subagents under who started them.
Every file has one node. A file whose parent is not there is a root, and so is one of those whose parents lead round in
a circle: their notes say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from rollout.files.layout import Bases, RolloutFile
from rollout.files.port import Progress
from rollout.home.index.entry import Entry
from rollout.home.index.index import Index
from rollout.home.threads import Inventory, SessionRow, Thread, row_of
from rollout.ids import FileId


@dataclasses.dataclass(frozen=True, slots=True)
class SessionTree:
    """A file and what goes on from it, oldest first. `row` is of that file alone; a revert has its thread's id.

    The nesting is as deep as the lineage: walk it with a stack of your own.
    """

    row: SessionRow
    relation: Literal["root", "fork", "revert", "subagent"]
    children: tuple[SessionTree, ...] = dataclasses.field(repr=False, compare=False)
    note: str | None = None
    """Why it is a root although it has a parent."""


@dataclasses.dataclass(slots=True)
class _Place:
    """A file on its way into the tree."""

    row: SessionRow
    order: tuple[str, str, str]
    base: str | None = None
    relation: Literal["root", "fork", "revert", "subagent"] = "root"
    parent: str | None = None
    note: str | None = None
    children: list[str] = dataclasses.field(default_factory=list)

    def base_among(self, files: Sequence[RolloutFile]) -> str | None:
        """The file that it goes on from by reference, if that is one of these and not itself."""
        return next((entry.file for entry in files if entry.file == self.base != str(self.row.path)), None)


def grow_tree(index: Index, progress: Progress | None = None) -> tuple[SessionTree, ...]:
    """The roots, newest first; archived rollouts too. All files are scanned."""
    inventory = Inventory(index.home, index.fs)
    files_of_home = inventory.files
    places: dict[str, _Place] = {}
    threads: dict[str, list[RolloutFile]] = {}
    bases = Bases(inventory.home, inventory.fs, files_of_home)
    for file, entry in index.entries(files_of_home):
        row = row_of(Thread(file, [file]), entry, inventory)
        places[file.file] = _Place(row, file.order, base=_base(file, entry, bases))
        threads.setdefault(file.thread, []).append(file)
        if progress is not None:
            progress(len(places), len(files_of_home))
    for files in threads.values():
        files.sort(key=lambda entry: entry.precedence)
        files.sort(key=lambda entry: entry.order, reverse=True)  # of copies the one that counts is last
        _join(files, threads, places)
    _open_circles(places)
    return _built(places)


def _join(files: list[RolloutFile], threads: Mapping[str, list[RolloutFile]], places: Mapping[str, _Place]) -> None:
    """Finds the parents of the files of a thread."""
    first = files[-1]
    for entry in files[:-1]:
        place = places[entry.file]
        if entry.parts.file == first.parts.file:
            place.note = f"another file has its id, and counts: {first.file}"
            continue
        place.relation = "revert"
        place.parent = place.base_among(files) or first.file
    place = places[first.file]
    row = place.row
    wanted = row.parent or row.forked_from
    if wanted is None or wanted == row.id:
        return
    if wanted not in threads:
        how = "started by" if row.parent else "forked from"
        place.note = f"{how} {wanted}, which is not here"
        return
    others = threads[wanted]
    place.relation = "subagent" if row.parent else "fork"
    place.parent = place.base_among(others) or others[-1].file


def _base(file: RolloutFile, entry: Entry, bases: Bases) -> str | None:
    """The file that a file goes on from by reference."""
    found = None if entry.base is None else next(bases.candidates(FileId(entry.base), file.path), None)
    return None if found is None else str(found)


def _open_circles(places: Mapping[str, _Place]) -> None:
    """Makes the oldest file of each circle of parents a root."""
    seen: set[str] = set()
    for start in places:
        way: list[str] = []
        at: str | None = start
        while at is not None and at not in seen:
            seen.add(at)
            way.append(at)
            at = places[at].parent
        if at is not None and at in way:
            oldest = min(way[way.index(at) :], key=lambda path: places[path].order)
            place = places[oldest]
            place.relation, place.parent, place.note = "root", None, "its parents lead back to itself"


def _built(places: Mapping[str, _Place]) -> tuple[SessionTree, ...]:
    roots: list[str] = []
    for path, place in places.items():
        (roots if place.parent is None else places[place.parent].children).append(path)
    order, nodes = [], dict[str, SessionTree]()
    stack = list(roots)
    while stack:
        path = stack.pop()
        order.append(path)
        stack += places[path].children
    for path in reversed(order):  # children first
        place = places[path]
        children = sorted(place.children, key=lambda child: places[child].order)
        nodes[path] = SessionTree(place.row, place.relation, tuple(nodes[child] for child in children), place.note)
    return tuple(nodes[path] for path in sorted(roots, key=lambda root: places[root].order, reverse=True))
