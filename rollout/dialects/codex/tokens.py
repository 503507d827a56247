"""What records say of tokens, and of what must be known to count them: whose they are, by which model.

A record is a token_count or a token_usage_record, a turn_context, the opening of a turn, a session_meta. Numbers that
are none, or below nothing, are 0; a total that is not said is input and output together.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex import records as r
from rollout.dialects.codex.names import TURN_STARTED
from rollout.format import strict_json
from rollout.items.kinds import Head
from rollout.items.tokens import Reading, TokenNote, Tokens

MOST_TOKENS = 1 << 53
_MOST_NAME_CHARACTERS = 200


class _Info(msgspec.Struct, frozen=True, gc=False):
    total_token_usage: msgspec.Raw | msgspec.UnsetType = UNSET
    last_token_usage: msgspec.Raw | msgspec.UnsetType = UNSET
    model_context_window: msgspec.Raw | msgspec.UnsetType = UNSET


class _Payload(msgspec.Struct, frozen=True, gc=False):
    id: msgspec.Raw | msgspec.UnsetType = UNSET
    turn_id: msgspec.Raw | msgspec.UnsetType = UNSET
    model: msgspec.Raw | msgspec.UnsetType = UNSET
    info: _Info | None = None
    usage: msgspec.Raw | msgspec.UnsetType = UNSET
    thread_token_usage: msgspec.Raw | msgspec.UnsetType = UNSET


class _Line(msgspec.Struct, frozen=True, gc=False):
    timestamp: msgspec.Raw | msgspec.UnsetType = UNSET
    payload: _Payload = _Payload()


class _Counts(msgspec.Struct, frozen=True, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0


class _PlainInfo(msgspec.Struct, frozen=True, gc=False):
    total_token_usage: _Counts | None = None
    last_token_usage: _Counts | None = None
    model_context_window: int | None = None


class _PlainPayload(msgspec.Struct, frozen=True, gc=False):
    info: _PlainInfo | None = None
    usage: _Counts | None = None
    thread_token_usage: _Counts | None = None


class _PlainLine(msgspec.Struct, frozen=True, gc=False):
    """What programs write, decoded at once; a line of any other shape goes the long way to the same answer."""

    timestamp: str | None = None
    payload: _PlainPayload = _PlainPayload()


_line, _plain = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_PlainLine)


def note_of(data: bytes, envelope: r.Envelope) -> TokenNote | None:
    """What a record says of tokens, models and turns; None for one that says nothing of them."""
    kind = envelope.type
    type = envelope.payload.type if isinstance(envelope.payload, Head) else None
    if not isinstance(envelope.payload, Head) or (
        kind not in {"session_meta", "turn_context", "token_usage_record"}
        and not (kind == "event_msg" and (type == "token_count" or type in TURN_STARTED))
    ):
        return None
    is_session, is_context, is_record = kind == "session_meta", kind == "turn_context", kind == "token_usage_record"
    if is_record or type == "token_count":
        return _note_of_tokens(data, is_record)
    try:
        line = _line.decode(data)
    except (msgspec.ValidationError, RecursionError):
        return None
    payload, time = line.payload, strict_json.text_of(line.timestamp)
    if is_session:
        thread = strict_json.text_of(payload.id)
        return None if thread is None else TokenNote(time, thread=thread)
    turn_id, model = strict_json.text_of(payload.turn_id), strict_json.text_of(payload.model) if is_context else None
    return TokenNote(time, turn_id=turn_id, model=None if model is None else model[:_MOST_NAME_CHARACTERS])


def _note_of_tokens(data: bytes, is_record: bool) -> TokenNote | None:
    try:
        plain = _plain.decode(data)
    except (msgspec.ValidationError, RecursionError):
        return _note_of_odd_tokens(data, is_record)
    time, payload = plain.timestamp, plain.payload
    if is_record:
        return _note(time, _added_up(payload.thread_token_usage), _added_up(payload.usage), None, is_record=True)
    info = payload.info or _PlainInfo()
    window = _number(info.model_context_window)
    return _note(time, _added_up(info.total_token_usage), _added_up(info.last_token_usage), window)


def _note_of_odd_tokens(data: bytes, is_record: bool) -> TokenNote | None:
    try:
        line = _line.decode(data)
    except (msgspec.ValidationError, RecursionError):
        return None
    payload, time = line.payload, strict_json.text_of(line.timestamp)
    if is_record:
        return _note(time, _tokens(payload.thread_token_usage), _tokens(payload.usage), None, is_record=True)
    info = payload.info or _Info()
    window = _number(_value(info.model_context_window))
    return _note(time, _tokens(info.total_token_usage), _tokens(info.last_token_usage), window)


def _note(
    time: str | None, totals: Tokens | None, last: Tokens | None, window: int | None, *, is_record: bool = False
) -> TokenNote | None:
    if totals is None and last is None:
        return None
    return TokenNote(time, reading=Reading(totals, last, window or None, is_record))


def read_gauge(data: bytes, depth: int) -> Reading | None:
    """What the record says of tokens that a line begins with."""
    piece = next(codec.split(data.removesuffix(b"\n"), depth), None)
    note = None if piece is None or piece.envelope is None else note_of(piece.data, piece.envelope)
    return None if note is None else note.reading


def _value(raw: msgspec.Raw | msgspec.UnsetType) -> object:
    return None if raw is UNSET else strict_json.decode_value(raw)


def _tokens(raw: msgspec.Raw | msgspec.UnsetType) -> Tokens | None:
    value = _value(raw)
    if not isinstance(value, dict):
        return None
    return _added_up(_Counts(*(_number(value.get(key)) for key in _Counts.__struct_fields__)))


def _added_up(counts: _Counts | None) -> Tokens | None:
    if counts is None:
        return None
    found = Tokens(*(min(max(number, 0), MOST_TOKENS) for number in msgspec.structs.astuple(counts)))
    return found if found.total else msgspec.structs.replace(found, total=found.input + found.output)


def _number(value: object) -> int:
    return min(max(value, 0), MOST_TOKENS) if isinstance(value, int) and not isinstance(value, bool) else 0
