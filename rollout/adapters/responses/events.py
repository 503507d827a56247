"""Recorded answers as the Responses API spells them: whole, and as the events of a stream.

Everything in them is recorded, or follows from it: ids, times and pieces of text are the same at every run. The events
come in the order of the API: created, in_progress; for each item added, its parts in deltas, done; completed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from rollout.adapters.responses.calls import Call, Kind
from rollout.dialects.codex.prompt import PROGRAM_KEYS
from rollout.items.kinds import COMPACTIONS, Item

Event = dict[str, Any]
DELTA_CHARACTERS = 64

_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "local_shell_call": "lsh",
    "web_search_call": "ws",
    "image_generation_call": "ig",
    "compaction": "cmp",
}
_SAID = frozenset({"content", "summary", "arguments", "input"})
_WITH_STATUS = frozenset({"message", "function_call", "local_shell_call", "web_search_call", "image_generation_call"})
_ECHOED: dict[str, Any] = {  # keys of a request that its response repeats, and what they are without it
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "max_output_tokens": None,
    "store": False,
}
_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}
"""The API has no compaction without one; of a recording without token counts nothing is known."""
_PROGRESS = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
}


def response_id(call: Call, thread: str) -> str:
    """The id of the response of a call: the same at every run."""
    return f"resp_{thread.replace('-', '')}_{call.number}"


def make_response(call: Call, thread: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The response to a request, complete."""
    asked = {key: request.get(key) for key in _ECHOED}
    return {
        "id": response_id(call, thread),
        "object": "response",
        "created_at": _seconds(call.timestamp),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": call.model or request.get("model") or "recorded",
        "output": _make_output(call, thread),
        "usage": call.usage,
        **{key: without if asked[key] is None else asked[key] for key, without in _ECHOED.items()},
    }


def make_compaction(call: Call, thread: str) -> dict[str, Any]:
    """The answer to a request to compact: the whole history in short."""
    return {
        "id": response_id(call, thread),
        "object": "response.compaction",
        "created_at": _seconds(call.timestamp),
        "output": [_strip(item) for item in call.output],
        "usage": call.usage or _NO_USAGE,
    }


def make_events(response: Mapping[str, Any]) -> Iterator[Event]:
    """The response as a stream of events, numbered."""
    for number, event in enumerate(_events(response)):
        yield {**event, "sequence_number": number}


def _events(response: Mapping[str, Any]) -> Iterator[Event]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
        for event in _item_events(item):
            yield {**event, "item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": dict(response)}


def _item_events(item: Item) -> Iterator[Event]:
    kind = item.get("type")
    if kind == "message":
        for index, part in enumerate(item["content"]):
            yield from _part_events(part, index)
    elif kind == "reasoning":
        for index, part in enumerate(item["summary"]):
            at = {"summary_index": index}
            yield {"type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}, **at}
            yield from _text_events("response.reasoning_summary_text", part.get("text"), "text", at)
            yield {"type": "response.reasoning_summary_part.done", "part": part, **at}
        for index, part in enumerate(item.get("content", ())):
            yield from _text_events("response.reasoning_text", part.get("text"), "text", {"content_index": index})
    elif kind == "function_call":
        more = {"name": item.get("name")}
        yield from _text_events("response.function_call_arguments", item.get("arguments"), "arguments", {}, more)
    elif kind == "custom_tool_call":
        yield from _text_events("response.custom_tool_call_input", item.get("input"), "input", {})
    else:
        for step in _PROGRESS.get(str(kind), ()):
            yield {"type": f"response.{kind}.{step}"}


def _part_events(part: dict[str, Any], index: int) -> Iterator[Event]:
    at = {"content_index": index}
    refuses = part.get("type") == "refusal"
    key = "refusal" if refuses else "text"
    empty = {**part, key: ""} if refuses else {**part, key: "", "annotations": []}
    yield {"type": "response.content_part.added", "part": empty, **at}
    if refuses:
        yield from _text_events("response.refusal", part.get(key), key, at)
    elif "text" in part:
        more: dict[str, Any] = {"logprobs": []}
        yield from _text_events("response.output_text", part[key], key, {**at, **more})
    yield {"type": "response.content_part.done", "part": part, **at}


def _text_events(
    name: str, text: object, key: str, at: dict[str, Any], more: dict[str, Any] | None = None
) -> Iterator[Event]:
    """A text in pieces, and then whole."""
    whole = text if isinstance(text, str) else ""
    for begin in range(0, len(whole), DELTA_CHARACTERS):
        yield {"type": f"{name}.delta", "delta": whole[begin : begin + DELTA_CHARACTERS], **at}
    yield {"type": f"{name}.done", key: whole, **at, **(more or {})}


def _begun(item: Item) -> Item:
    """An item of which nothing was said yet."""
    begun = {key: type(value)() if key in _SAID and value else value for key, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _make_output(call: Call, thread: str) -> list[Item]:
    output = []
    for index, recorded in enumerate(call.output):
        kind = str(recorded.get("type"))
        if call.kind is Kind.COMPACTION and kind not in COMPACTIONS:
            continue  # a stream gives the short form alone; the client keeps the messages itself
        item = _strip(recorded)
        if not isinstance(item.get("id"), str):
            made = f"{_PREFIXES.get(kind, 'item')}_{thread.replace('-', '')}_{call.number}_{index}"
            item = {"type": kind, "id": made, **item}
        if kind in _WITH_STATUS:
            item.setdefault("status", "completed")
        if kind == "message":
            item["content"] = _make_content(item.get("content"))
        elif kind == "reasoning":
            item["summary"] = _objects(item.get("summary"))
            if "content" in item:
                item["content"] = _objects(item["content"])
        output.append(item)
    return output


def _make_content(content: object) -> list[dict[str, Any]]:
    parts = _objects(content if isinstance(content, list) else [{"type": "output_text", "text": content or ""}])
    return [{"annotations": [], "logprobs": [], **part} if "text" in part else part for part in parts]


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _strip(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in PROGRAM_KEYS and value is not None}


def _seconds(timestamp: str | None) -> int:
    """Since 1970; 0 where there is no time."""
    try:
        at = datetime.datetime.fromisoformat(timestamp or "")
        return int((at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0
