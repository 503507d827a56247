"""Lines of a log: the status of each, what damages it, and those that are followed as they are written."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import rollout
from rollout_cli.cells import LABEL_CHARS, NARROW_COLUMNS, Column, Table, id_columns, preview, short_id
from rollout_cli.items import STYLES, Described, describe_record
from rollout_cli.terminal import Row, Wrapped, fact
from rollout_cli.units import clock_time, count, size
from rollout_cli.views import array, encode, members, pick

_EXPLAINED = "turn_id status by by_offset by_inherited reason inherited path"
_NOTE = "line offset kind reason"
_NEW_FILES = "torn damaged backup"
_UNDONE = ("rolled_back", "replaced", "removed")
_STYLES = {"visible": "green", "damaged": "red", **dict.fromkeys(_UNDONE, "dim")}
_WIDE_COLUMNS = 76
_REMEDIES = {
    "torn": "nothing to do: the write was never finished; the next writer cuts it off",
    "base": "put the file of that thread back into the home, or name the home with --home",
    "sealed": "restore the file from a copy; what was readable has been read",
    "oversize": "raise Limits.line_bytes if the line is meant to be that long",
}
_REMEDY = "nothing to do for reading: the line is left out, the rest is read; restore it from a copy if it matters"
_REPAIRS = {
    "newline": "gets its line end",
    "cut": "is kept in a file beside, then cut off",
    "separate": "gets a line of its own",
    "move": "moves to a file beside",
    "drop": "dropped",
    "unmark": "loses the mark of its batch and stands alone",
}


def explained_json(lines: Iterable[rollout.Explained]) -> Iterator[bytes]:
    """`rollout explain`: one object a log line, streamed: where, what, in which turn, and its status."""
    return array({**pick(line, "line offset"), "kind": _kind(line), **pick(line, _EXPLAINED)} for line in lines)


def explained_rows(lines: Iterable[rollout.Explained], columns: int | None) -> Iterator[Row]:
    """A row a line."""
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    parts = (
        Column("line", 4 if is_narrow else 6, is_number=True),
        Column("byte", 11, is_number=True, least_columns=100),
        Column("kind", 12 if is_narrow else 23),
        Column("turn", id_columns(columns), least_columns=NARROW_COLUMNS),
    )
    table = Table(parts, "status", columns)
    yield table.heading()
    for line in lines:
        kind, turn = preview(_kind(line), LABEL_CHARS), short_id(line.turn_id or "-", columns)
        cells = (str(line.line), str(line.offset), kind, turn, status_words(line, columns))
        yield table.row(cells, status=_STYLES.get(line.status, ""))


def sentences(lines: Iterable[rollout.Explained]) -> Iterator[Row]:
    """`rollout explain --line N`: the same, each to read in a sentence."""
    for line in lines:
        turn = f" of turn {line.turn_id}" if line.turn_id else ""
        place = f"Line {line.line}" + (f" of {line.path}" if line.inherited else "")
        yield Wrapped((f"{place} (byte {line.offset}), {_kind(line)}{turn}: {status_words(line)}.",))


def followed_json(event: rollout.FollowEvent) -> Iterator[bytes]:
    """`rollout tail`: {happened, path, line, offset, type, kind, status, turn_id, reason, what, record}.

    `record` is the whole line as it was written (null if it is damaged, and for a notice).
    """
    record, place = event.record, "line offset type kind reason"
    known = pick(record, place) if record else dict.fromkeys(place.split())
    reason = known.pop("reason")
    data = record.data.strip(b" \t\r\n").replace(b"\r", b" ") if record else b""
    head = {**pick(event, "happened path"), **known, **pick(event, "status turn_id"), "reason": reason}
    yield from members({**head, "what": event.what, "record": iter([data or b"null"])})


def followed_rows(event: rollout.FollowEvent, columns: int | None) -> Iterator[Row]:
    """Number, time, status, what the line says; or the notice."""
    record, status = event.record, event.status or ""
    if record is None:
        yield (f"{event.happened:>6}  ", "bold yellow"), (event.what or "", "yellow")
        return
    told = Described("", record.reason or "") if record.is_damaged else describe_record(record)
    is_item = rollout.tell(record.type, record.kind).kind == "item"
    label = told.label if is_item or record.is_damaged else record.kind or record.type
    text = ("" if told.label == "turn" else told.text) or short_id(event.turn_id or "", columns)
    clock = clock_time(record.timestamp)
    cells = (str(record.line), clock, status.replace("_", " "), preview(label, 20), preview(text, columns))
    style = "yellow" if status in _UNDONE else _STYLES.get(status, "dim")
    yield _followed_table(columns).row(cells, status=style, kind=STYLES.get(label, ""))


@functools.cache
def _followed_table(columns: int | None) -> Table:
    parts = (
        Column("line", 4 if columns is not None and columns < NARROW_COLUMNS else 6, is_number=True),
        Column("time", 8, least_columns=_WIDE_COLUMNS),
        Column("status", 11),
        Column("kind", 20 if columns is None or columns >= _WIDE_COLUMNS else 10),
    )
    return Table(parts, "text", columns)


def report_json(report: rollout.Report) -> Iterator[bytes]:
    """`rollout verify`: {ok, damaged_lines, damage, notes, lines, records, path}."""
    damage = [{**pick(met, _NOTE), "remedy": remedy(met), "path": met.path} for met in report.damage]
    notes = [pick(note, f"{_NOTE} remedy path") for note in report.notes]
    counts = pick(report, "lines records path")
    yield encode({**pick(report, "ok damaged_lines"), "damage": damage, "notes": notes, **counts})


def report_rows(report: rollout.Report) -> Iterator[Row]:
    """Damage, then notes, then the sum."""
    for met in report.damage:
        words = f"{where(met, report.path)}: {met.reason}; {remedy(met)}"
        yield fact("damaged", words, columns=9, style="bold red")
    for note in report.notes:
        advice = f"; {note.remedy}" if note.remedy else ""
        yield fact("note", f"{where(note, report.path)}: {note.reason}{advice}", columns=9, style="yellow")
    numbers = ((report.lines, "line"), (report.records, "record"), (len(report.notes), "note"))
    counts = ", ".join(count(number, noun) for number, noun in numbers)
    found = "no damage" if report.ok else count(report.damaged_lines, "damaged line")
    label, style = ("ok", "bold green") if report.ok else ("damaged", "bold red")
    yield fact(label, f"{report.path or '(bytes in memory)'}: {found}; {counts}", columns=9, style=style)


def repair_json(plan: rollout.RepairPlan, done: rollout.RepairResult | None) -> Iterator[bytes]:
    """`rollout repair`: {path, applied, steps, in_use, torn, damaged, backup}; the last three name new files."""
    steps = [pick(step, "action line last_line offset bytes=size_bytes count inside reason") for step in plan.steps]
    files = dict.fromkeys(_NEW_FILES.split()) if done is None else pick(done, _NEW_FILES)
    yield encode({"path": plan.path, "applied": done is not None, "steps": steps, "in_use": plan.in_use, **files})


def repair_rows(plan: rollout.RepairPlan, done: rollout.RepairResult | None) -> Iterator[Row]:
    """A row a step, then what was done or what hinders it."""
    for step in plan.steps:
        place = f"line {step.line}" if step.last_line == step.line else f"lines {step.line} to {step.last_line}"
        times = f", {step.count:,} times" if step.count > 1 else ""
        what = f"{step.reason} ({size(step.size_bytes)}{times}): {_REPAIRS[step.action]}"
        yield fact(step.action, f"{place} (byte {step.offset}): {what}", columns=9, style="bold yellow")
    if not plan.steps:
        yield fact("ok", f"{plan.path}: nothing to repair", columns=9, style="bold green")
    elif done is None:
        for name in plan.in_use:
            reason = "continues this file: the steps before its end are refused until that one stands alone"
            yield fact("in use", f"{name} {reason}", columns=9, style="bold red")
        yield fact("plan", f"{plan.path}: nothing was changed; --apply does it", columns=9, style="bold yellow")
    else:
        yield fact("done", f"{plan.path}: repaired", columns=9, style="bold green")
        for label, path in pick(done, _NEW_FILES).items():
            if path is not None:
                yield fact(label, str(path), columns=9)


def _kind(line: rollout.Explained) -> str:
    """An event's or item's own type, else that of the line; damaged, blank."""
    return line.kind or line.type or line.status


def status_words(line: rollout.Explained, columns: int | None = None) -> str:
    """The status of a line, and by which: `rolled back by line 24`; sessions by the end of their ids if narrow."""
    words = line.status.replace("_", " ")
    if line.by is not None or line.by_offset is not None:
        words += f" by {_place(line.by, line.by_offset)}"
    elif line.status == "replaced":
        words += " by a compaction"
    if line.by_inherited and line.by_inherited != line.inherited:
        words += f" of {short_id(line.by_inherited, columns)}"
    reason = f": {line.reason}" if line.reason else ""
    inherited = f", inherited from {short_id(line.inherited, columns)}" if line.inherited else ""
    return f"{words}{reason}{inherited}"


def remedy(damage: rollout.Damage) -> str:
    """What to do about damage of this kind."""
    return _REMEDIES.get(damage.kind, _REMEDY)


def _place(line: int | None, offset: int | None) -> str:
    return f"line {line}" if line is not None else f"byte {offset}"


def where(found: rollout.Damage | rollout.Note, path: object) -> str:
    """The line or byte, and the file where it is not the one that was asked about."""
    place = _place(found.line, found.offset)
    return place if found.path is None or str(found.path) == str(path) else f"{place} of {found.path}"
