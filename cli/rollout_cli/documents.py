"""Views as JSON documents, in pieces of whole tokens, ready for `Output.print_json`.

The keys and their order are an interface: other people's scripts rely on them. New keys go behind the old ones.
History items are the recorded bytes, spliced in; all else is encoded from values, integers of any size exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import rollout

_encoder = msgspec.json.Encoder(decimal_format="number")


def state(state: rollout.State) -> Iterator[bytes]:
    """`rollout reconstruct --json`: {history, prompt, previous_model, …}; `prompt` is not truncated (S6)."""
    yield b'{"history":'
    yield from history(state.history)
    yield b',"prompt":'
    yield from prompt(state.for_prompt())
    rest: dict[str, Any] = {
        "previous_model": state.previous_model,
        "reference_context": state.reference_context,
        "session": state.session,
        "world_state": state.world_state,
        "token_usage": state.token_usage,
        "damage": [{"line": met.line, "offset": met.offset, "reason": met.reason} for met in state.damage],
        "bytes_read": state.bytes_read,
        "records_decoded": state.records_decoded,
        "base_instructions": state.base_instructions,
        "thread_id": state.thread_id,
        "path": name(state.path),
    }
    for key, value in rest.items():
        yield b"," + encode(key) + b":" + encode(value)
    yield b"}"


def history(items: rollout.History, newest: int | None = None) -> Iterator[bytes]:
    """`rollout history --json`: the items as recorded, or the `newest` so many of them."""
    first = 0 if newest is None else max(len(items) - newest, 0)
    return array(items.raw(i) for i in range(first, len(items)))


def prompt(items: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """`rollout history --prompt --json`: the items as they can be sent."""
    return array(map(encode, items))


def turns(turns: Iterable[rollout.Turn]) -> Iterator[bytes]:
    """`rollout turns --json`: an array of turns; `items` is how many there are, `user` the first text of the user."""
    return array(
        encode(
            {
                "id": turn.id,
                "derived": turn.derived,
                "status": turn.status,
                "stands": turn.stands,
                "started": turn.started,
                "ended": turn.ended,
                "line": turn.line,
                "offset": turn.offset,
                "end_offset": turn.end_offset,
                "items": turn.item_count,
                "user": turn.user,
                "model": turn.model,
                "plans": list(turn.plans),
                "session_id": turn.session_id,
                "tags": turn.tags,
            }
        )
        for turn in turns
    )


def explanation(lines: Iterable[rollout.Explained]) -> Iterator[bytes]:
    """`rollout explain --json`: one object a log line, streamed."""
    from rollout_cli.render import kind_of

    return array(
        encode(
            {
                "line": line.line,
                "offset": line.offset,
                "kind": kind_of(line),
                "turn_id": line.turn_id,
                "status": line.status,
                "by": line.by,
                "by_offset": line.by_offset,
                "by_inherited": line.by_inherited,
                "reason": line.reason,
                "inherited": line.inherited,
                "path": name(line.path),
            }
        )
        for line in lines
    )


def report(report: rollout.Report) -> Iterator[bytes]:
    """`rollout verify --json`: {ok, damaged_lines, damage, notes, lines, records, path}."""
    from rollout_cli.render import remedy

    document = {
        "ok": report.ok,
        "damaged_lines": report.damaged_lines,
        "damage": [
            {
                "line": met.line,
                "offset": met.offset,
                "kind": met.kind,
                "reason": met.reason,
                "remedy": remedy(met),
                "path": name(met.path),
            }
            for met in report.damage
        ],
        "notes": [
            {
                "line": note.line,
                "offset": note.offset,
                "kind": note.kind,
                "reason": note.reason,
                "remedy": note.remedy,
                "path": name(note.path),
            }
            for note in report.notes
        ],
        "lines": report.lines,
        "records": report.records,
        "path": name(report.path),
    }
    yield encode(document)


def repair(plan: rollout.RepairPlan, done: rollout.RepairResult | None) -> Iterator[bytes]:
    """`rollout repair --json`: {path, applied, steps, in_use, torn, damaged, backup}; the last three name new files."""
    document = {
        "path": name(plan.path),
        "applied": done is not None,
        "steps": [
            {
                "action": step.action,
                "line": step.line,
                "last_line": step.last_line,
                "offset": step.offset,
                "bytes": step.size_bytes,
                "count": step.count,
                "inside": step.inside,
                "reason": step.reason,
            }
            for step in plan.steps
        ],
        "in_use": plan.in_use,
        "torn": name(done.torn if done else None),
        "damaged": name(done.damaged if done else None),
        "backup": name(done.backup if done else None),
    }
    yield encode(document)


def encode(value: object) -> bytes:
    """A value as JSON."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # a file name of bytes that are no text: Python has them as lone surrogates
        return json.dumps(value).encode()


def name(path: str | os.PathLike[str] | None) -> str | None:
    """A path as text."""
    return None if path is None else os.fspath(path)


def array(values: Iterable[bytes]) -> Iterator[bytes]:
    """One array of the pieces, each of them a whole value."""
    separator = b"["
    for value in values:
        yield separator + value
        separator = b",\n"
    yield b"[]" if separator == b"[" else b"]"
