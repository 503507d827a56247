"""Tool calls: what was called, and whether its output tells of a failure.

Programs write outputs for the model to read, not for programs: an exit code in the first lines or in a JSON object, a
`success`, a sentence. What tells of neither counts as fine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rollout.format.strict_json import decode_value

CALLS = {
    "function_call": "(no name)",
    "custom_tool_call": "(no name)",
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}
"""The items that are calls, and what the tool is called where they do not say."""
OUTPUTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"}
)
_HEAD_CHARACTERS = 600
_CODE = re.compile(
    r"^(?:Exit code:|Process exited with code|exit_code:?) *(-?[0-9]{1,10})\b", re.MULTILINE | re.IGNORECASE
)
_BEGINNINGS = (
    *("aborted", "err:", "error:", "execution error", "exec command rejected", "failed to", "tool call error"),
    *("unsupported call", "unsupported custom tool", "patch rejected", "apply_patch verification failed"),
)
_MOST_JSON_CHARACTERS = 1 << 20
_OUTPUT_LINE = "\nOutput:\n"
"""What stands ahead of what a command printed."""


class Printed(NamedTuple):
    """What a command printed, and its exit code if that is told."""

    text: str
    exit_code: int | None


def name_of(item: Mapping[str, Any]) -> str:
    """The tool that a call is of, with its namespace."""
    parts = [part for part in (item.get("namespace"), item.get("name")) if isinstance(part, str) and part]
    return ".".join(parts) or CALLS.get(str(item.get("type")), "(no name)")


def has_failed(item: Mapping[str, Any]) -> bool:
    """Whether a call or an output says that it failed."""
    if item.get("status") in ("failed", "error"):
        return True
    return item.get("type") in OUTPUTS and _tells_failure(item.get("output"))


def printed_by(output: object) -> Printed:
    """What the output of a call tells of the command that was run: its text without the lines about it."""
    if isinstance(output, list):
        texts = [part.get("text") for part in output if isinstance(part, Mapping)]
        return printed_by("\n".join(text for text in texts if isinstance(text, str)))
    if isinstance(output, Mapping):
        inner = output.get("output", output.get("content"))
        text = inner if isinstance(inner, str) else printed_by(inner).text if isinstance(inner, list) else ""
        return Printed(text, _code_of(output))
    if not isinstance(output, str):
        return Printed("", None)
    head = output[:_HEAD_CHARACTERS]
    told = _json_object(output) if head.lstrip().startswith("{") else None
    if told is not None and isinstance(told.get("output"), str):
        return Printed(told["output"], _code_of(told))
    begin = head.find(_OUTPUT_LINE)
    found = _CODE.search(head if begin < 0 else head[:begin])
    text = output if begin < 0 else output[begin + len(_OUTPUT_LINE) :]
    return Printed(text, None if found is None else int(found[1]))


def _tells_failure(output: object) -> bool:
    if isinstance(output, list):
        parts = [part.get("text") for part in output[:4] if isinstance(part, Mapping)]
        return any(isinstance(text, str) and _reads_as_failure(text) for text in parts)
    if isinstance(output, Mapping):
        return _has_failed(output) or _tells_failure(output.get("content"))
    return isinstance(output, str) and _reads_as_failure(output)


def _has_failed(value: Mapping[str, Any]) -> bool:
    if value.get("success") is False or value.get("is_error") is True or value.get("isError") is True:
        return True
    return _code_of(value) not in (None, 0)


def _code_of(value: Mapping[str, Any]) -> int | None:
    """The exit code that an object tells, in its metadata perhaps; one that is not 0 counts."""
    metadata = value.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    codes = [found.get("exit_code") for found in (value, inner)]
    told = [code for code in codes if isinstance(code, int) and not isinstance(code, bool)]
    return next((code for code in told if code != 0), told[0] if told else None)


def _json_object(text: str) -> Mapping[str, Any] | None:
    if len(text) > _MOST_JSON_CHARACTERS:
        return None
    try:
        value = decode_value(text.encode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _reads_as_failure(text: str) -> bool:
    head = text[:_HEAD_CHARACTERS].lstrip()
    if head.startswith("{") and len(text) <= _MOST_JSON_CHARACTERS:
        value = _json_object(text)
        return value is not None and _has_failed(value)
    found = _CODE.search(head)
    return int(found[1]) != 0 if found else head.lower().startswith(_BEGINNINGS)
