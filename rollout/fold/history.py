"""The model-visible items, undecoded until they are touched.

An entry is the bytes of the line that recorded the item, or (`Raw`) the item's own JSON. Numbers of any length and key
order survive, as nothing is decoded and encoded again. An item that has a line of its own has the label of that;
one that a compaction put into the history has none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

import msgspec
from msgspec import Raw

from rollout.dialects.codex import records as r
from rollout.dialects.codex.contextual import SUMMARY_OPENING, is_contextual
from rollout.dialects.codex.envelope import payload_of, split
from rollout.dialects.codex.items import is_shown
from rollout.format import labels
from rollout.format.strict_json import decode_value, text_of
from rollout.items.kinds import TypeAndRole, texts_of
from rollout.items.shapes import is_shown_item

Item: TypeAlias = dict[str, Any]
Entry: TypeAlias = bytes | Raw


class AgentLine(bytes):
    """A line that tells an instruction from another agent: its item is made of it."""

    __slots__ = ()


NO_SUMMARY = "(no summary available)"


class History(Sequence[Item]):
    """Items, oldest first; each decodes when touched, anew each time.

    `raw(i)` gives the item's JSON as it was recorded. Equal to any sequence of equal items.
    """

    __slots__ = ("_entries", "summaries")

    def __init__(self, entries: Sequence[Entry], summaries: Iterable[str] = ()) -> None:
        self._entries = entries
        self.summaries = frozenset(summaries)
        """The messages of the compactions that made this history."""

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> Item | History:
        if isinstance(index, slice):
            return History(self._entries[index], self.summaries)
        item: Item = decode_value(raw_item(self._entries[index]))
        return item

    def __iter__(self) -> Iterator[Item]:
        for entry in self._entries:
            yield decode_value(raw_item(entry))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | bytes) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, so as unhashable as they are

    def __repr__(self) -> str:
        return f"<History of {len(self)} items>"

    @property
    def entries(self) -> Sequence[Entry]:
        """Where the items come from: lines, and JSON of items that have no line of their own."""
        return self._entries

    def has_own_line(self, index: int) -> bool:
        """Whether an item is one of a line, not one that a compaction put here."""
        return not isinstance(self._entries[index], Raw)

    def label(self, index: int) -> labels.Label:
        """The label of the record of one item; nothing is set in that of an item that a compaction put here."""
        entry = self._entries[index]
        return labels.UNLABELLED if isinstance(entry, Raw) else labels.label_of(entry)

    def is_summary(self, index: int) -> bool:
        """Whether an item of role user is what a compaction left of the history before it, and nobody's own words.

        It begins as such summaries do, or it is the message of a compaction that made this history.
        """
        item = raw_item(self._entries[index])
        head = msgspec.json.decode(item, type=TypeAndRole)
        return head.type == "message" and head.role == "user" and _are_summary(texts_of(item) or [], self.summaries)

    def raw(self, index: int) -> bytes:
        """The JSON of one item, byte for byte as it was recorded."""
        return bytes(raw_item(self._entries[index]))


def is_summary(item: Mapping[str, Any], message: str | None = None) -> bool:
    """Whether an item of role user is a compaction's summary, and nobody's own words.

    It begins as such summaries do, or says the same as the `message` of the compaction that it comes from.
    """
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    content = item.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return _are_summary([text for text in texts if isinstance(text, str)], (message,) if message else ())


def _are_summary(texts: Sequence[str], summaries: Container[str]) -> bool:
    return "\n".join(texts) in summaries or any(text[:4096].lstrip().startswith(SUMMARY_OPENING) for text in texts)


def raw_item(entry: Entry) -> Raw:
    """The item of an entry, without copying."""
    if isinstance(entry, Raw):
        return entry
    return agent_item(entry) if isinstance(entry, AgentLine) else payload_of(entry)


def plain_items(run: bytes, depth: int) -> list[bytes]:
    """The lines of a run's visible items, oldest first (see `turns.Mark`)."""
    found = []
    for line in run.split(b"\n"):
        for piece in split(line, depth):
            if piece.envelope is not None and is_shown(piece.envelope, piece.data):
                found.append(piece.data)
    return found


def agent_item(line: bytes) -> Raw:
    """An instruction from another agent as the item that the model is shown (S6). msgspec.ValidationError."""
    agent = msgspec.json.decode(line, type=_AgentLine).payload
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


class _AgentLine(msgspec.Struct):
    payload: r.Agent


def is_instruction(line: bytes) -> bool:
    """Whether an inter_agent_communication has all that it needs."""
    try:
        msgspec.json.decode(line, type=_AgentLine)
    except msgspec.ValidationError:
        return False
    return True


def open_compaction(line: bytes) -> r.Compacted:
    """What a compaction says, its items undecoded."""
    return msgspec.json.decode(line, type=_CompactedLine).payload


def summary_of(compacted: r.Compacted) -> str:
    """The text that a compaction leaves as a user's message (S3)."""
    return text_of(compacted.message) or NO_SUMMARY


def replacement_entries(line: bytes, compacted: r.Compacted | None = None) -> list[Entry]:
    """The visible items of a compaction's replacement_history; malformed ones are left out.

    `compacted` is the line, if it was opened already.
    """
    items = (compacted or open_compaction(line)).replacement_history or []
    kept = [item for item in items if is_shown_item(item)]
    total = sum(len(memoryview(item)) for item in kept)
    # A raw item pins its whole line: let go of the line where most of it is something else.
    return [item.copy() for item in kept] if total < len(line) // 2 else list(kept)


class _CompactedLine(msgspec.Struct):
    payload: r.Compacted


def plain_user_message(texts: Sequence[str]) -> Raw:
    """A message of role user with these text parts."""
    parts = [{"type": "input_text", "text": text} for text in texts]
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": parts}))


def user_texts(entry: Entry) -> list[str] | None:
    """What an old compaction keeps of an entry (S3): a user's texts; None for anything but a user's own message."""
    item = raw_item(entry)
    head = msgspec.json.decode(item, type=TypeAndRole)
    if head.type != "message" or head.role != "user":
        return None
    texts = texts_of(item) or []
    if is_contextual("user", texts) or "".join(texts).startswith(SUMMARY_OPENING):
        return None
    left = [text for text in texts if not _is_image_tag(text)]
    if len(left) == len(texts) and left:
        return left
    parts = decode_value(item).get("content") or []
    if texts and not left and not any(part.get("type") == "input_image" for part in parts):
        return texts  # tags of no image are what the user wrote
    return left or [""] * bool(parts)


def _is_image_tag(text: str) -> bool:
    """Whether a text part is what the program puts around an image."""
    return text in ("<image>", "</image>") or (text.startswith("<image name=") and text.endswith(">"))
