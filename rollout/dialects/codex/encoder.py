"""Records to lines: what may be written, its one spelling, and the records that a log writes of its own.

A line is `{"timestamp":…,"type":…,"payload":…}` (an `ordinal` before the type where the log has them, then the keys of
a label), compact, UTF-8. A value is JSON already or it is refused: nothing is turned into something else, and no number
goes through a float. JSON that is given as bytes is checked and put in as it is. What is refused raises RecordError
before a byte is written. One thing is mended: a lone surrogate, which no file can hold, is written as U+FFFD (see
`format.strict_json`), so that what a tool has given back is never lost to a name that is no text.

A payload may hold what looks like the beginning of a line. A write that a crash cuts behind such an object would leave
it as a record of its own (readers look for one behind a torn line), so its first key is spelled with an escape.

An item and what is told of it stand together: a user's message has an event behind it, one of the assistant events
ahead of it.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from rollout.dialects.codex.envelope import Agent, WorldState
from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.dialects.codex.session_meta import PAGINATED
from rollout.errors import RecordError, UsageError
from rollout.format import strict_json
from rollout.format.strict_json import mend, mend_json, mend_text
from rollout.items import shapes
from rollout.items.history import History
from rollout.items.kinds import is_visible, texts_of
from rollout.limits import DEFAULT

AnyItem: TypeAlias = Mapping[str, Any] | bytes | bytearray | memoryview | Raw
"""One item: a mapping of JSON values, or its JSON."""

ABORT_REASONS = ("interrupted", "replaced", "review_ended")
ABORTED_TEXT = (
    "<turn_aborted>\nThe previous turn was interrupted before it was finished. Commands that were running may still be "
    "running in the background; those that were aborted may have been carried out in part.\n</turn_aborted>"
)
_BEGIN, _ESCAPED = b'{"timestamp":"', b'{"\\u0074imestamp":"'
_JSON_SPACE = b" \t\r\n"
_BYTES = (bytes, bytearray, memoryview, Raw)
_PLAIN = frozenset({str, int, bool, type(None)})
_encode = msgspec.json.Encoder(enc_hook=dict).encode  # only mappings come to the hook
_NOT_FOR_CALLERS = frozenset({"id", "timestamp", "forked_from_id", "history_base", "history_mode"})
_OWN_OF_FORKS = frozenset(
    {
        *("id", "session_id", "forked_from_id", "forked_from_ordinal_exclusive"),
        *("timestamp", "history_base", "context_window"),
    }
)
_WRITTEN_ELSEWHERE = {
    "session_meta": "it is written when a log is made",
    "turn_context": "give it to turn()",
    "compacted": "use compact()",
}
_EVENTS_WRITTEN_ELSEWHERE = {
    **dict.fromkeys((*TURN_STARTED, *TURN_COMPLETED, TURN_ABORTED), "turn() writes it"),
    "thread_rolled_back": "use rollback()",
}
_LINE_ENDS = r"[^\S\n]*(?:\n|\Z)"
_PLAN = re.compile(
    rf"^[^\S\n]*<proposed_plan>(?:{_LINE_ENDS}(.*?)(?:^[^\S\n]*</proposed_plan>{_LINE_ENDS}|\Z)"
    rf"|([^\n]*)</proposed_plan>{_LINE_ENDS})",
    re.MULTILINE | re.DOTALL,
)


class Part(NamedTuple):
    """A record to be written: the line's `type`, the JSON of its payload, and what the envelope has behind that."""

    type: str
    payload: bytes
    behind: bytes = b""


class _LoneSurrogateError(ValueError):
    """There is one in a value that is JSON already."""


class _Item(msgspec.Struct, frozen=True):
    type: str
    role: str | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str


class _Phase(msgspec.Struct, frozen=True):
    phase: str | None = None


_SHAPES: dict[str, Callable[[bytes], Any]] = {
    "": msgspec.json.Decoder(Raw).decode,
    "response_item": msgspec.json.Decoder(_Item).decode,
    "event_msg": msgspec.json.Decoder(_Event).decode,
    "world_state": msgspec.json.Decoder(WorldState).decode,
    "token_usage_record": msgspec.json.Decoder(dict[str, Raw]).decode,
    "inter_agent_communication": msgspec.json.Decoder(Agent).decode,
}


