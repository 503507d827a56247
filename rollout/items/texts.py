"""The texts of a record that a search looks through.

A record has at most one text: what a user or another agent said (`user`), what the model answered (`assistant`), what
it asked a tool for (`tool_call`: the name and the values of the arguments), what came back (`tool_output`). What the
program wrote itself is not searched (contextual messages, S5; developer and system messages; events, settings), nor is
reasoning. Neither are images and other long runs of base64. The items of a compaction's replacement_history repeat
what stood before, and its summary is nobody's own words: both are left out, the lines above it are found instead.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from rollout.format.strict_json import decode_value, value_in
from rollout.items.calls import CALLS, OUTPUTS
from rollout.items.kinds import texts_of
from rollout.limits import SEARCH_TEXT_CHARACTERS

USER, ASSISTANT, TOOL_CALL, TOOL_OUTPUT = "user", "assistant", "tool_call", "tool_output"
KINDS = (USER, ASSISTANT, TOOL_CALL, TOOL_OUTPUT)

_SILENT_KEYS = frozenset({"type", "image_url", "encrypted_content"})
_BASE64_CHARACTERS = 256
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{_BASE64_CHARACTERS},}}+")
_ESCAPED_SPACE = re.compile(r"\\[nrt]")
_MOST_VALUES = 10_000


def text_of(
    type: str | None, role: str | None, item: msgspec.Raw, is_contextual: Callable[[str, list[str]], bool]
) -> tuple[str, str] | None:
    """The kind and the text of one item; None if it has none to be searched.

    `is_contextual` says of a message (its role, its texts) whether the program wrote it.
    """
    if type == "agent_message":
        return USER, "\n".join(texts_of(item))
    if type == "message":
        texts = texts_of(item) if role in (USER, ASSISTANT) else []
        return None if role is None or not texts or is_contextual(role, texts) else (role, "\n".join(texts))
    if type in CALLS:
        value = decode_value(item)
        return TOOL_CALL, "\n".join(filter(None, (_asked(value.get(key)) for key in CALLS[type].asked)))
    if type in OUTPUTS:
        return TOOL_OUTPUT, _answered(decode_value(item).get(OUTPUTS[type]))
    return None


def cut(kind: str, text: str) -> tuple[str, str] | None:
    """A text as it is searched: its beginning, at most `SEARCH_TEXT_CHARACTERS`; None if it says nothing."""
    text = text[:SEARCH_TEXT_CHARACTERS]
    if len(text) >= _BASE64_CHARACTERS:
        text = _BASE64.sub(" ", text)
    return (kind, text) if text and not text.isspace() else None


def _asked(value: Any) -> str:
    """The values of arguments, be they JSON, JSON in a string, or plain text."""
    return _joined(_opened(value) if isinstance(value, str) else value)


def _answered(value: Any) -> str:
    """The text of an output: plain, in parts, or in an object with `output` or `content`, be it JSON in a string."""
    if isinstance(value, str):
        inner = _opened(value)
        if isinstance(inner, str):
            return inner
        told = inner.get("output") if isinstance(inner, dict) else None
        return told if isinstance(told, str) else _ESCAPED_SPACE.sub(" ", value)
    if isinstance(value, dict):
        told = value.get("output", value.get("content"))
        return told if isinstance(told, str) else _joined(value if told is None else told)
    return _joined(value)


def _opened(text: str) -> Any:
    """The value of a text that is JSON (an object or an array), else the text."""
    value = value_in(text, 4 * SEARCH_TEXT_CHARACTERS) if text[:1] in ("{", "[") else None
    return text if value is None else value


def _joined(value: Any) -> str:
    """The strings and numbers of a JSON value in their order, those of a list of strings in one line."""
    return "\n".join(itertools.islice(_leaves(value), _MOST_VALUES))


def _leaves(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            stack += [" ".join(value)] if value and all(isinstance(part, str) for part in value) else reversed(value)
        elif isinstance(value, dict):
            stack += [inner for key, inner in reversed(value.items()) if key not in _SILENT_KEYS]
        elif value is not None and not isinstance(value, bool):
            try:
                yield str(value)
            except ValueError:  # a whole number beyond Python's limit of digits
                continue
