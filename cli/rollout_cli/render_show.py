"""One session on a page, and many in a table, as rows to read. As in `render`, nothing here prints and nothing escapes.

A chart is one line of bars, the tallest of which is the greatest value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut_front
from rollout_cli.items import describe
from rollout_cli.render import count, preview, remedy, size
from rollout_cli.terminal import Block, Line
from rollout_cli.times import duration, local_time

if TYPE_CHECKING:
    import rollout

TURNS_SHOWN, TOOLS_SHOWN, MILESTONES_SHOWN = 20, 12, 5
CHART_COLUMNS, LABEL_COLUMNS = 60, 12
_BARS = "▁▂▃▄▅▆▇█"
_NAME_CHARS = 40
_EXCHANGE_CHARS = 2000
_TURN_COLUMNS = (
    Column("turn", 5, is_number=True),
    Column("status", 11),
    Column("took", 6, is_number=True),
    Column("calls", 5, is_number=True, least_columns=76),
    Column("failed", 6, is_number=True, least_columns=76),
    Column("tokens", 7, is_number=True, least_columns=NARROW_COLUMNS),
)
_SPENT_COLUMNS = (
    Column("spent", 8, is_number=True),
    Column("input", 8, is_number=True, least_columns=80),
    Column("cached", 8, is_number=True, least_columns=110),
    Column("output", 8, is_number=True, least_columns=80),
    Column("context", 8, is_number=True),
    Column("requests", 8, is_number=True, least_columns=110),
    Column("sessions", 8, is_number=True, least_columns=NARROW_COLUMNS),
)


def summary(found: rollout.Summary, columns: int | None) -> Iterator[Line]:
    """`rollout show`, its facts: who and where, models, tokens, tools, what was taken back, damage."""
    state, session = found.state, found.state.session or {}
    yield _fact("thread", f"{state.thread_id or '(unknown)'}{f'  {found.name}' if found.name else ''}")
    yield _fact("file", str(state.path or "(bytes in memory)"))
    git = session.get("git")
    branch = git.get("branch") if isinstance(git, dict) else None
    where = (session.get("cwd"), branch, session.get("originator"), session.get("cli_version"))
    yield _fact("session", "  ".join(each for each in where if isinstance(each, str)) or "(none)")
    yield _fact("time", _time(session.get("timestamp"), found.ended))
    yield _fact("model", _models(found))
    stand = sum(each.turn.stands for each in found.turns)
    undone = len(found.turns) - stand
    items = count(len(state.history), "item")
    yield _fact("turns", f"{stand:,} stand{f', {undone:,} undone' if undone else ''}; {items}")
    yield from _tokens(found, columns)
    for i, use in enumerate(found.tools[:TOOLS_SHOWN]):
        failed = f", {use.failures:,} failed" if use.failures else ""
        taken_back = f", {use.undone:,} undone" if use.undone else ""
        told = f"{preview(use.name, _NAME_CHARS)}: {count(use.calls, 'call')}{failed}{taken_back}"
        yield _fact("tools" if not i else "", told)
    yield from _and_more(len(found.tools) - TOOLS_SHOWN, "tools")
    yield from _milestones("compacted", found.compactions, _compaction)
    yield from _milestones("rolled back", found.rollbacks, _rollback)
    yield from _damage(found)


def turn_table(found: rollout.Summary, columns: int | None, everything: bool) -> Iterator[Line]:
    """`rollout show`, a turn a line: the newest ones, or all."""
    turns = found.turns if everything else found.turns[-TURNS_SHOWN:]
    if not turns:
        return
    table = Table(_TURN_COLUMNS, "user", columns)
    yield ("",)
    yield table.heading()
    if len(turns) < len(found.turns):
        yield ((f"       {len(found.turns) - len(turns):,} older ones: --all shows them", "dim"),)
    first = len(found.turns) - len(turns)
    number = sum(each.turn.stands for each in found.turns[:first])
    for each in turns:
        turn = each.turn
        number += turn.stands
        shown = str(number) if turn.stands else "-"
        status = turn.status if turn.stands else "undone"
        counts = (_or_blank(each.calls), _or_blank(each.failures), short_number(each.spent.total))
        cells = (shown, status, duration(each.duration_s), *counts, preview(turn.user or "", columns))
        yield table.row(cells, "" if turn.stands else "dim", failed="red")


def exchange(found: rollout.Summary) -> Iterator[Line | Block]:
    """`rollout show`, what was said last."""
    for label, item in (("user", found.last_user), ("assistant", found.last_assistant)):
        if item is not None:
            described = describe(item)
            cut = "…" if len(described.text) > _EXCHANGE_CHARS else ""
            yield ("",)
            yield ((f"last {label} message", described.style or "bold"),)
            yield Block(described.text[:_EXCHANGE_CHARS] + cut, indent_columns=2)


def stats(found: rollout.Stats, columns: int | None, limit: int) -> Iterator[Line]:
    """`rollout stats`: what it comes to, then a table each by day, model and project."""
    spent = found.spent
    yield _fact("sessions", f"{found.sessions:,}, {count(found.turns, 'turn')}, {size(found.bytes)}")
    if found.without_tokens:
        yield _fact("", f"{found.without_tokens:,} without token counts")
    yield _fact("spent", f"{count(spent.total, 'token')} in {count(found.requests, 'request')}")
    yield _fact("", f"input {spent.input:,} (cached {spent.cached:,})")
    yield _fact("", f"output {spent.output:,} (reasoning {spent.reasoning:,})")
    yield _fact("in context", f"{found.context_tokens:,} tokens now")
    drawn = chart([row.spent.total for row in found.by_day if row.key is not None], _chart_columns(columns))
    if drawn:
        yield ("by day      ", "bold"), (drawn, "cyan")
    newest = found.by_day[::-1]
    for name, rows in (("day (UTC)", newest), ("model", found.by_model), ("project", found.by_project)):
        table = Table(_SPENT_COLUMNS, name, columns)
        if rows:
            yield ("",)
            yield table.heading()
        for row in rows[:limit]:
            counts = (row.spent.total, row.spent.input, row.spent.cached, row.spent.output, row.context_tokens)
            shown = [*map(short_number, counts), f"{row.requests:,}", f"{row.sessions:,}"]
            key = "(not known)" if row.key is None else preview(row.key, None)
            yield table.row([*shown, key if table.room is None else cut_front(key, table.room)])
        if len(rows) > limit:
            yield ((f"          and {len(rows) - limit:,} more: --limit shows them", "dim"),)


def chart(values: Sequence[int | None], columns: int = CHART_COLUMNS) -> str:
    """The values as bars, oldest first; of more than there is room for, the greatest of each few. None and 0: none."""
    step = max(1, -(-len(values) // columns))
    groups = [[each for each in values[i : i + step] if each is not None] for i in range(0, len(values), step)]
    greatest = max((max(group) for group in groups if group), default=0)
    if not greatest:
        return ""
    tops = [max(group, default=0) for group in groups]
    return "".join(_BARS[(len(_BARS) - 1) * top // greatest] if top else " " for top in tops)


def short_number(number: int) -> str:
    """A count as people write it where there is little room: `1.2 M`; nothing for 0."""
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.1f} {unit}"
    return str(number) if number else ""


def _fact(name: str, value: str, style: str = "") -> Line:
    return (f"{name:<12}", "bold"), (value, style)


def _time(begin: object, end: str | None) -> str:
    from_ = local_time(begin) if isinstance(begin, str) else "(unknown)"
    if end is None:
        return from_
    day, _, time = local_time(end).partition(" ")
    return f"{from_} to {time}" if time and from_.startswith(day) else f"{from_} to {local_time(end)}"


def _models(found: rollout.Summary) -> str:
    if not found.models:
        return found.state.previous_model or "(none yet)"
    shown = found.models[-MILESTONES_SHOWN:]
    names = [f"{preview(each.text or '', _NAME_CHARS)} (line {each.line})" for each in shown]
    left_out = len(found.models) - len(shown)
    return (f"{left_out:,} changes, " if left_out else "") + ", then ".join(names)


def _tokens(found: rollout.Summary, columns: int | None) -> Iterator[Line]:
    spent = found.spent
    if not spent.total and found.context_tokens is None:
        yield _fact("tokens", "(not recorded)")
        return
    parts = f"input {spent.input:,} (cached {spent.cached:,}), output {spent.output:,} (reasoning {spent.reasoning:,})"
    here = " here, its base's not counted" if (found.state.session or {}).get("history_base") else ""
    yield _fact("tokens", f"{spent.total:,} spent{here}{f': {parts}' if spent.input or spent.output else ''}")
    if found.context_tokens is not None:
        window = found.window_tokens
        share = f" of {window:,} ({found.context_tokens / window:.0%})" if window else ""
        yield _fact("context", f"{found.context_tokens:,} tokens{share}")
    else:
        yield _fact("context", "not measured since it was compacted" if found.compactions else "(not recorded)")
    drawn = chart([each.context_tokens for each in found.turns], _chart_columns(columns))
    if drawn:
        greatest = max(each.context_tokens or 0 for each in found.turns)
        yield (("growth      ", "bold"), (drawn, "cyan"), f"  context by turn, at most {greatest:,}")


def _milestones(name: str, found: Sequence[rollout.Milestone], tell: object) -> Iterator[Line]:
    for i, each in enumerate(found[-MILESTONES_SHOWN:]):
        words = tell(each) if callable(tell) else ""
        yield _fact(name if not i else "", f"{words}{'' if each.stands else ' (undone)'}")
    yield from _and_more(len(found) - MILESTONES_SHOWN, "older")


def _compaction(each: rollout.Milestone) -> str:
    to = "a text" if each.number is None else count(each.number, "item")
    return f"{_place(each)}: to {to}"


def _rollback(each: rollout.Milestone) -> str:
    return f"{_place(each)}: {count(each.number or 0, 'turn')}"


def _place(each: rollout.Milestone) -> str:
    return f"line {each.line}" + (f" of {each.inherited}" if each.inherited else "")


def _damage(found: rollout.Summary) -> Iterator[Line]:
    if not found.damaged_lines:
        yield _fact("damage", "none")
        return
    yield _fact("damage", f"{count(found.damaged_lines, 'line')}; rollout verify lists all damage", "red")
    for met in found.state.damage[:1]:
        yield _fact("", f"{met.reason}; {remedy(met)}")


def _and_more(number: int, what: str) -> Iterator[Line]:
    if number > 0:
        yield _fact("", f"and {number:,} {what} more; --json has all")


def _or_blank(number: int) -> str:
    return f"{number:,}" if number else ""


def _chart_columns(columns: int | None) -> int:
    return CHART_COLUMNS if columns is None else min(CHART_COLUMNS, max(columns - LABEL_COLUMNS, 1))
