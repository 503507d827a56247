"""What records say of tokens, and of what must be known to count them: whose they are, by which model.

A record is a token_count or a token_usage_record, a turn_context, the opening of a turn, a session_meta. Numbers that
are none, or below nothing, are 0; a total that is not said is input and output together.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from rollout.dialects.codex.envelope import Envelope, split
from rollout.dialects.codex.names import TURN_STARTED
from rollout.format import strict_json
from rollout.items.kinds import Head
from rollout.items.tokens import Reading, TokenNote, Tokens

_MOST_TOKENS = 1 << 53
_MOST_NAME_CHARACTERS = 200


class _Counts(msgspec.Struct, frozen=True, gc=False):
    input_tokens: Any = 0
    cached_input_tokens: Any = 0
    output_tokens: Any = 0
    reasoning_output_tokens: Any = 0
    total_tokens: Any = 0


_MaybeCounts: TypeAlias = _Counts | str | int | float | bool | list[Any] | None


class _Info(msgspec.Struct, frozen=True, gc=False):
    total_token_usage: _MaybeCounts = None
    last_token_usage: _MaybeCounts = None
    model_context_window: Any = None


class _Payload(msgspec.Struct, frozen=True, gc=False):
    id: Any = None
    turn_id: Any = None
    model: Any = None
    info: _Info | None = None
    usage: _MaybeCounts = None
    thread_token_usage: _MaybeCounts = None


class _Line(msgspec.Struct, frozen=True, gc=False):
    timestamp: Any = None
    payload: _Payload = _Payload()


_line = msgspec.json.Decoder(_Line)


def note_of(data: bytes, envelope: Envelope) -> TokenNote | None:
    """What a record says of tokens, models and turns; None for one that says nothing of them."""
    if not isinstance(envelope.payload, Head):
        return None
    kind, type = envelope.type, envelope.payload.type
    if kind == "event_msg":
        if type != "token_count" and type not in TURN_STARTED:
            return None
    elif kind not in {"session_meta", "turn_context", "token_usage_record"}:
        return None
    try:
        try:
            line = _line.decode(data)
        except msgspec.ValidationError:  # of a number beyond all bounds, perhaps
            line = msgspec.convert(strict_json.decode_value(data), _Line)
    except (msgspec.ValidationError, RecursionError):
        return None
    time, said = _text(line.timestamp), line.payload
    if kind == "session_meta":
        thread = _text(said.id)
        return None if thread is None else TokenNote(time, thread=thread)
    if kind == "token_usage_record":
        reading = Reading(_tokens(said.thread_token_usage), _tokens(said.usage), None, is_record=True)
    elif type == "token_count":
        info = said.info or _Info()
        window = _number(info.model_context_window) or None
        reading = Reading(_tokens(info.total_token_usage), _tokens(info.last_token_usage), window)
    else:
        model = _text(said.model) if kind == "turn_context" else None
        name = None if model is None else model[:_MOST_NAME_CHARACTERS]
        return TokenNote(time, turn_id=_text(said.turn_id), model=name)
    return None if reading.totals is reading.last is None else TokenNote(time, reading=reading)


def read_gauge(data: bytes, depth: int) -> Reading | None:
    """What the record says of tokens that a line begins with."""
    piece = next(split(data.removesuffix(b"\n"), depth), None)
    note = None if piece is None or piece.envelope is None else note_of(piece.data, piece.envelope)
    return None if note is None else note.reading


def _tokens(counts: _MaybeCounts) -> Tokens | None:
    if not isinstance(counts, _Counts):
        return None
    given, cached, made, reasoning, total = map(_number, msgspec.structs.astuple(counts))
    return Tokens(given, cached, made, reasoning, total or given + made)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        return 0
    return value if value < _MOST_TOKENS else _MOST_TOKENS
