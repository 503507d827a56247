"""Views as rows to read: what stands where on the page.

A view is an iterator of rows; nothing here prints, and nothing escapes: `Output` makes every text printable.
`columns` is the width of the terminal, or None where rows may be as long as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rollout
from rollout_cli.cells import NARROW_COLUMNS, Column, Table, fill
from rollout_cli.items import describe_at, to_json
from rollout_cli.terminal import Block, Line
from rollout_cli.times import duration, local_time, seconds_between

PREVIEW_CHARS = 1000
"""What one line shows of a text where no terminal asks for less."""
LABEL_CHARS = 40
DAMAGE_SHOWN = 5
_GAPS = re.compile(r"[ \t\n]+")
_REMEDIES = {
    "torn": "nothing to do: the write was never finished; the next writer cuts it off",
    "base": "put the file of that thread back into the home, or name the home with --home",
    "sealed": "restore the file from a copy; what was readable has been read",
    "oversize": "raise Limits.line_bytes if the line is meant to be that long",
}
_MENDS = {
    "newline": "gets its line end",
    "cut": "is kept in a file beside, then cut off",
    "separate": "gets a line of its own",
    "move": "moves to a file beside",
    "drop": "dropped",
    "unmark": "loses the mark of its batch and stands alone",
}
_REMEDY = "nothing to do for reading: the line is left out, the rest is read; restore it from a copy if it matters"


def state(state: rollout.State, columns: int | None) -> Iterator[Line]:
    """`rollout reconstruct`: who and where, what goes on, what reading took."""
    session = state.session or {}
    yield _fact("thread", state.thread_id or "(unknown)")
    yield _fact("file", str(state.path or "(bytes in memory)"))
    begun = local_time(when) if isinstance(when := session.get("timestamp"), str) else ""
    where = _join(session, "cwd", "originator", "cli_version", "model_provider")
    yield _fact("session", "  ".join(filter(None, (begun, where))) or "(none)")
    yield _fact("model", state.previous_model or "(none yet)")
    yield _fact("context", _context(state.reference_context))
    yield _fact("history", count(len(state.history), "item"))
    for label in ("user", "assistant"):
        said = _last(state.history, label)
        if said is not None:
            yield _fact(f"  {label}", preview(said, columns))
    yield _fact("tokens", _tokens(state.token_usage))
    yield _fact(
        "world", "(none)" if state.world_state is None else preview(", ".join(_keys(state.world_state)), columns)
    )
    yield _fact("read", _reading(state))
    if not state.damage:
        yield _fact("damage", "none met")
    for met in state.damage[:DAMAGE_SHOWN]:
        yield _fact("damage", f"{_where(met, state.path)}: {met.reason}", "red")
    if len(state.damage) > DAMAGE_SHOWN:
        yield _fact("", f"and {len(state.damage) - DAMAGE_SHOWN:,} more: rollout verify lists them")


def history(
    items: Sequence[Mapping[str, Any]], columns: int | None, *, newest: int | None = None, full: bool = False
) -> Iterator[Line | Block]:
    """`rollout history`: an item a line, oldest first; with `full`, its whole text below."""
    first = 0 if newest is None else max(len(items) - newest, 0)
    for i in range(first, len(items)):
        item = describe_at(items, i)
        label = (f"{fill(preview(item.label, LABEL_CHARS), 10)} ", item.style)
        if full:
            yield (f"{i + 1:>5}  ", label)
            yield Block(item.text)
        else:
            yield (f"{i + 1:>5}  ", label, preview(item.text, columns))


def turns(turns: Iterable[rollout.Turn], columns: int | None) -> Iterator[Line]:
    """`rollout turns`: a turn a line; one that was undone has no number."""
    parts = (
        Column("#", 4, is_number=True),
        Column("id", _id_columns(columns)),
        Column("status", 11),
        Column("started", 16, least_columns=76),
        Column("took", 6, is_number=True, least_columns=NARROW_COLUMNS),
        Column("items", 5, is_number=True, least_columns=100),
    )
    table = Table(parts, "user", columns)
    yield table.heading()
    number = 0
    for turn in turns:
        number += turn.stands
        cells = (
            str(number) if turn.stands else "-",
            f"{short_id(turn.id or '', columns)}{' (derived)' if turn.derived and columns is None else ''}",
            turn.status if turn.stands else "undone",
            "" if turn.started is None else local_time(turn.started),
            duration(seconds_between(turn.started, turn.ended)),
            str(turn.item_count),
            preview(turn.user or "", columns),
        )
        yield table.row(cells, "" if turn.stands else "dim")


def explanation(lines: Iterable[rollout.Explained], columns: int | None) -> Iterator[Line]:
    """`rollout explain`: a log line a line: where, what, in which turn, and its fate."""
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    parts = (
        Column("line", 4 if is_narrow else 6, is_number=True),
        Column("byte", 11, is_number=True, least_columns=100),
        Column("kind", 12 if is_narrow else 23),
        Column("turn", _id_columns(columns), least_columns=NARROW_COLUMNS),
    )
    table = Table(parts, "fate", columns)
    yield table.heading()
    styles = {"visible": "green", "damaged": "red", "rolled_back": "dim", "replaced": "dim", "removed": "dim"}
    for line in lines:
        kind, turn = preview(kind_of(line), LABEL_CHARS), short_id(line.turn_id or "-", columns)
        cells = (str(line.line), str(line.offset), kind, turn, fate(line, columns))
        yield table.row(cells, fate=styles.get(line.status, ""))


def sentence(line: rollout.Explained) -> Line:
    """`rollout explain --line N`: the same in a sentence."""
    turn = f" of turn {line.turn_id}" if line.turn_id else ""
    where = f"Line {line.line}" + (f" of {line.path}" if line.inherited else "")
    return (f"{where} (byte {line.offset}), {kind_of(line)}{turn}: {fate(line)}.",)


def kind_of(line: rollout.Explained) -> str:
    """An event's or item's own type, else that of the line; damaged, blank."""
    if line.kind is not None:
        return line.kind
    return line.status if line.type is None else line.type


def fate(line: rollout.Explained, columns: int | None = None) -> str:
    """What became of a line, and by which: `rolled back by line 24`; threads by the end of their ids if narrow."""
    by = "" if line.by is None and line.by_offset is None else _place(line.by, line.by_offset)
    if line.by_inherited and line.by_inherited != line.inherited:
        by += f" of {short_id(line.by_inherited, columns)}"
    words = {
        "rolled_back": f"rolled back by {by}" if by else "rolled back",
        "replaced": f"replaced by {by}" if by else "replaced by a compaction",
        "removed": f"removed by {by}" if by else "removed",
    }.get(line.status, str(line.status))
    if line.reason:
        words += f": {line.reason}"
    return words + (f", inherited from {short_id(line.inherited, columns)}" if line.inherited else "")


def report(report: rollout.Report) -> Iterator[Line]:
    """`rollout verify`: damage, then notes, then the verdict."""
    for met in report.damage:
        yield ("damaged  ", "bold red"), f"{_where(met, report.path)}: {met.reason}; {remedy(met)}"
    for note in report.notes:
        advice = f"; {note.remedy}" if note.remedy else ""
        yield ("note     ", "yellow"), f"{_where(note, report.path)}: {note.reason}{advice}"
    path = report.path or "(bytes in memory)"
    counts = ", ".join((count(report.lines, "line"), count(report.records, "record"), count(len(report.notes), "note")))
    if report.ok:
        yield ("ok       ", "bold green"), f"{path}: no damage; {counts}"
    else:
        yield (
            ("damaged  ", "bold red"),
            f"{path}: {count(report.damaged_lines, 'damaged line')}; {counts}",
        )


def repair(plan: rollout.RepairPlan, done: rollout.RepairResult | None) -> Iterator[Line]:
    """`rollout repair`: a step a line, then what became of it."""
    for step in plan.steps:
        where = f"line {step.line}" if step.last_line == step.line else f"lines {step.line} to {step.last_line}"
        count = f", {step.count:,} times" if step.count > 1 else ""
        what = f"{step.reason} ({size(step.size_bytes)}{count}): {_MENDS[step.action]}"
        yield (f"{step.action:<9}", "bold yellow"), f"{where} (byte {step.offset}): {what}"
    if not plan.steps:
        yield ("ok       ", "bold green"), f"{plan.path}: nothing to repair"
    elif done is None:
        for name in plan.in_use:
            reason = "continues this file: the steps before its end are refused until that one stands alone"
            yield ("in use   ", "bold red"), f"{name} {reason}"
        yield ("plan     ", "bold yellow"), f"{plan.path}: nothing was changed; --apply does it"
    else:
        yield ("done     ", "bold green"), f"{plan.path}: repaired"
        for label, path in (("torn", done.torn), ("damaged", done.damaged), ("backup", done.backup)):
            if path is not None:
                yield (f"{label:<9}", "bold"), str(path)


def remedy(damage: rollout.Damage) -> str:
    """What to do about damage of this kind."""
    return _REMEDIES.get(damage.kind, _REMEDY)


def preview(text: str, columns: int | None) -> str:
    """The beginning of a text on one line, and how much there is of it if that is more."""
    limit = PREVIEW_CHARS if columns is None else columns
    folded = _GAPS.sub(" ", text[: 2 * limit].replace("\r\n", "\n")).strip(" ")
    if len(text) <= 2 * limit and len(folded) <= limit:
        return folded
    return f"{folded[:limit]}… ({len(text):,} characters)"


def count(number: int, noun: str) -> str:
    """`1 line`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_id(name: str, columns: int | None) -> str:
    """A whole id where there is room, else its end: ids of one hour begin alike."""
    return name if columns is None or len(name) <= _id_columns(columns) else f"…{name[1 - _id_columns(columns) :]}"


