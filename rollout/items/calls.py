"""Tool calls: what was called, and whether its output tells of a failure.

Programs write outputs for the model to read, not for programs: an exit code in the first lines or in a JSON object, a
`success`, a sentence. What tells of neither counts as fine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rollout.format.strict_json import value_in
from rollout.items.kinds import texts_in


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
