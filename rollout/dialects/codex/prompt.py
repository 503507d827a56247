"""S6: the history made sendable.

A call without its output gets the output `aborted` right behind it, an output without its call goes; keys that only
programs read go; long tool outputs are cut in the middle. Empty text parts of an output that has a line of its own go.
What no model is sent as bytes becomes a short text that says so: images where the model reads none, images that lie on
the net or cannot be decoded (`pictures`), audio. What an agent framework had wrapped into a `session_item` is sent as
it was, or not at all if it is no item.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rollout.dialects.codex.contextual import is_program_message
from rollout.dialects.codex.media import shown_part
from rollout.items.history import History
from rollout.items.kinds import HIDDEN_ITEM_TYPES, SESSION_ITEM, Item
from rollout.items.truncation import Truncation, cut_text

IMAGE_OMITTED = "image content omitted because you do not support image input"
ABORTED = "aborted"

PROGRAM_KEYS = frozenset({"metadata", "internal_chat_message_metadata_passthrough"})
"""Keys of an item that are never sent."""

_OUTPUT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS = frozenset(_OUTPUT_OF.values())
_SHELL_OUTPUT = "local_shell_call_output"
"""What other clients write behind a local_shell_call; Codex writes a function_call_output."""
_NOT_SENT = HIDDEN_ITEM_TYPES | {"configuration_update"}
_SENT_AS = {"compaction_summary": "compaction"}


def make_prompt(
    history: Iterable[Item],
    *,
    images: bool = True,
    truncation: Truncation | None = None,
    fresh_context: Sequence[Item] | None = None,
) -> list[Item]:
    """The items to send, new objects, oldest first.

    `images`: whether the model reads images. `truncation`: the most that one tool output may take (None: uncut).
    `fresh_context`: developer messages that stand in for the program's old ones (given after a compaction).
    """
    own_lines = history.has_own_line if isinstance(history, History) else (lambda i: True)
    items = []
    for i, given in enumerate(history):
        item = unwrap_item(given)
        if item is not None and item.get("type") not in _NOT_SENT:
            items.append(_strip(item, without_empty=own_lines(i)))
    items = _pair(items)
    if fresh_context is not None:
        items = _refresh(items, fresh_context)
    if not images:
        items = [_without_images(item) for item in items]
    if truncation is not None:
        items = [_cut(item, truncation) for item in items]
    return items


def unwrap_item(item: Item) -> Item | None:
    """What a `session_item` holds, if it is a message or an item; None if it is not."""
    if item.get("type") != SESSION_ITEM:
        return item
    inner = item.get("item")
    if not isinstance(inner, dict):
        return None
    if isinstance(inner.get("type"), str):
        return inner
    return {"type": "message", **inner} if isinstance(inner.get("role"), str) and "type" not in inner else None


def _strip(item: Item, *, without_empty: bool) -> Item:
    sent = {key: value for key, value in item.items() if key not in PROGRAM_KEYS}
    kind = sent.get("type")
    if kind in _SENT_AS:
        sent["type"] = _SENT_AS[kind]
    elif kind == "reasoning" and not _says_reasons(sent.get("content")):
        sent.pop("content", None)
    for key in ("content", "output"):
        parts = sent.get(key)
        if isinstance(parts, list):
            is_cleared = without_empty and key == "output" and kind in _OUTPUTS
            sent[key] = [shown_part(part) for part in parts if not (is_cleared and _is_empty_text(part))]
    return sent


def _says_reasons(content: object) -> bool:
    """Whether a reasoning's content is sent back: plain texts alone are not."""
    return isinstance(content, list) and any(
        not isinstance(part, dict) or part.get("type") != "text" for part in content
    )


def _is_empty_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_text" and part.get("text") == ""


def _call_id(item: Item) -> str | None:
    call_id = item.get("call_id")
    return call_id if isinstance(call_id, str) else None