def size(size_bytes: int) -> str:
    """A number of bytes as people write it: `64.0 KiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    power = min((size_bytes.bit_length() - 1) // 10, 4)
    return f"{size_bytes / 1024**power:.1f} {'KMGT'[power - 1]}iB"


def _fact(name: str, value: str, style: str = "") -> Line:
    return (f"{name:<12}", "bold"), (value, style)


def _join(mapping: Mapping[str, Any], *keys: str) -> str:
    return "  ".join(_scalar(mapping[key]) for key in keys if mapping.get(key) is not None)


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _keys(value: object) -> list[str]:
    return list(value) if isinstance(value, Mapping) else [to_json(value)]


def _context(context: Mapping[str, Any] | None) -> str:
    if context is None:
        return "none: the next turn gives the model its whole context again"
    policy = context.get("approval_policy")
    words = {**context, "approval_policy": None if policy is None else f"approval {_scalar(policy)}"}
    return _join(words, "model", "effort", "cwd", "approval_policy", "turn_id") or to_json(context)


def _last(items: rollout.History, label: str) -> str | None:
    """The newest text of that role, if possible one that no program wrote (S5); None if there is none."""
    newest = None
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        if item.get("type") != "message" or item.get("role") != label:
            continue
        told = describe_at(items, i)
        if told.label != label:  # a compaction's summary
            continue
        text = told.text.strip()
        if not rollout.is_program_message(item):
            return text
        newest = text if newest is None else newest
    return newest


def _tokens(usage: Mapping[str, Any] | None) -> str:
    if usage is None:
        return "(not recorded)"
    counts = {token_words(key): n for key, n in usage.items() if key.endswith("_tokens") and n}
    return (
        ", ".join(f"{key} {n:,}" if isinstance(n, int) else f"{key} {_scalar(n)}" for key, n in counts.items()) or "0"
    )


def token_words(key: str) -> str:
    """A key of a token usage in words: `cached input`."""
    return key.removesuffix("_tokens").replace("_", " ")


def _reading(state: rollout.State) -> str:
    whole = ""
    if state.path is not None:
        try:
            base = " and its base" if "history_base" in (state.session or {}) else ""
            whole = f" of {size(Path(state.path).stat().st_size)}{base}"
        except OSError:
            whole = ""
    return f"{size(state.bytes_read)}{whole}, {state.records_decoded:,} records"


def _place(line: int | None, offset: int | None) -> str:
    return f"line {line}" if line is not None else f"byte {offset}"


def _where(found: rollout.Damage | rollout.Note, path: object) -> str:
    """The line or byte, and the file where it is not the one that was asked about."""
    place = _place(found.line, found.offset)
    return place if found.path is None or str(found.path) == str(path) else f"{place} of {found.path}"


def _id_columns(columns: int | None) -> int:
    return 36 if columns is None or columns >= 140 else 9
