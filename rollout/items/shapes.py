"""What an item needs to have an effect: the one table of the keys of the known types, and the check of it.

An item of a known type that lacks a key, or has another kind of value there, is taken by no model API, and Codex drops
it: it is as if it were not there (format.md, damage). Keys that are not known say nothing, and neither do items, or
parts of a content, of a type that is not known yet: they stay.

Each struct below is a row of the table: its fields are the keys that are looked at, those with a default may be null
or missing. `is_whole` lets the common items pass by their heads alone, and asks the table of all others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Raw

from rollout.format.strict_json import decode_value
from rollout.items.kinds import Head, TypeAndRole, is_visible

_QUOTE = ord('"')
_NULL = Raw(b"null")


class _Row(msgspec.Struct, frozen=True, gc=False):
    """What every item may have."""

    id: str | None = None


# Parts of a content. Where a part of a known type stands that its place has no room for, the item is malformed.


class _InputText(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="input_text"):
    text: str


class _OutputText(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="output_text"):
    text: str


class _Text(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    text: str


class _SummaryText(msgspec.Struct, frozen=True, gc=False):
    type: Literal["summary_text"]  # no tag: where only one struct can stand, a missing tag is let pass
    text: str


class _ReasoningText(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="reasoning_text"):
    text: str


class _Encrypted(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="encrypted_content"):
    encrypted_content: str


class _Audio(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="input_audio"):
    audio_url: str


class _Image(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="input_image"):
    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None

    def __post_init__(self) -> None:
        if self.image_url is None and self.file_id is None:
            raise ValueError("Object missing required field `image_url`")


_Said = list[_InputText | _OutputText | _Image | _Audio]
_Given = list[_InputText | _Image | _Audio | _Encrypted]
_Thought = list[_ReasoningText | _Text]
_Summed = list[_SummaryText]
_KNOWN_PARTS = frozenset(
    {
        *("input_text", "output_text", "text", "summary_text", "reasoning_text"),
        *("encrypted_content", "input_audio", "input_image"),
    }
)


# Actions


class _Exec(msgspec.Struct, frozen=True, gc=False):
    type: Literal["exec"]
    command: list[str]
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    working_directory: str | None = None
    env: dict[str, str] | None = None
    user: str | None = None


class _Search(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="search"):
    query: str | None = None
    queries: list[str] | None = None


class _OpenPage(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="open_page"):
    url: str | None = None


class _FindInPage(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="find_in_page"):
    url: str | None = None
    pattern: str | None = None


_KNOWN_ACTIONS = frozenset({"search", "open_page", "find_in_page", "exec"})


# Items


class _Message(_Row, frozen=True, gc=False, kw_only=True):
    role: str | None = None  # one without a role is not shown (S3), which is no damage
    content: _Said
    phase: Literal["commentary", "final_answer"] | None = None


class _AgentMessage(_Row, frozen=True, gc=False, kw_only=True):
    author: str
    recipient: str
    content: list[_InputText | _Encrypted]


class _Reasoning(_Row, frozen=True, gc=False, kw_only=True):
    summary: _Summed
    content: _Thought | None = None
    encrypted_content: str | None = None


class _FunctionCall(_Row, frozen=True, gc=False, kw_only=True):
    name: str
    arguments: str
    call_id: str
    namespace: str | None = None


class _CustomToolCall(_Row, frozen=True, gc=False, kw_only=True):
    name: str
    input: str
    call_id: str
    status: str | None = None


class _FunctionOutput(_Row, frozen=True, gc=False, kw_only=True):
    call_id: str | None = None
    output: str | _Given


class _CustomToolOutput(_Row, frozen=True, gc=False, kw_only=True):
    call_id: str
    output: str | _Given
    name: str | None = None


class _LocalShellCall(_Row, frozen=True, gc=False, kw_only=True):
    call_id: str | None = None
    status: Literal["completed", "in_progress", "incomplete"]
    action: _Exec


class _ToolSearchCall(_Row, frozen=True, gc=False, kw_only=True):
    call_id: str | None = None
    status: str | None = None
    execution: str
    arguments: Raw  # of any kind, but it has to be there


class _ToolSearchOutput(_Row, frozen=True, gc=False, kw_only=True):
    call_id: str | None = None
    status: str
    execution: str
    tools: list[Raw]


class _WebSearchCall(_Row, frozen=True, gc=False, kw_only=True):
    status: str | None = None
    action: _Search | _OpenPage | _FindInPage | None = None


class _ImageGenerationCall(_Row, frozen=True, gc=False, kw_only=True):
    status: str
    result: str
    revised_prompt: str | None = None


class _Compaction(_Row, frozen=True, gc=False, kw_only=True):
    encrypted_content: str


class _ContextCompaction(_Row, frozen=True, gc=False, kw_only=True):
    encrypted_content: str | None = None


class _AdditionalTools(_Row, frozen=True, gc=False, kw_only=True):
    role: str
    tools: list[Raw]


class _ConfigurationUpdate(_Row, frozen=True, gc=False, kw_only=True):
    reasoning: dict[str, Any]


_TABLE: Mapping[str, type[_Row]] = {
    "message": _Message,
    "agent_message": _AgentMessage,
    "reasoning": _Reasoning,
    "function_call": _FunctionCall,
    "function_call_output": _FunctionOutput,
    "custom_tool_call": _CustomToolCall,
    "custom_tool_call_output": _CustomToolOutput,
    "local_shell_call": _LocalShellCall,
    "tool_search_call": _ToolSearchCall,
    "tool_search_output": _ToolSearchOutput,
    "web_search_call": _WebSearchCall,
    "image_generation_call": _ImageGenerationCall,
    "compaction": _Compaction,
    "compaction_summary": _Compaction,
    "context_compaction": _ContextCompaction,
    "additional_tools": _AdditionalTools,
    "configuration_update": _ConfigurationUpdate,
}
_CHECKS = {type: msgspec.json.Decoder(row).decode for type, row in _TABLE.items()}
_said = msgspec.json.Decoder(_Said).decode
_summed = msgspec.json.Decoder(_Summed).decode


def _plain_message(head: Head) -> bool:
    return head.phase is None and head.content is not UNSET and _decodes(_said, head.content)


def _plain_reasoning(head: Head) -> bool:
    content, encrypted, summary = head.content, head.encrypted_content, head.summary
    return (
        (content is UNSET or content == _NULL)
        and (encrypted is UNSET or memoryview(encrypted)[0] == _QUOTE)
        and summary is not UNSET
        and _decodes(_summed, summary)
    )


def _plain_call(head: Head) -> bool:
    return type(head.call_id) is type(head.name) is type(head.arguments) is str and (
        head.namespace is None or type(head.namespace) is str
    )


def _plain_custom_call(head: Head) -> bool:
    return type(head.call_id) is type(head.name) is type(head.input) is str and (
        head.status is None or type(head.status) is str
    )


def _plain_output(head: Head) -> bool:
    output = head.output
    return type(head.call_id) is str and head.name is None and output is not UNSET and memoryview(output)[0] == _QUOTE


_PLAIN: Mapping[str | None, Callable[[Head], bool]] = {
    "message": _plain_message,
    "reasoning": _plain_reasoning,
    "function_call": _plain_call,
    "function_call_output": _plain_output,
    "custom_tool_call": _plain_custom_call,
    "custom_tool_call_output": _plain_output,
}
"""By which the common items are let pass: True where nothing is missing, False where the table has to be asked."""


def is_plainly_whole(head: Head) -> bool:
    """Whether the head alone tells that an item has all that its type needs; else `fault` has to be asked."""
    check = _PLAIN.get(head.type)
    return check is not None and (head.id is None or type(head.id) is str) and check(head)


def fault(type: str | None, item: bytes | Raw) -> str | None:
    """Why an item (its JSON) of this type is malformed; None for one that can have an effect."""
    check = _CHECKS.get(type or "")
    if check is None:
        return None
    try:
        check(item)
    except msgspec.ValidationError as error:
        known = _without_unknown_parts(decode_value(item))
        if known is None:
            return str(error)
        try:
            check(json.dumps(known, default=str).encode())
        except msgspec.ValidationError as why:
            return str(why)
    return None


def is_shown_item(item: Raw | bytes) -> bool:
    """The same of an item that has no line of its own."""
    try:
        head = msgspec.json.decode(item, type=TypeAndRole)
    except msgspec.ValidationError:
        return False
    return head.type is not None and is_visible(head.type, head.role) and fault(head.type, item) is None


def _decodes(decode: Any, raw: Raw) -> bool:
    try:
        decode(raw)
    except msgspec.ValidationError:
        return False
    return True


def _without_unknown_parts(item: Any) -> Any:
    """The item without the parts and the action whose type is not known; None if it has none of these."""
    found = dict(item)
    for key in ("content", "output", "summary"):
        parts = item.get(key)
        if isinstance(parts, list):
            found[key] = [part for part in parts if not _is_unknown(part, _KNOWN_PARTS)]
    if _is_unknown(item.get("action"), _KNOWN_ACTIONS):
        del found["action"]
    return None if found == item else found


def _is_unknown(value: object, known: frozenset[str]) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind not in known
