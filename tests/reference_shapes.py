"""What a model-visible item needs, for the slow reference: one plain table, and a check that walks it.

It knows nothing of the engine. What Codex reads and what it drops was asked of Codex 0.169.0, a key at a time.
A check takes a value and says whether it can stand there. A key that is missing is looked at as null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]
Shape = dict[str, Check]


def text(value: Any) -> bool:
    return isinstance(value, str)


def count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def anything_at_all(value: Any) -> bool:
    return True


def some_list(value: Any) -> bool:
    return isinstance(value, list)


def maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(each) for each in value)


def dict_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def fits(value: Any, shape: Shape) -> bool:
    return isinstance(value, dict) and all(check(value.get(key)) for key, check in shape.items())


def parts(*types: str) -> Check:
    """A list of parts of these types, each with what it needs. A part of a type that nobody knows yet stays."""

    def is_part(value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return False
        if value["type"] not in PARTS:
            return True
        if value["type"] == "input_image" and value.get("image_url") is None and value.get("file_id") is None:
            return False
        return value["type"] in types and fits(value, PARTS[value["type"]])

    return list_of(is_part)


def some_output(value: Any) -> bool:
    return text(value) or parts("input_text", "input_image", "input_audio", "encrypted_content")(value)


def by_type(shapes: dict[str, Shape]) -> Check:
    """An object whose type says what it needs; an unknown type needs nothing."""
    return lambda value: fits(value, {"type": text}) and fits(value, shapes.get(value["type"], {}))


PARTS: dict[str, Shape] = {
    "input_text": {"text": text},
    "output_text": {"text": text},
    "text": {"text": text},
    "summary_text": {"text": text},
    "reasoning_text": {"text": text},
    "encrypted_content": {"encrypted_content": text},
    "input_audio": {"audio_url": text},
    "input_image": {
        "image_url": maybe(text),
        "file_id": maybe(text),
        "detail": maybe(one_of("auto", "low", "high", "original")),
    },
}
SHELL_ACTION: Shape = {
    "type": one_of("exec"),
    "command": list_of(text),
    "timeout_ms": maybe(count),
    "working_directory": maybe(text),
    "env": maybe(dict_of_texts),
    "user": maybe(text),
}
WEB_ACTIONS: dict[str, Shape] = {
    "search": {"query": maybe(text), "queries": maybe(list_of(text))},
    "open_page": {"url": maybe(text)},
    "find_in_page": {"url": maybe(text), "pattern": maybe(text)},
}
ITEMS: dict[str, Shape] = {
    "message": {
        "role": maybe(text),  # S3: one without a role is not shown, which is no damage
        "content": parts("input_text", "output_text", "input_image", "input_audio"),
        "phase": maybe(one_of("commentary", "final_answer")),
    },
    "agent_message": {"author": text, "recipient": text, "content": parts("input_text", "encrypted_content")},
    "reasoning": {
        "summary": parts("summary_text"),
        "content": maybe(parts("reasoning_text", "text")),
        "encrypted_content": maybe(text),
    },
    "function_call": {"name": text, "namespace": maybe(text), "arguments": text, "call_id": text},
    "function_call_output": {"call_id": maybe(text), "output": some_output},
    "custom_tool_call": {"call_id": text, "name": text, "input": text, "status": maybe(text)},
    "custom_tool_call_output": {"call_id": text, "name": maybe(text), "output": some_output},
    "local_shell_call": {
        "call_id": maybe(text),
        "status": one_of("completed", "in_progress", "incomplete"),
        "action": lambda value: fits(value, SHELL_ACTION),
    },
    # Its arguments may be anything, null too, but have to be there: see is_item.
    "tool_search_call": {
        "call_id": maybe(text),
        "status": maybe(text),
        "execution": text,
        "arguments": anything_at_all,
    },
    "tool_search_output": {"call_id": maybe(text), "status": text, "execution": text, "tools": some_list},
    "web_search_call": {"status": maybe(text), "action": maybe(by_type(WEB_ACTIONS))},
    "image_generation_call": {"status": text, "revised_prompt": maybe(text), "result": text},
    "compaction": {"encrypted_content": text},
    "compaction_summary": {"encrypted_content": text},
    "context_compaction": {"encrypted_content": maybe(text)},
    "additional_tools": {"role": text, "tools": some_list},
    "configuration_update": {"reasoning": lambda value: isinstance(value, dict)},
}
COMMUNICATION: Shape = {
    "author": text,
    "recipient": text,
    "content": text,
    "encrypted_content": maybe(text),
    "trigger_turn": lambda value: isinstance(value, bool),
    "id": maybe(text),
}


def is_communication(value: Any) -> bool:
    """Whether an inter_agent_communication has all that it needs; its other recipients may be missing, but not null."""
    return fits(value, COMMUNICATION) and list_of(text)(value.get("other_recipients", []))


def is_item(value: Any) -> bool:
    """Whether it is an item that can have an effect: of an unknown type, or with all that its type needs."""
    if not fits(value, {"type": text, "role": maybe(text)}):
        return False
    if value["type"] == "tool_search_call" and "arguments" not in value:
        return False
    known = value["type"] in ITEMS
    return not known or fits(value, {"id": maybe(text), **ITEMS[value["type"]]})
