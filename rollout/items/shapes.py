"""What an item needs to have an effect: the one table of the keys of the known types, and the check of it.

An item of a known type that lacks a key, or has another kind of value there, is taken by no model API, and Codex drops
it: it is as if it were not there (format.md, damage). Keys that are not known say nothing, and neither do items, or
parts of a content, of a type that is not known yet: they stay.

A row of the table has the keys that are looked at; those that may be null may be missing. `is_plainly_whole` lets the
common items pass by their heads alone; all others are put to the table.
"""

from __future__ import annotations

import functools
import json
import operator
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Raw

from rollout.format.strict_json import decode_value
from rollout.items.kinds import Head, TypeAndRole, is_visible

_QUOTE = ord('"')
_NULL = Raw(b"null")


def _struct(*, tag: str | None = None, **keys: Any) -> Any:
    """A struct of these keys; one that can be null can be missing."""
    fields = [(key, kind, None) if type(None) in get_args(kind) else (key, kind) for key, kind in keys.items()]
    return msgspec.defstruct("Row", fields, frozen=True, gc=False, kw_only=True, tag_field=tag and "type", tag=tag)


def _item(**keys: Any) -> Any:
    """A row of the table, with what every item may have."""
    return _struct(id=_Text, **keys)


def _list_of(*kinds: Any) -> Any:
    return types.GenericAlias(list, (functools.reduce(operator.or_, kinds),))


_Text: TypeAlias = str | None
_Phase: TypeAlias = Literal["commentary", "final_answer"] | None
_Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0)] | None


class _Image(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="input_image"):
    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["auto", "low", "high", "original"] | None = None

    def __post_init__(self) -> None:
        if self.image_url is None and self.file_id is None:
            raise ValueError("Object missing required field `image_url`")


# Parts of a content. Where a part of a known type stands that its place has no room for, the item is malformed.
_PARTS = {
    **{tag: _struct(tag=tag, text=str) for tag in ("input_text", "output_text", "text", "reasoning_text")},
    "summary_text": _struct(type=Literal["summary_text"], text=str),  # no tag: of one struct alone, none is asked for
    "encrypted_content": _struct(tag="encrypted_content", encrypted_content=str),
    "input_audio": _struct(tag="input_audio", audio_url=str),
    "input_image": _Image,
}
_INPUT, _SEALED = _PARTS["input_text"], _PARTS["encrypted_content"]
_SAID = _list_of(_INPUT, _PARTS["output_text"], _Image, _PARTS["input_audio"])
_GIVEN = _list_of(_INPUT, _Image, _PARTS["input_audio"], _SEALED)
_THOUGHT = _list_of(_PARTS["reasoning_text"], _PARTS["text"])
_SUMMED = _list_of(_PARTS["summary_text"])
_SEARCHES = {
    "search": _struct(tag="search", query=_Text, queries=list[str] | None),
    "open_page": _struct(tag="open_page", url=_Text),
    "find_in_page": _struct(tag="find_in_page", url=_Text, pattern=_Text),
}
_EXEC = _struct(
    type=Literal["exec"],
    command=list[str],
    timeout_ms=_Time,
    working_directory=_Text,
    env=dict[str, str] | None,
    user=_Text,
)
_KNOWN_PARTS, _KNOWN_ACTIONS = frozenset(_PARTS), frozenset({*_SEARCHES, "exec"})
_COMPACTION = _item(encrypted_content=str)
_TABLE = {
    "message": _item(role=_Text, content=_SAID, phase=_Phase),  # one without a role is not shown (S3): no damage
    "agent_message": _item(author=str, recipient=str, content=_list_of(_INPUT, _SEALED)),
    "reasoning": _item(summary=_SUMMED, content=_THOUGHT | None, encrypted_content=_Text),
    "function_call": _item(name=str, arguments=str, call_id=str, namespace=_Text),
    "function_call_output": _item(call_id=_Text, output=str | _GIVEN),
    "custom_tool_call": _item(name=str, input=str, call_id=str, status=_Text),
    "custom_tool_call_output": _item(call_id=str, output=str | _GIVEN, name=_Text),
    "local_shell_call": _item(call_id=_Text, status=Literal["completed", "in_progress", "incomplete"], action=_EXEC),
    "tool_search_call": _item(call_id=_Text, status=_Text, execution=str, arguments=Raw),  # of any kind, but there
    "tool_search_output": _item(call_id=_Text, status=str, execution=str, tools=list[Raw]),
    "web_search_call": _item(status=_Text, action=functools.reduce(operator.or_, _SEARCHES.values()) | None),
    "image_generation_call": _item(status=str, result=str, revised_prompt=_Text),
    "compaction": _COMPACTION,
    "compaction_summary": _COMPACTION,
    "context_compaction": _item(encrypted_content=_Text),
    "additional_tools": _item(role=str, tools=list[Raw]),
    "configuration_update": _item(reasoning=dict[str, Any]),
}
_CHECKS = {type: msgspec.json.Decoder(row).decode for type, row in _TABLE.items()}
_said, _summed = msgspec.json.Decoder(_SAID).decode, msgspec.json.Decoder(_SUMMED).decode


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
