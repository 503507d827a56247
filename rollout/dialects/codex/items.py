"""The items in the lines of a rollout: which of them the model sees (S3), and what a search finds of a record."""

from __future__ import annotations

from msgspec import UNSET, Raw

from rollout.dialects.codex import records as r
from rollout.dialects.codex.contextual import is_contextual
from rollout.dialects.codex.envelope import payload_of
from rollout.format.strict_json import decode_value
from rollout.items import texts
from rollout.items.kinds import Head, is_visible
from rollout.items.shapes import fault, is_plainly_whole

_SHORT, _MARKS_BYTES = b',"item":"typeless"', 80
"""What a line says behind its payload whose item is whole in another form, and how long that can be."""


def is_shown(envelope: r.Envelope, line: bytes) -> bool:
    """Whether a record is a response item, bare or not, that the model sees."""
    type, kind = r.types_of(envelope)
    head = envelope.payload
    if type != "response_item" or kind is None:
        return False
    if not isinstance(head, Head):
        return is_visible(kind, envelope.role) and fault(kind, line) is None
    return is_visible(kind, head.role) and is_whole(head, line)


def is_whole(head: Head, line: bytes) -> bool:
    """Whether an item (the line that holds it, and its head) has all that its type needs."""
    return is_plainly_whole(head) or fault_in(line, head.type, payload_of(line)) is None


def fault_in(line: bytes, type: str | None, item: bytes | Raw) -> str | None:
    """As `shapes.fault`, of an item that stands in a line, which may say that the item is whole in another form.

    Sessions of agents began by writing a message of the SDK with a text as its content as it was.
    """
    if type == "message" and _SHORT in line[-_MARKS_BYTES:] and isinstance(decode_value(item).get("content"), str):
        return None
    return fault(type, item)


def text_of(data: bytes, envelope: r.Envelope) -> tuple[str, str] | None:
    """The kind and the text of one record (`data` is its JSON); None if it has none to be searched.

    The text is at most `SEARCH_TEXT_CHARACTERS` long, its beginning counts. Never fails, whatever the record holds.
    """
    head, type = envelope.payload, envelope.type
    found = None
    if head is UNSET:
        found = texts.text_of(type, envelope.role, payload_of(data), is_contextual)
    elif head is not None and type == "response_item":
        found = texts.text_of(head.type, head.role, payload_of(data), is_contextual)
    elif head is not None and type == "inter_agent_communication":
        content = decode_value(payload_of(data)).get("content")
        found = (texts.USER, content) if isinstance(content, str) else None
    return None if found is None else texts.cut(*found)
