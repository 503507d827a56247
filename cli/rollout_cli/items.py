"""A model-visible item in words: a label, and one text.

Items are other people's data: any key may be missing or of any type, and none of that is an error here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Item = Mapping[str, Any]
SUMMARY = "summary"
"""The label of what a compaction left of the history before it, as a message of role user."""

STYLES = {"user": "bold green", "assistant": "bold", "call": "cyan", "output": "dim", "reasoning": "dim italic"}
"""Rich styles by label; no other label has one."""


class Described(NamedTuple):
    """`label` is the role or the kind in one word, `text` all that there is to read, in lines."""

    label: str
    text: str

    @property
    def style(self) -> str:
        return STYLES.get(self.label, "")


def describe(item: Item, *, left_by: object = None) -> Described:
    """The item in words; one of unknown type is shown as its JSON.

    What a compaction left as its summary is told as that, not as the user's words; `left_by` is the message of the
    compaction that the item comes from, if it is known.
    """
    kind = _text(item.get("type")) or "item"
    known = _DESCRIPTIONS.get(kind)
    told = Described(kind, to_json(item)) if known is None else known(item)
    if told.label != "user":
        return told
    import rollout

    is_summary = rollout.is_summary(item, left_by if isinstance(left_by, str) else None)
    return told._replace(label=SUMMARY) if is_summary else told


def describe_at(items: Sequence[Item], index: int) -> Described:
    """The same of an item of a history, which knows what its compactions have left."""
    import rollout

    told = describe(items[index])
    is_summary = isinstance(items, rollout.History) and items.is_summary(index)
    return told._replace(label=SUMMARY) if is_summary else told


def is_known(item: Item) -> bool:
    """Whether `describe` tells it in words, not as its JSON."""
    return item.get("type") in _DESCRIPTIONS


def texts(content: object) -> str:
    """The texts of a message's content or of a tool's output, images and files named in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        inner = content.get("content", content.get("text", content.get("output")))
        return to_json(content) if inner is None else texts(inner)
    if not isinstance(content, list):
        return "" if content is None else to_json(content)
    return "\n".join(_part(part) for part in content)


def to_json(value: object) -> str:
    """Compact JSON, whatever the value; integers of any size."""
    import msgspec

    return msgspec.json.encode(value).decode()


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return texts(part)
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind = part.get("type")
    return f"[{kind}]" if isinstance(kind, str) else to_json(part)


def _message(item: Item) -> Described:
    return Described(_text(item.get("role")) or "message", texts(item.get("content")))


def _reasoning(item: Item) -> Described:
    shown = [text for text in (texts(item.get("summary")), texts(item.get("content"))) if text]
    if not shown and item.get("encrypted_content"):
        shown = ["(encrypted)"]
    return Described("reasoning", "\n".join(shown) or "(empty)")


def _call(arguments: str, item: Item) -> Described:
    name = ".".join(part for part in (_text(item.get("namespace")), _text(item.get("name"))) if part)
    return Described("call", f"{name or '(no name)'}({texts(item.get(arguments))})")


def _shell_call(item: Item) -> Described:
    action = item.get("action")
    command = action.get("command") if isinstance(action, Mapping) else None
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    return Described("call", f"shell({' '.join(words) if words else texts(action)})")


def _search_call(item: Item) -> Described:
    action = item.get("action")
    query = action.get("query") if isinstance(action, Mapping) else None
    return Described("call", f"web_search({query if isinstance(query, str) else texts(action)})")


def _output(key: str, item: Item) -> Described:
    return Described("output", texts(item.get(key)))


def _compaction(item: Item) -> Described:
    return Described("compaction", "(encrypted summary)" if item.get("encrypted_content") else to_json(item))


def _agent_message(item: Item) -> Described:
    sender, receiver = _text(item.get("author")), _text(item.get("recipient"))
    return Described("agent", f"{sender or '?'} to {receiver or '?'}: {texts(item.get('content'))}")


def _image(item: Item) -> Described:
    return Described("image", _text(item.get("revised_prompt")) or "(generated)")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_DESCRIPTIONS: dict[str, Callable[[Item], Described]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": functools.partial(_call, "arguments"),
    "custom_tool_call": functools.partial(_call, "input"),
    "tool_search_call": functools.partial(_call, "arguments"),
    "local_shell_call": _shell_call,
    "web_search_call": _search_call,
    "function_call_output": functools.partial(_output, "output"),
    "custom_tool_call_output": functools.partial(_output, "output"),
    "local_shell_call_output": functools.partial(_output, "output"),
    "tool_search_output": functools.partial(_output, "tools"),
    "image_generation_call": _image,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
    "agent_message": _agent_message,
}