def encode(value: object) -> bytes:
    """Any JSON value, or JSON in bytes, as JSON on one line. RecordError."""
    if not isinstance(value, _BYTES):
        return encode_mended(value)[0]
    data = _one_line(bytes(value))
    _shaped("", data)
    return data


def encode_mended(value: object) -> tuple[bytes, object]:
    """The JSON of a value, and the value that it is of: `value` itself, or what mending its surrogates has left."""
    try:
        try:
            _check(value)
            return _encode(value), value
        except (UnicodeEncodeError, _LoneSurrogateError):
            value = mend(value)
            _check(value)
            return _encode(value), value
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise RecordError(f"not JSON: {error}") from None


def encode_item(item: AnyItem) -> tuple[bytes, str, str | None]:
    """An item's JSON, its type and its role. RecordError, also for one that lacks what its type needs."""
    payload = _one_line(bytes(item)) if isinstance(item, _BYTES) else encode_mended(item)[0]
    found = _shaped("response_item", payload)
    return payload, found.type, found.role


def record(type: str, payload: object) -> Part:
    """A record of any type that no method of its own writes, known or not. RecordError."""
    remedy = _WRITTEN_ELSEWHERE.get(type)
    if remedy is not None:
        raise RecordError(f"{type!r} is not to be written like this", remedy=remedy)
    part = Part(type, encode(payload))
    found = _shaped(type, part.payload) if type in _SHAPES else None
    remedy = _EVENTS_WRITTEN_ELSEWHERE.get(found.type) if type == "event_msg" and found is not None else None
    if found is not None and remedy is not None:
        raise RecordError(f"{found.type!r} is not to be written like this", remedy=remedy)
    return part


def event_record(type: str, keys: Mapping[str, Any]) -> Part:
    """An event_msg of any type that no method of its own writes. RecordError."""
    return record("event_msg", {"type": type, **keys})


def line(part: Part, unix_seconds: float, ordinal: int | None = None, label: bytes = b"") -> bytes:
    """The line, with its end; `unix_seconds` is its time, `label` the envelope of a Label. RecordError."""
    return _enclose(_head(round(unix_seconds * 1000), part.type, ordinal, label), part)


def lines(parts: Sequence[Part], unix_seconds: float, newest: int | None, label: bytes = b"") -> list[bytes]:
    """The lines of records that are written at once, numbered behind the `newest`, or not at all. RecordError."""
    if newest is not None:
        return [line(part, unix_seconds, newest + n, label) for n, part in enumerate(parts, 1)]
    heads = {type: _head(round(unix_seconds * 1000), type, None, label) for type in {part.type for part in parts}}
    return [_enclose(heads[part.type], part) for part in parts]


@functools.lru_cache(maxsize=16)  # many records are of one millisecond
def _head(unix_ms: int, type: str, ordinal: int | None, label: bytes) -> bytes:
    """What a line has ahead of its payload."""
    keys = label if ordinal is None else b'"ordinal":%d,%b' % (ordinal, label)
    time = timestamp(unix_ms / 1000).encode()
    return b'{"timestamp":"%b",%b"type":%b,"payload":' % (time, keys, _encode(mend_text(type)))


def _enclose(head: bytes, part: Part) -> bytes:
    payload = part.payload
    if strict_json.is_too_deep(payload, DEFAULT.depth - 1):
        raise RecordError(f"nested deeper than {DEFAULT.depth}")
    if _BEGIN in payload:
        payload = payload.replace(_BEGIN, _ESCAPED)
    made = b"%b%b%b}\n" % (head, payload, part.behind)
    if len(made) > DEFAULT.line_bytes:
        raise RecordError(f"a line of {len(made)} bytes is longer than the limit of {DEFAULT.line_bytes}")
    return made


def timestamp(unix_seconds: float) -> str:
    """UTC with milliseconds: 2026-03-20T10:00:02.000Z."""
    moment = datetime.datetime.fromtimestamp(round(unix_seconds * 1000) / 1000, datetime.UTC)
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"


