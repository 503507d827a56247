"""The answer of a recording as the events of a stream, as the Responses API spells them.

They come in the order of the API: created, in_progress; for each item added, its parts in deltas, done; completed. The
pieces of text are the same at every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollout.items.kinds import Item

Event = dict[str, Any]
DELTA_CHARACTERS = 64

_SAID = frozenset({"content", "summary", "arguments", "input"})
_PROGRESS = {
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
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
