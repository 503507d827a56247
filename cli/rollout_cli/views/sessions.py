"""What a home holds: lists, hits, the tree, what an agent reads of another session, the index."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rollout
from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut, cut_front, preview, width
from rollout_cli.homes import Node
from rollout_cli.terminal import Block, Line, Row, Span, fact
from rollout_cli.units import count, local_time, recent_time, size
from rollout_cli.views import array, encode, members, pick

if TYPE_CHECKING:
    from rollout import agent_tools

CWD_COLUMNS, BRANCH_COLUMNS = 24, 16
"""How much of them a terminal's line shows."""
_ROW = (
    "id path name first_message cwd git_branch model_provider model source originator created updated turns messages "
    "tokens bytes archived sealed forked_from parent damaged session_ids trouble files"
)
_HIT = "id name path turn_id kind line offset timestamp snippet matches status session_id"
_WHOLE_ID_COLUMNS = 160
_WIDE, _WIDEST = 110, 150
"""From as many columns on a line shows the working directory, and the branch too."""
_LEAST_COLUMNS = {"turns": 70, "msgs": 80, "size": 80, "marks": NARROW_COLUMNS}
_GAPS = re.compile(r"[ \t\n\r]+")


@dataclasses.dataclass(frozen=True)
class Listing:
    """`rollout ls`: {rows, cursor, left_out: {subagents, forks}, notes: [{path, what}]}. A session a line."""

    store: rollout.Store
    found: Sequence[rollout.SessionRow]
    cursor: str | None = None
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: Sequence[Any] = ()
    sort: str = "created"

    def json(self) -> Iterator[bytes]:
        rows = array(pick(each, _ROW) for each in self.found)
        rest = {"cursor": self.cursor, "left_out": dict(self.left_out), "notes": _notes(self.notes)}
        return members({"rows": rows, **rest})

    def rows(self, columns: int | None) -> Iterator[Row]:
        ids, when = _short_ids(self.store, columns, self.found), _when(columns)
        table = [
            (
                ids.get(row.id, row.id),
                when(row.updated if self.sort == "updated" else row.created),
                f"{row.turns:,}",
                f"{row.messages:,}",
                size(row.bytes),
                ", ".join(marks(row)),
                *_place_of_work(row, columns),
            )
            for row in self.found
        ]
        if not table:
            return
        heading = ("id", self.sort, "turns", "msgs", "size", "marks", "cwd", "branch")
        shown = [i for i in range(len(heading)) if i < 5 or any(cells[i] for cells in table)]
        widths = [max(width(cells[i]) for cells in (heading, *table)) for i in shown]
        parts = [
            Column(heading[i], wide, 2 <= i < 5, _LEAST_COLUMNS.get(heading[i], 0))
            for i, wide in zip(shown, widths, strict=True)
        ]
        layout = Table(parts, "name or first message", columns)
        yield layout.heading()
        for row, cells in zip(self.found, table, strict=True):
            yield (*layout.row([*(cells[i] for i in shown), ""]), title(row, columns))


class Sessions(Listing):
    """`rollout sessions`: an array of the rows that `ls` has."""

    def json(self) -> Iterator[bytes]:
        return array(pick(each, _ROW) for each in self.found)


@dataclasses.dataclass(frozen=True)
class Transcript:
    """`rollout read`: {path, session, text, messages, left_out, cut, bytes}; `session` is a row of `ls`."""

    read: agent_tools.Transcript

    def json(self) -> Iterator[bytes]:
        session = None if self.read.session is None else pick(self.read.session, _ROW)
        rest = pick(self.read, "text messages left_out cut bytes")
        yield encode({"path": self.read.path, "session": session, **rest})

    def rows(self, columns: int | None) -> Iterator[Row]:
        yield Block(self.read.text, indent_columns=0)


@dataclasses.dataclass(frozen=True)
class Found:
    """`rollout search`: {hits, cursor, notes}; `matches` are pairs of characters in the snippet.

    Hits of one session stand below its id and name, in the order of its first.
    """

    store: rollout.Store
    found: rollout.Hits

    def json(self) -> Iterator[bytes]:
        hits = array(pick(hit, _HIT) for hit in self.found)
        return members({"hits": hits, "cursor": self.found.cursor, "notes": _notes(self.found.notes)})

    def rows(self, columns: int | None) -> Iterator[Row]:
        ids, when = _short_ids(self.store, columns, self.found), _when(columns)
        is_narrow = columns is not None and columns < NARROW_COLUMNS
        parts = (Column("line", 6 if is_narrow else 13), Column("kind", 11, least_columns=76), Column("status", 11))
        table = Table(parts, "text", columns)
        groups: dict[str, list[rollout.Hit]] = {}
        for hit in self.found:
            groups.setdefault(hit.id, []).append(hit)
        for thread, hits in groups.items():
            first = hits[0]
            named = f"  {when(first.timestamp)}  {preview(first.name or '', columns)}"
            yield (ids.get(thread, thread), "bold"), named
            for hit in hits:
                cells = (f"{'' if is_narrow else '  line '}{hit.line:>6}", hit.kind, hit.status.replace("_", " "), "")
                style = "green" if hit.status == "visible" else "yellow"
                yield (*table.row(cells, status=style), *_snippet(hit, table.room))