def _check(value: object) -> None:
    """Raises TypeError or ValueError for what is no JSON but would be turned into some."""
    kind = type(value)
    if kind is dict or (kind is not list and kind not in _PLAIN and isinstance(value, Mapping)):
        for key, under in value.items():  # type: ignore[attr-defined]  # a mapping, as the line above says
            if type(key) is not str:
                raise TypeError(f"a key is {key!r}, not a text")
            if type(under) not in _PLAIN:
                _check(under)
    elif isinstance(value, list | tuple):
        for under in value:
            if type(under) not in _PLAIN:
                _check(under)
    elif isinstance(value, float) and kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number of JSON")
    elif isinstance(value, Raw):
        data = bytes(value)
        if mend_json(data) != data:
            raise _LoneSurrogateError
        if b"\n" in data or not strict_json.is_utf8(data):
            raise ValueError("line ends or invalid UTF-8 in what is said to be JSON")
        _shaped("", data)
    elif kind not in _PLAIN:
        raise TypeError(f"a value is of type {kind.__name__}")


def _one_line(data: bytes) -> bytes:
    """JSON as it was given, but for white space around it; whether it is JSON is for its decoder to say."""
    data = data.strip(_JSON_SPACE)
    if b"\n" in data:
        raise RecordError("JSON with line ends in it", remedy="give it on one line")
    if not strict_json.is_utf8(data):
        raise RecordError("not JSON: invalid UTF-8")
    return mend_json(data)


def _shaped(type: str, payload: bytes) -> Any:
    """What tells the kind of a payload that has all that a record of its type needs, and of an item, that its does."""
    try:
        found = _SHAPES[type](payload)
    except msgspec.ValidationError as error:
        raise RecordError(f"not a {type or 'value'}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}") from None
    if type == "response_item" and is_visible(found.type, found.role):
        why = shapes.fault(found.type, payload)
        if why is not None:
            raise RecordError(f"no {found.type} that a model could be sent: {why}", remedy="give it what it needs")
    return found


def new_session_meta(more: Mapping[str, Any], **own: Any) -> Part:
    """The session_meta of a new thread: its `own` keys, but for what is None, and those that its caller adds.

    Raises:
        UsageError: `more` has what is not for the caller to say.
        RecordError: it cannot be written as JSON.
    """
    if reserved := sorted(_NOT_FOR_CALLERS & more.keys()):
        raise UsageError(f"{reserved[0]} is not for the caller to say", remedy="leave it out")
    if isinstance(own["base_instructions"], str):
        own["base_instructions"] = {"text": own["base_instructions"]}
    return Part("session_meta", encode({**{key: value for key, value in own.items() if value is not None}, **more}))


def fork_session_meta(
    source: Mapping[str, Any],
    base: Mapping[str, Any] | None,
    *,
    id: str,
    forked_from: str,
    timestamp: str,
    is_numbered: bool,
) -> Part:
    """The session_meta of a fork: what the source's says, but for what is the fork's own. A copy has no `base`.

    A base is told with its ordinal where the mode says that lines have ordinals, and where they are numbered all the
    same. In any other file Codex would read nothing of a base that has one, and say nothing; without it, it says that
    it cannot read the file.
    """
    theirs = {key: value for key, value in source.items() if key not in _OWN_OF_FORKS}
    told: dict[str, Any] = {"id": id, "forked_from_id": forked_from, "timestamp": timestamp, **theirs}
    if base is not None:
        is_numbered = is_numbered or theirs.get("history_mode") == Raw(encode(PAGINATED))
        kept = {key: value for key, value in base.items() if is_numbered or key != "end_ordinal_exclusive"}
        told["history_base"] = kept
    return Part("session_meta", encode(told))


def event(type: str, keys: Mapping[str, Any]) -> Part:
    """An event_msg that a log writes of its own."""
    return Part("event_msg", encode({"type": type, **keys}))


def item(payload: bytes, behind: bytes = b"") -> Part:
    """An item, as its JSON; `behind` is what its line has behind that."""
    return Part("response_item", payload, behind)


def turn_started(turn_id: str, context: Mapping[str, Any] | None, window: int | None) -> list[Part]:
    """The beginning of a turn; with its context, if it is a regular one. RecordError."""
    mode = (context or {}).get("collaboration_mode")
    kind = mode.get("mode") if isinstance(mode, Mapping) else mode
    keys = {
        "turn_id": turn_id,
        "model_context_window": window,
        "collaboration_mode_kind": kind if isinstance(kind, str) else "default",
    }
    return [event("task_started", keys), *([] if context is None else [turn_context(turn_id, context)])]


