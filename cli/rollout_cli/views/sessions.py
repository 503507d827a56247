"""What a home holds: lists, hits, the tree, what an agent reads of another session, the index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rollout
from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut, cut_front, preview, width
from rollout_cli.homes import Node
from rollout_cli.terminal import Line, Row, Span, fact
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


def listing_json(page: rollout.SessionPage) -> Iterator[bytes]:
    """`rollout ls`: {rows, cursor, left_out: {subagents, forks}, notes: [{path, what}]}."""
    notes = [pick(note, "path what") for note in page.notes]
    return members({"rows": sessions_json(page), **pick(page, "cursor left_out"), "notes": notes})


def sessions_json(found: Iterable[rollout.SessionRow]) -> Iterator[bytes]:
    """`rollout sessions`: an array of the rows that `ls` has."""
    return array(pick(each, _ROW) for each in found)


def listing_rows(
    store: rollout.Store, found: Sequence[rollout.SessionRow], columns: int | None, sort: str = "created"
) -> Iterator[Row]:
    """A session a row."""
    ids, when = _short_ids(store, columns, found), local_time if columns is None else recent_time
    table = [
        (
            ids.get(row.id, row.id),
            when(row.updated if sort == "updated" else row.created),
            f"{row.turns:,}",
            f"{row.messages:,}",
            size(row.bytes),
            ", ".join(_marks(row)),
            *_place_of_work(row, columns),
        )
        for row in found
    ]
    if not table:
        return
    headings = ("id", sort, "turns", "msgs", "size", "marks", "cwd", "branch")
    parts = []
    for name, *texts in zip(headings, *table, strict=True):
        wide = max(map(width, (name, *texts))) if any(texts) else 0
        parts.append(Column(name, wide, name in {"turns", "msgs", "size"}, _LEAST_COLUMNS.get(name, 0)))
    layout = Table(parts, "name or first message", columns)
    yield layout.heading()
    for row, cells in zip(found, table, strict=True):
        yield (*layout.row([*cells, ""]), _title(row, columns))


def transcript_json(read: agent_tools.Transcript) -> Iterator[bytes]:
    """`rollout read`: {path, session, text, messages, left_out, cut, bytes}; `session` is a row of `ls`."""
    session = None if read.session is None else pick(read.session, _ROW)
    yield encode({"path": read.path, "session": session, **pick(read, "text messages left_out cut bytes")})


def hits_json(found: rollout.Hits) -> Iterator[bytes]:
    """`rollout search`: {hits, cursor, notes}; `matches` are pairs of characters in the snippet."""
    notes = [pick(note, "path what") for note in found.notes]
    return members({"hits": array(pick(hit, _HIT) for hit in found), "cursor": found.cursor, "notes": notes})


def hits_rows(store: rollout.Store, found: rollout.Hits, columns: int | None) -> Iterator[Row]:
    """The hits of one session below its id and name, in the order of its first."""
    ids, when = _short_ids(store, columns, found), local_time if columns is None else recent_time
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    parts = (Column("line", 6 if is_narrow else 13), Column("kind", 11, least_columns=76), Column("status", 11))
    table = Table(parts, "text", columns)
    groups: dict[str, list[rollout.Hit]] = {}
    for hit in found:
        groups.setdefault(hit.id, []).append(hit)
    for thread, hits in groups.items():
        first = hits[0]
        yield (ids.get(thread, thread), "bold"), f"  {when(first.timestamp)}  {preview(first.name or '', columns)}"
        for hit in hits:
            cells = (f"{'' if is_narrow else '  line '}{hit.line:>6}", hit.kind, hit.status.replace("_", " "), "")
            style = "green" if hit.status == "visible" else "yellow"
            yield (*table.row(cells, status=style), *_snippet(hit, table.room))


def tree_json(nodes: Sequence[Node]) -> Iterator[bytes]:
    """`rollout tree`: an array, each node before its children: {depth, of, relation, note, row}."""
    return array(
        {"depth": depth, "of": above, **pick(node, "relation note"), "row": pick(node.row, _ROW)}
        for depth, above, node in nodes
    )


def tree_rows(store: rollout.Store, nodes: Sequence[Node], columns: int | None) -> Iterator[Row]:
    """A session a row, below the one that it comes from."""
    ids = _short_ids(store, columns, (node.row for _, _, node in nodes))
    when = local_time if columns is None else recent_time
    for (_, _, node), branch in zip(nodes, _branches([depth for depth, _, _ in nodes]), strict=True):
        row, is_root = node.row, node.relation == "root"
        beside = [word for word in _marks(row) if is_root or word not in {"fork", "subagent"}]
        words = ", ".join(beside if is_root else [node.relation, *beside])
        is_narrow = columns is not None and columns < NARROW_COLUMNS
        facts = "" if is_narrow else f"{when(row.created)}  {count(row.turns, 'turn')}  "
        note = f"  ({node.note})" if node.note else ""
        line: Line = (branch, (ids.get(row.id, row.id), "bold"), f"  {facts}", (words, "yellow"))
        yield (*line, "  " if words else "", _title(row, columns), (note, "dim"))


def index_rows(status: rollout.IndexStatus) -> Iterator[Row]:
    """Where the index is, what it holds, and what it does not yet."""
    yield fact("index", str(status.path or "(in memory: the home cannot be written)"), columns=9)
    yield fact("holds", f"{status.entries:,} of {status.files:,} files, in {size(status.bytes)}", columns=9)
    left = f"{count(status.stale, 'file')}, {size(status.stale_bytes)} to be read" if status.stale else "none"
    yield fact("stale", left, columns=9, style="bold yellow" if status.stale else "bold green")


def _title(row: rollout.SessionRow, columns: int | None) -> Span:
    """What a session is called: its name, else the first that the user said; else what is wrong with it."""
    if row.name:
        return preview(row.name, columns), "bold"
    if row.first_message:
        return preview(row.first_message, columns)
    return (row.trouble, "red") if row.trouble else ("(no message)", "dim")


def _marks(row: rollout.SessionRow) -> list[str]:
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
