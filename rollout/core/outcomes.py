"""Tool calls: what was called, and whether its output tells of a failure.

Programs write outputs for the model to read, not for programs: an exit code in the first lines or in a JSON object, a
`success`, a sentence. What tells of neither counts as fine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rollout.core.codec import decode_value

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


def name_of(item: Mapping[str, Any]) -> str:
    """The tool that a call is of, with its namespace."""
    parts = [part for part in (item.get("namespace"), item.get("name")) if isinstance(part, str) and part]
    return ".".join(parts) or CALLS.get(str(item.get("type")), "(no name)")


def has_failed(item: Mapping[str, Any]) -> bool:
    """Whether a call or an output says that it failed."""
    if item.get("status") in ("failed", "error"):
        return True
    return item.get("type") in OUTPUTS and _tells_failure(item.get("output"))


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
    metadata = value.get("metadata")
    inner = metadata if isinstance(metadata, Mapping) else {}
    return any(_is_bad(found.get("exit_code")) for found in (value, inner))


def _is_bad(code: object) -> bool:
    return isinstance(code, int) and not isinstance(code, bool) and code != 0


def _reads_as_failure(text: str) -> bool:
    head = text[:_HEAD_CHARACTERS].lstrip()
    if head.startswith("{") and len(text) <= _MOST_JSON_CHARACTERS:
        try:
            value = decode_value(text.encode())
        except (ValueError, RecursionError):
            return False
        return isinstance(value, Mapping) and _has_failed(value)
    found = _CODE.search(head)
    return int(found[1]) != 0 if found else head.lower().startswith(_BEGINNINGS)