def turn_context(turn_id: str, context: Mapping[str, Any] | str) -> Part:
    """The settings of a turn. RecordError for what has no model, or is no JSON."""
    if not isinstance(context, Mapping) or not isinstance(context.get("model"), str):
        raise RecordError("a turn_context needs a model", remedy="give a TurnContext")
    keys = {key: value for key, value in context.items() if key != "turn_id"}
    return Part("turn_context", encode({"turn_id": turn_id, **keys}))


def turn_completed(turn_id: str, last_message: str | None) -> list[Part]:
    """The end of a turn; `last_message` is the newest one of the assistant in it."""
    return [event("task_complete", {"turn_id": turn_id, "last_agent_message": last_message})]


def turn_aborted(turn_id: str | None, reason: str = "interrupted") -> list[Part]:
    """What ends a turn that is not completed: for the model (if it was interrupted), and for the reader."""
    named = {} if turn_id is None else {"turn_id": turn_id}
    ended = event("turn_aborted", {**named, "reason": reason})
    return [_user(ABORTED_TEXT, []), ended] if reason == "interrupted" else [ended]


def user_message(text: str, urls: Sequence[str]) -> list[Part]:
    """What a user says, with images by their URLs."""
    keys = {"message": text, "images": urls, "local_images": [], "text_elements": []}
    return [_user(text, urls), event("user_message", keys)]


def _user(text: str, urls: Sequence[str]) -> Part:
    content = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": url} for url in urls)]
    return item(encode({"type": "message", "role": "user", "content": content}))


def assistant_message(payload: bytes, thread: str, turn_id: str, plans: int) -> tuple[list[Part], str, int]:
    """A message of the assistant and what is told of it; its text without plans, and how many of these the turn has.

    `plans` is how many it had before.
    """
    text, found = split_plans("".join(texts_of(payload)))
    parts = []
    if text:
        phase = msgspec.json.decode(payload, type=_Phase).phase
        parts.append(event("agent_message", {"message": text, "phase": phase, "memory_citation": None}))
    for number, plan in enumerate(found, plans + 1):
        name = f"{turn_id}-plan" if number == 1 else f"{turn_id}-plan-{number}"
        told = {"type": "Plan", "id": name, "text": plan}
        parts.append(event("item_completed", {"thread_id": thread, "turn_id": turn_id, "item": told}))
    return [*parts, item(payload)], text, plans + len(found)


def split_plans(text: str) -> tuple[str, list[str]]:
    """The text of an assistant without its plans, and the plans in order; lines keep their ends, blank plans are none.

    A plan begins with a line that is its opening tag alone and ends with a line that is its closing tag alone, or with
    the text; or it is one line that begins with the one and ends with the other. A tag among other words is no tag.
    """
    if "<proposed_plan>" not in text:
        return text, []
    plans = [found[1] if found[2] is None else found[2].strip() for found in _PLAN.finditer(text)]
    return _PLAN.sub("", text), [plan for plan in plans if plan.strip()]


def compaction(replacement_history: Iterable[AnyItem], message: str = "") -> Part:
    """The history is `replacement_history` from here on. RecordError."""
    if isinstance(replacement_history, History):
        items = [Raw(replacement_history.raw(i)) for i in range(len(replacement_history))]
    else:
        items = [Raw(encode_item(item)[0]) for item in replacement_history]
    return Part("compacted", encode({"message": message, "replacement_history": items}))


def compaction_told() -> Part:
    """Says to people that there was one."""
    return event("context_compacted", {})


def turns_rolled_back(count: int) -> Part:
    """Takes back the newest user boundaries (S2)."""
    return event("thread_rolled_back", {"num_turns": count})


def items_removed(count: int) -> Part:
    """Takes the newest items out (S3)."""
    return event("items_removed", {"num_items": count})


def tokens_counted(totals: Mapping[str, int], last: Mapping[str, int], run: object) -> Part:
    """What the thread has used in all, and what was counted last; `run` is what an agents framework says of that."""
    info = {"total_token_usage": totals, "last_token_usage": last, "model_context_window": None}
    return event("token_count", {"info": info, "rate_limits": None, "run_usage": run})
