"""A session that is followed, as rows to read. As in `render`, nothing here prints and nothing escapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rollout_cli.items import STYLES, describe
from rollout_cli.render import preview
from rollout_cli.terminal import Line

if TYPE_CHECKING:
    import rollout

_STYLES = {"visible": "green", "damaged": "red", "event": "dim", "metadata": "dim", "blank": "dim"}
_SAID = ("message", "text", "reason", "last_agent_message", "num_turns", "num_items", "model", "turn_id", "cwd")
"""What tells most of a record that is no item, the first that is there."""


def told(told: rollout.Tailed, columns: int | None) -> Line:
    """`rollout tail`: a line of the log a line: number, time, what became of it, what it says; or a notice."""
    record = told.record
    if record is None:
        return (f"{told.happened:>6}  ", "bold yellow"), (told.what or "", "yellow")
    label, text = _said(record)
    status = told.status or ""
    return (
        f"{record.line:>6}  {_clock(record):<8}  ",
        (f"{status.replace('_', ' '):<11}  ", _STYLES.get(status, "yellow")),
        (f"{preview(label, 20):<20}  ", STYLES.get(label, "")),
        preview(text, columns),
    )


def _said(record: rollout.Record) -> tuple[str, str]:
    payload: Any = record.payload
    if record.is_damaged:
        return "damaged", record.reason or ""
    if not isinstance(payload, Mapping):
        return record.kind or record.type, ""
    if record.type == "response_item":
        described = describe(payload)
        return described.label, described.text
    if record.kind == "token_count":
        return record.kind, _tokens(payload)
    words = next((payload[key] for key in _SAID if isinstance(payload.get(key), str | int)), "")
    return record.kind or record.type, str(words)


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
