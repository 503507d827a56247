"""What a home holds, as rows to read: lists, hits, trees. As in `render`, nothing here prints and nothing escapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut, cut_front, width
from rollout_cli.render import count, preview, size
from rollout_cli.terminal import Line, Span
from rollout_cli.times import local_time, recent_time

if TYPE_CHECKING:
    import rollout
    from rollout_cli.homes import Deed

CWD_COLUMNS, BRANCH_COLUMNS = 24, 16
"""How much of them a terminal's line shows."""
_WIDE, _WIDEST = 110, 150
"""From as many columns on a line shows the working directory, and the branch too."""
_LEAST_COLUMNS = {"turns": 70, "msgs": 80, "size": 80, "marks": NARROW_COLUMNS}
_GAPS = re.compile(r"[ \t\n\r]+")
_FATE_STYLES = {"visible": "green"}


def listing(
    rows: Sequence[rollout.SessionRow], columns: int | None, short_ids: Mapping[str, str], sort: str
) -> Iterator[Line]:
    """`rollout ls`: a heading, then a session a line."""
    when = local_time if columns is None else recent_time
    table = [
        (
            short_ids.get(row.id, row.id),
            when(row.updated if sort == "updated" else row.created),
            f"{row.turns:,}",
            f"{row.messages:,}",
            size(row.bytes),
            ", ".join(marks(row)),
            *_place_of_work(row, columns),
        )
        for row in rows
    ]
    if not table:
        return
    heading = ("id", sort, "turns", "msgs", "size", "marks", "cwd", "branch")
    parts = [
        Column(name, max(width(cells[i]) for cells in (heading, *table)), 2 <= i < 5, _LEAST_COLUMNS.get(name, 0))
        for i, name in enumerate(heading)
        if i < 5 or any(cells[i] for cells in table)
    ]
    shown = [heading.index(part.name) for part in parts]
    layout = Table(tuple(parts), "name or first message", columns)
    yield layout.heading()
    for row, cells in zip(rows, table, strict=True):
        yield (*layout.row([*(cells[i] for i in shown), ""]), title(row, columns))


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


def hits(hits: Iterable[rollout.Hit], columns: int | None, short_ids: Mapping[str, str]) -> Iterator[Line]:
    """`rollout search`: the hits, those of one session below its id and name, in the order of its first."""
    when = local_time if columns is None else recent_time
    groups: dict[str, list[rollout.Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.id, []).append(hit)
    for thread, found in groups.items():
        first = found[0]
        yield (
            (short_ids.get(thread, thread), "bold"),
            f"  {when(first.timestamp)}  {preview(first.name or '', columns)}",
        )
        is_narrow = columns is not None and columns < NARROW_COLUMNS
        fate_columns = (Column("kind", 11, least_columns=76), Column("fate", 11))
        table = Table((Column("line", 6 if is_narrow else 13), *fate_columns), "text", columns)
        for hit in found:
            line = f"{'' if is_narrow else '  line '}{hit.line:>6}"
            cells = (line, hit.kind, hit.status.replace("_", " "), "")
            fate = _FATE_STYLES.get(hit.status, "yellow")
            yield (*table.row(cells, fate=fate), *_snippet(hit, table.room))


def tree(
    nodes: Sequence[tuple[int, str | None, rollout.SessionTree]], columns: int | None, short_ids: Mapping[str, str]
) -> Iterator[Line]:
    """`rollout tree`: a session a line, below the one that it comes from."""
    when = local_time if columns is None else recent_time
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    branches = _branches([depth for depth, _, _ in nodes])
    for (_, _, node), branch in zip(nodes, branches, strict=True):
        row = node.row
        words = [*([] if node.relation == "root" else [node.relation]), *_beside(row, node.relation)]
        note = f"  ({node.note})" if node.note else ""
        facts = "" if is_narrow else f"{when(row.created)}  {count(row.turns, 'turn')}  "
        ident = (short_ids.get(row.id, row.id), "bold")
        yield (
            branch,
            ident,
            f"  {facts}",
            (", ".join(words), "yellow"),
            ("  " if words else ""),
            title(row, columns),
            (note, "dim"),
        )


def sealed(deed: Deed[rollout.SealResult | None]) -> Line:
    """`rollout seal`: one file, and how small it became."""
    done = deed.outcome
    if done is None:
        return ("would seal ", "bold yellow"), f"{deed.path}"
    return ("sealed     ", "bold green"), f"{done.path}  {size(done.plain_bytes)} in {size(done.sealed_bytes)}"


def sealed_in_sum(deeds: Iterable[Deed[rollout.SealResult | None]]) -> Iterator[Line]:
    """`rollout seal`: what it gave back, where that was more than one file."""
    done = [deed.outcome for deed in deeds if deed.outcome is not None]
    if len(done) > 1:
        plain, packed = sum(each.plain_bytes for each in done), sum(each.sealed_bytes for each in done)
        yield ("in all     ", "bold"), f"{len(done):,} sessions, {size(plain)} in {size(packed)}"


def index(status: rollout.IndexStatus) -> Iterator[Line]:
    """`rollout index`: where it is, and how far."""
    yield ("index    ", "bold"), str(status.path or "(in memory: the home cannot be written)")
    yield ("holds    ", "bold"), f"{status.entries:,} of {status.files:,} files, in {size(status.bytes)}"
    if status.stale:
        yield (
            ("stale    ", "bold yellow"),
            f"{count(status.stale, 'file')}, {size(status.stale_bytes)} to be read",
        )
    else:
        yield ("stale    ", "bold green"), "none"


def _beside(row: rollout.SessionRow, relation: str) -> list[str]:
    """The marks of a node, but for what its place says."""
    return [word for word in marks(row) if relation == "root" or word not in {"fork", "subagent"}]


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
