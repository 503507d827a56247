"""What a home holds, as rows to read: lists, hits, trees. As in `render`, nothing here prints and nothing escapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollout_cli.render import preview, size
from rollout_cli.terminal import Line, Span
from rollout_cli.times import local_time, recent_time

if TYPE_CHECKING:
    import rollout
    from rollout_cli.homes import Deed

CWD_CHARS, BRANCH_CHARS = 24, 16
"""How much of them a terminal's line shows."""
_WIDE, _WIDEST = 110, 150
"""From as many columns on a line shows the working directory, and the branch too."""
_HIT_COLUMNS = 46
"""What stands before the snippet of a hit."""
_GAPS = re.compile(r"[ \t\n\r]+")
_FATES = {"replaced": "compacted away", "rolled_back": "rolled back"}
_FATE_STYLES = {"visible": "green"}


def listing(
    rows: Sequence[rollout.Row], columns: int | None, short_ids: Mapping[str, str], sort: str
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
    heading = ("id", sort, "turns", "msgs", "size", "", "cwd", "branch")
    shown = [i for i, name in enumerate(heading) if i < 5 or any(cells[i] for cells in table)]
    widths = [max(len(cells[i]) for cells in (heading, *table)) for i in range(len(heading))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(f"{cells[i]:{'>' if i in {2, 3, 4} else '<'}{widths[i]}}" for i in shown)

    if table:
        yield ((f"{line(heading)}  name or first message", "bold"),)
    for row, cells in zip(rows, table, strict=True):
        yield f"{line(cells)}  ", title(row, columns)


def title(row: rollout.Row, columns: int | None) -> Span:
    """What a session is called: its name, else the first that the user said; else what is wrong with it."""
    if row.name:
        return preview(row.name, columns), "bold"
    if row.first_message:
        return preview(row.first_message, columns)
    return (row.trouble, "red") if row.trouble else ("(no message)", "dim")


def marks(row: rollout.Row) -> list[str]:
    """What is special about a session, in words."""
    special = {
        "fork": row.forked_from is not None,
        "subagent": row.parent is not None,
        "archived": row.archived,
        "sealed": row.sealed,
        "damaged": bool(row.damaged),
        "unreadable": row.trouble is not None and (row.name or row.first_message),
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
        for hit in found:
            fate = _FATES.get(hit.status, hit.status)
            where = f"  line {hit.line:>6}  {hit.kind:<11}  "
            yield where, (f"{fate:<14}", _FATE_STYLES.get(hit.status, "yellow")), "  ", *_snippet(hit, columns)


def tree(
    nodes: Sequence[tuple[int, str | None, rollout.Node]], columns: int | None, short_ids: Mapping[str, str]
) -> Iterator[Line]:
    """`rollout tree`: a session a line, below the one that it comes from."""
    when = local_time if columns is None else recent_time
    branches = _branches([depth for depth, _, _ in nodes])
    for (_, _, node), branch in zip(nodes, branches, strict=True):
        row = node.row
        words = [*([] if node.relation == "root" else [node.relation]), *_beside(row, node.relation)]
        note = f"  ({node.note})" if node.note else ""
        turns = f"  {row.turns:,} turn{'' if row.turns == 1 else 's'}"
        ident = (short_ids.get(row.id, row.id), "bold")
        yield (
            branch,
            ident,
            f"  {when(row.created)}{turns}  ",
            (", ".join(words), "yellow"),
            ("  " if words else ""),
            title(row, columns),
            (note, "dim"),
        )


def sealed(deed: Deed[rollout.Sealed | None]) -> Line:
    """`rollout seal`: one file, and how small it became."""
    done = deed.outcome
    if done is None:
        return ("would seal ", "bold yellow"), f"{deed.path}"
    return ("sealed     ", "bold green"), f"{done.path}  {size(done.plain_bytes)} in {size(done.sealed_bytes)}"


def sealed_in_sum(deeds: Iterable[Deed[rollout.Sealed | None]]) -> Iterator[Line]:
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
            f"{status.stale:,} file{'' if status.stale == 1 else 's'}, {size(status.stale_bytes)} to be read",
        )
    else:
        yield ("stale    ", "bold green"), "none"


def _beside(row: rollout.Row, relation: str) -> list[str]:
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


def _place_of_work(row: rollout.Row, columns: int | None) -> tuple[str, str]:
    cwd, branch = row.cwd or "", row.git_branch or ""
    if columns is None:
        return preview(cwd, columns), preview(branch, columns)
    home = str(Path.home())
    cwd = f"~{cwd.removeprefix(home)}" if cwd == home or cwd.startswith(f"{home}/") else cwd
    cwd = cwd if len(cwd) <= CWD_CHARS else f"…{cwd[1 - CWD_CHARS :]}"
    branch = branch if len(branch) <= BRANCH_CHARS else f"{branch[: BRANCH_CHARS - 1]}…"
    return cwd if columns >= _WIDE else "", branch if columns >= _WIDEST else ""


def _snippet(hit: rollout.Hit, columns: int | None) -> Iterator[Span]:
    """The text around a hit on one line, the matches marked."""
    begin = 0
    before = 0 if columns is None else max(columns - _HIT_COLUMNS, 0) // 3
    if columns is not None and hit.matches and hit.matches[0][0] > before:
        begin = hit.matches[0][0] - before
        yield "…"
    for start, end in hit.matches:
        yield _GAPS.sub(" ", hit.snippet[begin:start])
        yield _GAPS.sub(" ", hit.snippet[start:end]), "bold reverse"
        begin = end
    yield _GAPS.sub(" ", hit.snippet[begin:])
