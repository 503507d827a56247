"""What an item says: the text of it that a search looks through, what was called, whether an output tells of a failure.

A record has at most one text: what a user or another agent said (`user`), what the model answered (`assistant`), what
it asked a tool for (`tool_call`: the name and the values of the arguments), what came back (`tool_output`). What the
program wrote itself is not searched (contextual messages, S5; developer and system messages; events, settings), nor is
reasoning. Neither are images and other long runs of base64. The items of a compaction's replacement_history repeat
what stood before, and its summary is nobody's own words: both are left out, the lines above it are found instead.

Programs write outputs for the model to read, not for programs: an exit code in the first lines or in a JSON object, a
`success`, a sentence. What tells of neither counts as fine.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rollout.format.strict_json import decode_value, value_in
from rollout.items.kinds import texts_in, texts_of
from rollout.limits import SEARCH_TEXT_CHARACTERS

USER, ASSISTANT, TOOL_CALL, TOOL_OUTPUT = "user", "assistant", "tool_call", "tool_output"
KINDS = (USER, ASSISTANT, TOOL_CALL, TOOL_OUTPUT)

_SILENT_KEYS = frozenset({"type", "image_url", "encrypted_content"})
_BASE64_CHARACTERS = 256
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{_BASE64_CHARACTERS},}}+")
_ESCAPED_SPACE = re.compile(r"\\[nrt]")
_MOST_VALUES = 10_000
_HEAD_CHARACTERS = 600
_CODE = re.compile(
    r"^(?:Exit code:|Process exited with code|exit_code:?) *(-?[0-9]{1,10})\b", re.MULTILINE | re.IGNORECASE
)
_BEGINNINGS = (
    *("aborted", "err:", "error:", "execution error", "exec command rejected", "failed to", "tool call error"),
    *("unsupported call", "unsupported custom tool", "patch rejected", "apply_patch verification failed"),
)
_OUTPUT_LINE = "\nOutput:\n"
"""What stands ahead of what a command printed."""


class Call(NamedTuple):
    """A kind of call: its tool, where an item does not say; the keys that say what is asked; what its output is."""

    tool: str
    asked: tuple[str, ...]
    output: str | None = None


CALLS = {
    "function_call": Call("(no name)", ("name", "arguments"), "function_call_output"),
    "custom_tool_call": Call("(no name)", ("name", "input"), "custom_tool_call_output"),
    "local_shell_call": Call("local_shell", ("action",), "function_call_output"),
    "web_search_call": Call("web_search", ("action",)),
    "tool_search_call": Call("tool_search", ("arguments",), "tool_search_output"),
    "image_generation_call": Call("image_generation", ("revised_prompt",)),
}
"""The items that are calls."""
OUTPUTS = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "local_shell_call_output": "output",
    "tool_search_output": "tools",
}
"""The items that answer them, and the key of the answer."""


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
        asked = [_joined(_opened(value.get(key))) for key in CALLS[type].asked]
        return TOOL_CALL, "\n".join(filter(None, asked))
    if type in OUTPUTS:
        return TOOL_OUTPUT, _answered(decode_value(item).get(OUTPUTS[type]))
    return None


def cut(kind: str, text: str) -> tuple[str, str] | None:
    """A text as it is searched: its beginning, at most `SEARCH_TEXT_CHARACTERS`; None if it says nothing."""
    text = text[:SEARCH_TEXT_CHARACTERS]
    if len(text) >= _BASE64_CHARACTERS:
        text = _BASE64.sub(" ", text)
    return (kind, text) if text and not text.isspace() else None


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


def _opened(text: Any) -> Any:
    """The value of a text that is JSON (an object or an array), else what is given."""
    is_json = isinstance(text, str) and text.startswith(("{", "["))
    value = value_in(text, 4 * SEARCH_TEXT_CHARACTERS) if is_json else None
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


class Printed(NamedTuple):
    """What a command printed, and its exit code if that is told."""

    text: str
    exit_code: int | None


def name_of(item: Mapping[str, Any]) -> str:
    """The tool that a call is of, with its namespace."""
    parts = [part for part in (item.get("namespace"), item.get("name")) if isinstance(part, str) and part]
    kind = CALLS.get(str(item.get("type")))
    return ".".join(parts) or ("(no name)" if kind is None else kind.tool)


def has_failed(item: Mapping[str, Any]) -> bool:
    """Whether a call or an output says that it failed."""
    if item.get("status") in ("failed", "error"):
        return True
    return item.get("type") in OUTPUTS and _tells_failure(item.get("output"))


def printed_by(output: object) -> Printed:
    """What the output of a call tells of the command that was run: its text without the lines about it."""
    if isinstance(output, list):
        return printed_by("\n".join(texts_in(output)))
    if isinstance(output, Mapping):
        inner = output.get("output", output.get("content"))
        text = inner if isinstance(inner, str) else printed_by(inner).text if isinstance(inner, list) else ""
        return Printed(text, _code_of(output))
    if not isinstance(output, str):
        return Printed("", None)
    told = _json_object(output)
    if told is not None and isinstance(told.get("output"), str):
        return Printed(told["output"], _code_of(told))
    head = output[:_HEAD_CHARACTERS]
    begin = head.find(_OUTPUT_LINE)
    found = _CODE.search(head if begin < 0 else head[:begin])
    text = output if begin < 0 else output[begin + len(_OUTPUT_LINE) :]
    return Printed(text, None if found is None else int(found[1]))


def _tells_failure(output: object) -> bool:
    if isinstance(output, list):
        return any(map(_tells_failure, texts_in(output[:4])))
    if isinstance(output, str):
        told = _json_object(output)
        if told is not None:
            return _is_failure(told)
        head = output[:_HEAD_CHARACTERS].lstrip()
        found = _CODE.search(head)
        return int(found[1]) != 0 if found else head.lower().startswith(_BEGINNINGS)
    return isinstance(output, Mapping) and (_is_failure(output) or _tells_failure(output.get("content")))


def _is_failure(told: Mapping[str, Any]) -> bool:
    if told.get("success") is False or told.get("is_error") is True or told.get("isError") is True:
        return True
    return _code_of(told) not in (None, 0)


def _code_of(told: Mapping[str, Any]) -> int | None:
    """The exit code that an object tells, in its metadata perhaps; one that is not 0 counts."""
    metadata = told.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    codes = [code for found in (told, inner) if type(code := found.get("exit_code")) is int]
    return next((code for code in codes if code != 0), codes[0] if codes else None)


def _json_object(text: str) -> Mapping[str, Any] | None:
    value = value_in(text) if text[:_HEAD_CHARACTERS].lstrip().startswith("{") else None
    return value if isinstance(value, Mapping) else None