def _own_id(item: Item) -> str | None:
    """The id of a local_shell_call or of its output: one can name the other by it, where it has no call_id."""
    found = item.get("id")
    return found if isinstance(found, str) and item.get("type") in ("local_shell_call", _SHELL_OUTPUT) else None


def _pair(items: Sequence[Item]) -> list[Item]:
    calls: set[tuple[str, str]] = set()
    outputs: set[tuple[str, str]] = set()
    for item in items:
        kind, call_id = item.get("type"), _call_id(item)
        if kind == "local_shell_call":
            calls |= {("function_call_output", name) for name in (call_id, _own_id(item)) if name is not None}
        elif kind == _SHELL_OUTPUT:
            outputs |= {("function_call_output", name) for name in (call_id, _own_id(item)) if name is not None}
        elif kind in _OUTPUT_OF and call_id is not None:
            calls.add((_OUTPUT_OF[kind], call_id))
        elif kind in _OUTPUTS and call_id is not None:
            outputs.add((kind, call_id))
    paired: list[Item] = []
    for item in items:
        kind, call_id = item.get("type"), _call_id(item)
        if kind in _OUTPUTS and not _belongs(item, calls):
            continue
        paired.append(item)
        if kind in _OUTPUT_OF and call_id is not None and (_OUTPUT_OF[kind], call_id) not in outputs:
            paired.append(_aborted(_OUTPUT_OF[kind], call_id))
    return paired


def _belongs(item: Item, calls: set[tuple[str, str]]) -> bool:
    call_id = _call_id(item)
    if item["type"] == "tool_search_output" and (item.get("execution") == "server" or item.get("call_id") is None):
        return True  # a search that the server made itself has an output and no call
    return call_id is not None and (item["type"], call_id) in calls


def _aborted(kind: str, call_id: str) -> Item:
    if kind == "tool_search_output":
        return {"type": kind, "call_id": call_id, "status": "completed", "execution": "client", "tools": []}
    return {"type": kind, "call_id": call_id, "output": ABORTED}


def _refresh(items: Sequence[Item], fresh: Sequence[Item]) -> list[Item]:
    """Old developer messages of the program go; the fresh ones stand where the first of them stood."""
    kept: list[Item] = []
    at: int | None = None
    for item in items:
        if item.get("role") == "developer" and is_program_message(item):
            at = len(kept) if at is None else at
        else:
            kept.append(item)
    at = 0 if at is None else at
    return [*kept[:at], *fresh, *kept[at:]]


def _without_images(item: Item) -> Item:
    if item.get("type") == "image_generation_call" and item.get("result"):
        return {**item, "result": ""}
    changed = dict(item)
    for key in ("content", "output"):
        value = changed.get(key)
        if isinstance(value, list):
            changed[key] = [_without_image(part) for part in value]
    return changed


def _without_image(part: Any) -> Any:
    if isinstance(part, dict) and part.get("type") == "input_image":
        return {"type": "input_text", "text": IMAGE_OMITTED}
    return part


def _cut(item: Item, truncation: Truncation) -> Item:
    if item.get("type") not in _OUTPUTS:
        return item
    output = item.get("output")
    if isinstance(output, str):
        return {**item, "output": cut_text(output, truncation.budget_bytes, truncation.mode)}
    if isinstance(output, list):
        return {**item, "output": _cut_parts(output, truncation)}
    return item


def _cut_parts(parts: Sequence[Any], truncation: Truncation) -> list[Any]:
    """Texts share the budget in their order; images stay; texts for which nothing is left are counted."""
    left, kept, omitted = truncation.budget_bytes, [], 0
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            kept.append(part)
            continue
        if left <= 0:
            omitted += 1
            continue
        size = len(text.encode("utf-8", "surrogatepass"))
        kept.append(part if size <= left else {**part, "text": cut_text(text, left, truncation.mode)})
        left -= size
    if omitted:
        kept.append({"type": "input_text", "text": f"[omitted {omitted} text items ...]"})
    return kept
