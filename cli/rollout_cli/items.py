"""A model-visible item in words, or any other record: a label, and one text.

Both are other people's data: any key may be missing or of any type, and none of that is an error here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

import rollout
from rollout_cli.units import count

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
    label, tell = _DESCRIPTIONS.get(kind, (kind, to_json))
    if kind == "message":
        label = _text(item.get("role")) or label
        if label == "user" and rollout.is_summary(item, left_by if isinstance(left_by, str) else None):
            label = SUMMARY
    return Described(label, tell(item))


def describe_at(items: Sequence[Item], index: int) -> Described:
    """The same of an item of a history, which knows what its compactions have left."""
    told = describe(items[index])
    is_summary = isinstance(items, rollout.History) and items.is_summary(index)
    return told._replace(label=SUMMARY) if is_summary else told


def describe_record(record: rollout.Record) -> Described:
    """A record in words: an item, what is told of a turn, of tokens or settings, what was taken back or compacted.

    One of which nothing is known is shown as the JSON of its payload.
    """
    payload = record.payload
    told = rollout.tell(record.type, record.kind, payload)
    match told.kind:
        case "item" if isinstance(payload, Mapping) and not told.text:
            return describe(payload)
        case "start":
            return Described("turn", told.text or "(no id)")
        case "end":
            return Described("completed", "")
        case "abort":
            return Described("aborted", told.text)
        case "compaction":
            return Described(record.type, _replaced(told))
        case "rollback":
            return Described("rollback", f"{_amount(told.text, 'turn')} taken back")
        case "removal":
            return Described("removal", f"{_amount(told.text, 'item')} taken out")
        case "tokens" if record.tokens is not None:
            return Described("tokens", f"{record.tokens.total:,} in all")
        case "tokens" | "error" | "context" | "session":
            return Described(told.kind, told.text or to_json(payload))
        case _:
            return Described(record.kind or record.type, told.text or to_json(payload))


def _amount(number: str, noun: str) -> str:
    return f"{number or '?'} {noun}{'' if number == '1' else 's'}"


def _replaced(told: rollout.Told) -> str:
    if told.items is None:
        return f"the user's messages and a summary for what came before:\n{told.text}".rstrip(":\n")
    lines = [f"{count(len(told.items), 'item')} for what came before:", *([told.text] if told.text else [])]
    for item in told.items:
        is_item = isinstance(item, Mapping)
        known = describe(item, left_by=told.text or None) if is_item else Described("damaged", to_json(item))
        lines.append(f"{known.label}: {known.text}")
    return "\n".join(lines)


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
    return msgspec.json.encode(value).decode()


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return texts(part)
    text = part.get("text")
    if isinstance(text, str):
        return text
    kind = part.get("type")
    return f"[{kind}]" if isinstance(kind, str) else to_json(part)


def _reasoning(item: Item) -> str:
    shown = "\n".join(filter(None, (texts(item.get("summary")), texts(item.get("content")))))
    return shown or ("(encrypted)" if item.get("encrypted_content") else "(empty)")


def _call(arguments: str, item: Item) -> str:
    name = ".".join(part for part in (_text(item.get("namespace")), _text(item.get("name"))) if part)
    return f"{name or '(no name)'}({texts(item.get(arguments))})"


def _action(name: str, key: str, item: Item) -> str:
    action = item.get("action")
    found = action.get(key) if isinstance(action, Mapping) else None
    words = [word for word in (found if isinstance(found, list) else [found]) if isinstance(word, str)]
    return f"{name}({' '.join(words) or texts(action)})"


def _compaction(item: Item) -> str:
    return "(encrypted summary)" if item.get("encrypted_content") else to_json(item)


def _agent_message(item: Item) -> str:
    sender, receiver = _text(item.get("author")), _text(item.get("recipient"))
    return f"{sender or '?'} to {receiver or '?'}: {texts(item.get('content'))}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_ARGUMENTS, _OUTPUT = functools.partial(_call, "arguments"), ("output", lambda item: texts(item.get("output")))
_DESCRIPTIONS: dict[str, tuple[str, Callable[[Item], str]]] = {
    "message": ("message", lambda item: texts(item.get("content"))),
    "reasoning": ("reasoning", _reasoning),
    "function_call": ("call", _ARGUMENTS),
    "custom_tool_call": ("call", functools.partial(_call, "input")),
    "tool_search_call": ("call", _ARGUMENTS),
    "local_shell_call": ("call", functools.partial(_action, "shell", "command")),
    "web_search_call": ("call", functools.partial(_action, "web_search", "query")),
    "function_call_output": _OUTPUT,
    "custom_tool_call_output": _OUTPUT,
    "local_shell_call_output": _OUTPUT,
    "tool_search_output": ("output", lambda item: texts(item.get("tools"))),
    "image_generation_call": ("image", lambda item: _text(item.get("revised_prompt")) or "(generated)"),
    "compaction": ("compaction", _compaction),
    "compaction_summary": ("compaction", _compaction),
    "context_compaction": ("compaction", _compaction),
    "agent_message": ("agent", _agent_message),
}
"""The label and the text of each type of item; a message is labelled by its role."""
