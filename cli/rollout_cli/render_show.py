"""One session on a page, and many in a table, as rows to read. As in `render`, nothing here prints and nothing escapes.

A chart is one line of bars, the tallest of which is the greatest value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rollout_cli.items import describe
from rollout_cli.render import preview, remedy, size
from rollout_cli.terminal import Block, Line
from rollout_cli.times import local_time

if TYPE_CHECKING:
    import rollout

TURNS_SHOWN, TOOLS_SHOWN, MILESTONES_SHOWN = 20, 12, 5
CHART_COLUMNS = 60
_BARS = "▁▂▃▄▅▆▇█"
_NAME_CHARS = 40
_EXCHANGE_CHARS = 2000
_SPANS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


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
    yield _fact("turns", f"{stand:,} stand{f', {undone:,} undone' if undone else ''}; {len(state.history):,} items")
    yield from _tokens(found)
    for i, use in enumerate(found.tools[:TOOLS_SHOWN]):
        failed = f", {use.failures:,} failed" if use.failures else ""
        taken_back = f", {use.undone:,} undone" if use.undone else ""
        times = f"{use.calls:,} call{'' if use.calls == 1 else 's'}"
        yield _fact("tools" if not i else "", f"{preview(use.name, _NAME_CHARS)}: {times}{failed}{taken_back}")
    yield from _and_more(len(found.tools) - TOOLS_SHOWN, "tools")
    yield from _milestones("compacted", found.compactions, _compaction)
    yield from _milestones("rolled back", found.rollbacks, _rollback)
    yield from _damage(found)


def turn_table(found: rollout.Summary, columns: int | None, everything: bool) -> Iterator[Line]:
    """`rollout show`, a turn a line: the newest ones, or all."""
    turns = found.turns if everything else found.turns[-TURNS_SHOWN:]
    if not turns:
        return
    yield ((f"{'turn':>5}  {'status':<11}  {'took':>8}  {'calls':>5}  {'failed':>6}  {'tokens':>9}  user", "bold"),)
    if len(turns) < len(found.turns):
        yield ((f"       {len(found.turns) - len(turns):,} older ones: --all shows them", "dim"),)
    first = len(found.turns) - len(turns)
    number = sum(each.turn.stands for each in found.turns[:first])
    for each in turns:
        turn = each.turn
        number += turn.stands
        shown = str(number) if turn.stands else "-"
        status = turn.status if turn.stands else "undone"
        failed = f"{each.failures:,}" if each.failures else ""
        row = f"{shown:>5}  {status:<11}  {span(each.duration_s):>8}  {each.calls or '':>5}  "
        user = preview(turn.user or "", columns)
        style = "" if turn.stands else "dim"
        yield (row, style), (f"{failed:>6}", "red"), (f"  {short_number(each.spent.total):>9}  {user}", style)


def exchange(found: rollout.Summary) -> Iterator[Line | Block]:
    """`rollout show`, what was said last."""
    for label, item in (("user", found.last_user), ("assistant", found.last_assistant)):
        if item is not None:
            described = describe(item)
            cut = "…" if len(described.text) > _EXCHANGE_CHARS else ""
            yield ((label, described.style or "bold"),)
            yield Block(described.text[:_EXCHANGE_CHARS] + cut, indent_columns=2)


def stats(found: rollout.Stats, columns: int | None, limit: int) -> Iterator[Line]:
    """`rollout stats`: what it comes to, then a table each by day, model and project."""
    spent = found.spent
    untold = f" ({found.without_tokens:,} say nothing of tokens)" if found.without_tokens else ""
    yield _fact("sessions", f"{found.sessions:,}{untold}, {found.turns:,} turns, {size(found.bytes)}")
    yield _fact("spent", f"{spent.total:,} tokens in {found.requests:,} requests")
    yield _fact("", f"input {spent.input:,} (cached {spent.cached:,})")
    yield _fact("", f"output {spent.output:,} (reasoning {spent.reasoning:,})")
    yield _fact("in context", f"{found.context_tokens:,} tokens now")
    drawn = chart([row.spent.total for row in found.by_day if row.key is not None])
    if drawn:
        yield ("by day      ", "bold"), (drawn, "cyan")
    newest = found.by_day[::-1]
    for name, rows in (("day (UTC)", newest), ("model", found.by_model), ("project", found.by_project)):
        if rows:
            yield ("",)
            yield ((_row("spent", "input", "cached", "output", "context", "requests", "sessions", name), "bold"),)
        for row in rows[:limit]:
            counts = (row.spent.total, row.spent.input, row.spent.cached, row.spent.output, row.context_tokens)
            shown = [*map(short_number, counts), f"{row.requests:,}", f"{row.sessions:,}"]
            key = "(not known)" if row.key is None else preview(row.key, columns)
            yield (_row(*shown, key),)
        if len(rows) > limit:
            yield ((_row(*[""] * 7, f"and {len(rows) - limit:,} more: --limit shows them"), "dim"),)


def _row(*cells: str) -> str:
    return "  ".join(f"{cell:>8}" for cell in cells[:-1]) + f"  {cells[-1]}"


def chart(values: Sequence[int | None], columns: int = CHART_COLUMNS) -> str:
    """The values as bars, oldest first; of more than there is room for, the greatest of each few. None and 0: none."""
    step = max(1, -(-len(values) // columns))
    groups = [[each for each in values[i : i + step] if each is not None] for i in range(0, len(values), step)]
    greatest = max((max(group) for group in groups if group), default=0)
    if not greatest:
        return ""
    tops = [max(group, default=0) for group in groups]
    return "".join(_BARS[(len(_BARS) - 1) * top // greatest] if top else " " for top in tops)


def span(seconds: float | None) -> str:
    """A length of time as people write it: `1h 05min`, `12.3s`."""
    if seconds is None:
        return ""
    for large, unit, small, lesser in _SPANS:
        if seconds >= large:
            return f"{int(seconds // large)}{unit} {int(seconds % large // small):02}{lesser}"
    return f"{seconds:.1f}s"


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
    return from_ if end is None else f"{from_} to {local_time(end)}"


def _models(found: rollout.Summary) -> str:
    if not found.models:
        return found.state.previous_model or "(none yet)"
    shown = found.models[-MILESTONES_SHOWN:]
    names = [f"{preview(each.text or '', _NAME_CHARS)} (line {each.line})" for each in shown]
    left_out = len(found.models) - len(shown)
    return (f"{left_out:,} changes, " if left_out else "") + ", then ".join(names)


def _tokens(found: rollout.Summary) -> Iterator[Line]:
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
    drawn = chart([each.context_tokens for each in found.turns])
    if drawn:
        greatest = max(each.context_tokens or 0 for each in found.turns)
        yield (("growth", "bold"), "      ", (drawn, "cyan"), f"  context by turn, at most {greatest:,}")


def _milestones(name: str, found: Sequence[rollout.Milestone], tell: object) -> Iterator[Line]:
    for i, each in enumerate(found[-MILESTONES_SHOWN:]):
        words = tell(each) if callable(tell) else ""
        yield _fact(name if not i else "", f"{words}{'' if each.stands else ' (undone)'}")
    yield from _and_more(len(found) - MILESTONES_SHOWN, "older")


def _compaction(each: rollout.Milestone) -> str:
    to = "a text" if each.number is None else f"{each.number:,} item{'' if each.number == 1 else 's'}"
    return f"{_place(each)}: to {to}"


def _rollback(each: rollout.Milestone) -> str:
    return f"{_place(each)}: {each.number:,} turn{'' if each.number == 1 else 's'}"


def _place(each: rollout.Milestone) -> str:
    return f"line {each.line}" + (f" of {each.inherited}" if each.inherited else "")


def _damage(found: rollout.Summary) -> Iterator[Line]:
    if not found.damaged_lines:
        yield _fact("damage", "none")
        return
    count = f"{found.damaged_lines:,} line{'' if found.damaged_lines == 1 else 's'}"
    yield _fact("damage", f"{count}; rollout verify lists all damage", "red")
    for met in found.state.damage[:1]:
        yield _fact("", f"{met.reason}; {remedy(met)}")


def _and_more(count: int, what: str) -> Iterator[Line]:
    if count > 0:
        yield _fact("", f"and {count:,} {what} more; --json has all")
