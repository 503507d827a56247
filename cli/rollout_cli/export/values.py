"""Exports for programs: json (everything, by turns), jsonl (a rollout again), openai (the next request).

`jsonl` is one file also for a session that goes on from others: their lines stand behind its own session_meta, as an
older fork copies them. It reconstructs to the same state; lines are as they were unless a secret was in them. What is
damaged is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rollout
from rollout_cli.export.chronicle import Chronicle
from rollout_cli.views import encode, pick

Redact = rollout.Redactor | None
_TURN = ("id", "status", "stands", "started", "ended", "model")


def to_json(chronicle: Chronicle, redactor: Redact) -> Iterator[bytes]:
    """{thread_id, session, turns: [{id, status, …, records: [{line, status, …, record}]}], redacted}.

    The first of the turns is null in all its own keys if something stands before the first turn.
    """
    head = _clean({"thread_id": chronicle.thread_id, "session": chronicle.session}, redactor)
    yield encode(head)[:-1] + b',"turns":['
    for at, (section, entries) in enumerate(chronicle.read()):
        shown = {key: getattr(section.turn, key, None) for key in _TURN}
        yield (b"," if at else b"") + encode(_clean(shown, redactor))[:-1] + b',"records":['
        for n, (line, record) in enumerate(entries):
            known = pick(line, "line offset status by by_inherited inherited reason")
            value = None if record is None else _clean(record.value, redactor)
            yield (b"," if n else b"") + encode({**known, "record": value})
        yield b"]}"
    yield b'],"redacted":' + encode({} if redactor is None else dict(redactor.counts)) + b"}"


def to_jsonl(chronicle: Chronicle, redactor: Redact) -> Iterator[bytes]:
    """The records, one a line."""
    own = chronicle.meta if len(chronicle.paths) > 1 and chronicle.session else None
    if own is not None:
        yield encode(_clean(own.detached, redactor)) + b"\n"
    for _, entries in chronicle.read():
        for line, record in entries:
            is_moved = own is not None and line.inherited is None and record == own
            if record is not None and record.data and not is_moved:
                yield _line(record, redactor) + b"\n"


def _line(record: rollout.Record, redactor: Redact) -> bytes:
    if redactor is None:
        return record.data
    before, cleaned = redactor.total, redactor.value(record.value)
    return record.data if redactor.total == before else encode(cleaned)


def to_openai(state: rollout.State, redactor: Redact, *, images: bool = True) -> Iterator[bytes]:
    """The body of the next request to the Responses API: {model, instructions, input}."""
    head = {"model": state.previous_model, "instructions": state.base_instructions}
    known = {key: value for key, value in head.items() if value is not None}
    yield (encode(_clean(known, redactor))[:-1] + (b"," if known else b"")) + b'"input":['
    for at, item in enumerate(state.for_prompt(images=images)):
        yield (b"," if at else b"") + encode(_clean(item, redactor))
    yield b"]}"


def _clean(value: Any, redactor: Redact) -> Any:
    return value if redactor is None else redactor.value(value)
