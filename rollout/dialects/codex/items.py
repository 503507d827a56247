"""The items in the lines of a rollout: which of them the model sees (S3), and what a search finds of a record."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from rollout.dialects.codex.contextual import IMAGE_TAG, SUMMARY_OPENING, is_contextual
from rollout.dialects.codex.envelope import Agent, Compacted, Envelope, LineOf, payload_of, records_in
from rollout.format.strict_json import decode_value
from rollout.format.strict_json import text_of as text_of_value
from rollout.items import texts
from rollout.items.events import AgentLine, Compaction, Entry
from rollout.items.kinds import Head, TypeAndRole, is_visible, texts_of
from rollout.items.shapes import fault, is_plainly_whole, is_shown_item

_SHORT, _MARKS_BYTES = b',"item":"typeless"', 80
"""What a line says behind its payload whose item is whole in another form, and how long that can be."""
NO_SUMMARY = "(no summary available)"


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


def text_of(data: bytes, envelope: Envelope) -> tuple[str, str] | None:
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


def item_of(entry: Entry) -> Raw:
    """The item of an entry, without copying; for an instruction from another agent, what the model is shown (S6)."""
    if isinstance(entry, Raw):
        return entry
    if not isinstance(entry, AgentLine):
        return payload_of(entry)
    agent = msgspec.json.decode(entry, type=LineOf[Agent]).payload
    content = [{"type": "input_text", "text": agent.content}]
    if agent.encrypted_content is not None:
        kind = "NEW_TASK" if agent.trigger_turn else "MESSAGE"
        head = f"Message Type: {kind}\nTask name: {agent.recipient}\nSender: {agent.author}\nPayload:\n"
        content = [
            {"type": "input_text", "text": head},
            {"type": "encrypted_content", "encrypted_content": agent.encrypted_content},
        ]
    item = {"type": "agent_message", "author": agent.author, "recipient": agent.recipient, "content": content}
    return Raw(msgspec.json.encode(item))


def shown_lines(lines: bytes, depth: int) -> list[bytes]:
    """The lines of the visible items among some lines of any kind, oldest first."""
    return [
        data
        for line in lines.split(b"\n")
        for _, data, envelope in records_in(line, depth)
        if _is_shown(data, envelope)
    ]


def _is_shown(line: bytes, envelope: Envelope) -> bool:
    head = envelope.payload
    if head is UNSET:
        return is_visible(envelope.type or "", envelope.role) and fault(envelope.type, line) is None
    if envelope.type != "response_item" or head is None or head.type is None:
        return False
    return is_visible(head.type, head.role) and is_whole(head, line)


def compaction_of(line: bytes) -> Compaction:
    """What a compaction leaves; the malformed items of a replacement_history are left out.

    Raises:
        msgspec.ValidationError: It is malformed as a whole.
    """
    compacted = msgspec.json.decode(line, type=LineOf[Compacted]).payload
    summary = text_of_value(compacted.message) or NO_SUMMARY
    if compacted.replacement_history is None:
        return Compaction(None, summary)
    kept = [item for item in compacted.replacement_history if is_shown_item(item)]
    total = sum(len(memoryview(item)) for item in kept)
    # A raw item pins its whole line: let go of the line where most of it is something else.
    return Compaction([item.copy() for item in kept] if total < len(line) // 2 else list(kept), summary)


def user_texts(entry: Entry) -> list[str] | None:
    """What an old compaction keeps of an entry (S3): a user's texts; None for anything but a user's own message."""
    item = item_of(entry)
    head = msgspec.json.decode(item, type=TypeAndRole)
    if head.type != "message" or head.role != "user":
        return None
    texts = texts_of(item)
    if is_contextual("user", texts) or "".join(texts).startswith(SUMMARY_OPENING):
        return None
    left = [text for text in texts if not IMAGE_TAG.fullmatch(text)]
    if len(left) == len(texts) and left:
        return left
    parts = decode_value(item).get("content") or []
    if texts and not left and not any(part.get("type") == "input_image" for part in parts):
        return texts  # tags of no image are what the user wrote
    return left or [""] * bool(parts)


def world_of(line: bytes) -> dict[str, Any]:
    """The state that a world_state tells, or the change of it (RFC 7396)."""
    state: dict[str, Any] = decode_value(payload_of(line))["state"]
    return state


class _Announcement(msgspec.Struct, frozen=True, gc=False):
    message: Raw = Raw(b"null")
    images: Raw = Raw(b"null")
    local_images: Raw = Raw(b"null")


def announced(line: bytes) -> tuple[str, bool]:
    """What an event tells people that a user said: the text, and whether images came with it."""
    said = msgspec.json.decode(payload_of(line), type=_Announcement)
    has_image = any(bytes(raw)[:2] in (b"[{", b'["') for raw in (said.images, said.local_images))
    return text_of_value(said.message) or "", has_image
