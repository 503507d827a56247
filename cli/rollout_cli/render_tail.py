"""A session that is followed, as rows to read. As in `render`, nothing here prints and nothing escapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollout_cli.cells import NARROW_COLUMNS, Column, Table
from rollout_cli.items import STYLES, describe
from rollout_cli.render import count, preview, short_id
from rollout_cli.terminal import Line

if TYPE_CHECKING:
    import rollout

_WIDE_COLUMNS = 76
_STYLES = {"visible": "green", "damaged": "red", "event": "dim", "metadata": "dim", "blank": "dim"}
_SAID = ("message", "text", "reason", "last_agent_message", "model", "cwd")
"""What tells most of a record that is no item, the first that is there."""


def told(told: rollout.FollowEvent, columns: int | None) -> Line:
    """`rollout tail`: a line of the log a line: number, time, what became of it, what it says; or a notice."""
    record = told.record
    if record is None:
        return (f"{told.happened:>6}  ", "bold yellow"), (told.what or "", "yellow")
    label, text = _said(record, columns)
    status = told.status or ""
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    parts = (
        Column("line", 4 if is_narrow else 6, is_number=True),
        Column("time", 8, least_columns=_WIDE_COLUMNS),
        Column("status", 11),
        Column("kind", 20 if columns is None or columns >= _WIDE_COLUMNS else 10),
    )
    table = Table(parts, "text", columns)
    cells = (str(record.line), _clock(record), status.replace("_", " "), preview(label, 20), preview(text, columns))
    return table.row(cells, status=_STYLES.get(status, "yellow"), kind=STYLES.get(label, ""))


def _said(record: rollout.Record, columns: int | None) -> tuple[str, str]:
    payload: Any = record.payload
    if record.is_damaged:
        return "", record.reason or ""
    if not isinstance(payload, Mapping):
        return record.kind or record.type, ""
    if record.type == "response_item":
        described = describe(payload)
        return described.label, described.text
    if record.kind == "token_count":
        return record.kind, _tokens(payload)
    words = next((payload[key] for key in _SAID if payload.get(key) and isinstance(payload[key], str)), None)
    return record.kind or record.type, _counted(payload, columns) if words is None else words


def _counted(payload: Mapping[str, Any], columns: int | None) -> str:
    """What it takes back, or the turn that it is of."""
    for key, noun in (("num_turns", "turn"), ("num_items", "item")):
        if isinstance(payload.get(key), int):
            return count(payload[key], noun)
    items, turn = payload.get("replacement_history"), payload.get("turn_id")
    if isinstance(items, list):
        return f"to {count(len(items), 'item')}"
    return short_id(turn, columns) if isinstance(turn, str) else ""


def _tokens(payload: Mapping[str, Any]) -> str:
    info = payload.get("info")
    totals = info.get("total_token_usage") if isinstance(info, Mapping) else None
    total = totals.get("total_tokens") if isinstance(totals, Mapping) else None
    return f"{total:,} tokens" if isinstance(total, int) else ""


def _clock(record: rollout.Record) -> str:
    """The time of day in the local zone."""
    from rollout_cli.times import clock_time

    value: Any = record.value
    time = value.get("timestamp") if isinstance(value, Mapping) else None
    return clock_time(time if isinstance(time, str) else None)