@dataclasses.dataclass(frozen=True)
class Tree:
    """`rollout tree`: an array, each node before its children: {depth, of, relation, note, row}. A session a line."""

    store: rollout.Store
    nodes: Sequence[Node]

    def json(self) -> Iterator[bytes]:
        return array(
            {"depth": depth, "of": above, **pick(node, "relation note"), "row": pick(node.row, _ROW)}
            for depth, above, node in self.nodes
        )

    def rows(self, columns: int | None) -> Iterator[Row]:
        ids, when = _short_ids(self.store, columns, (node.row for _, _, node in self.nodes)), _when(columns)
        is_narrow = columns is not None and columns < NARROW_COLUMNS
        branches = _branches([depth for depth, _, _ in self.nodes])
        for (_, _, node), branch in zip(self.nodes, branches, strict=True):
            row, is_root = node.row, node.relation == "root"
            beside = [word for word in marks(row) if is_root or word not in {"fork", "subagent"}]
            words = ", ".join(beside if is_root else [node.relation, *beside])
            facts = "" if is_narrow else f"{when(row.created)}  {count(row.turns, 'turn')}  "
            note = f"  ({node.note})" if node.note else ""
            line: Line = (branch, (ids.get(row.id, row.id), "bold"), f"  {facts}", (words, "yellow"))
            yield (*line, "  " if words else "", title(row, columns), (note, "dim"))


@dataclasses.dataclass(frozen=True)
class Index:
    """`rollout index`: {path, entries, files, stale, stale_bytes, bytes}."""

    status: rollout.IndexStatus

    def json(self) -> Iterator[bytes]:
        yield encode(pick(self.status, "path entries files stale stale_bytes bytes"))

    def rows(self, columns: int | None) -> Iterator[Row]:
        status = self.status
        yield fact("index", str(status.path or "(in memory: the home cannot be written)"), columns=9)
        yield fact("holds", f"{status.entries:,} of {status.files:,} files, in {size(status.bytes)}", columns=9)
        left = f"{count(status.stale, 'file')}, {size(status.stale_bytes)} to be read" if status.stale else "none"
        yield fact("stale", left, columns=9, style="bold yellow" if status.stale else "bold green")


def title(row: rollout.SessionRow, columns: int | None) -> Span:
    """What a session is called: its name, else the first that the user said; else what is wrong with it."""
    if row.name:
        return preview(row.name, columns), "bold"
    if row.first_message:
        return preview(row.first_message, columns)
    return (row.trouble, "red") if row.trouble else ("(no message)", "dim")


def marks(row: rollout.SessionRow) -> list[str]:
    """What is special about a session, in words."""
    is_large = row.trouble is not None and row.trouble.startswith("too large")
    special = {
        "fork": row.forked_from is not None,
        "subagent": row.parent is not None,
        "archived": row.archived,
        "sealed": row.sealed,
        "damaged": bool(row.damaged),
        "too large": is_large,
        "unreadable": row.trouble is not None and not is_large and (row.name or row.first_message),
    }
    return [name for name, holds in special.items() if holds]


def _short_ids(
    store: rollout.Store, columns: int | None, rows: Iterable[rollout.SessionRow | rollout.Hit]
) -> Mapping[str, str]:
    """How ids are shown: on a terminal their shortest beginnings that are references, else whole."""
    return {} if columns is None or columns >= _WHOLE_ID_COLUMNS else store.shorten({row.id for row in rows})


def _when(columns: int | None) -> Any:
    return local_time if columns is None else recent_time


def _notes(notes: Iterable[Any]) -> list[dict[str, Any]]:
    return [pick(note, "path what") for note in notes]


def _branches(depths: Sequence[int]) -> list[str]:
    """The lines of a tree before each of its nodes, given how deep these lie."""
    branches: list[str] = []
    open_below: set[int] = set()
    for depth in reversed(depths):  # from the last one up: what is below says which lines go on
        lines = ["│   " if level in open_below else "    " for level in range(1, depth)]
        corner = ["├── " if depth in open_below else "└── "] if depth else []
        branches.append("".join(lines + corner))
        open_below = {level for level in open_below if level < depth} | {depth}
    return branches[::-1]


def _place_of_work(row: rollout.SessionRow, columns: int | None) -> tuple[str, str]:
    cwd, branch = row.cwd or "", row.git_branch or ""
    if columns is None:
        return preview(cwd, columns), preview(branch, columns)
    home = str(Path.home())
    cwd = f"~{cwd.removeprefix(home)}" if cwd == home or cwd.startswith(f"{home}/") else cwd
    shown = cut_front(cwd, CWD_COLUMNS) if columns >= _WIDE else ""
    return shown, cut(branch, BRANCH_COLUMNS) if columns >= _WIDEST else ""


def _snippet(hit: rollout.Hit, columns: int | None) -> Iterator[Span]:
    """The text around a hit on one line that has so much room, the matches marked."""
    begin = 0
    before = 0 if columns is None else columns // 3
    is_cut = columns is not None and width(hit.snippet) > columns
    if is_cut and hit.matches and hit.matches[0][0] > before:
        first = hit.matches[0][0]
        begin = first - before
        begin = hit.snippet.find(" ", begin, first) + 1 or begin
        yield "…"
    for start, end in hit.matches:
        yield _GAPS.sub(" ", hit.snippet[begin:start])
        yield _GAPS.sub(" ", hit.snippet[start:end]), "bold reverse"
        begin = end
    yield _GAPS.sub(" ", hit.snippet[begin:])
