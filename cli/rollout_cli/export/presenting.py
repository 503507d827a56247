"""What a record says to people: who says it, its text without secrets, its images; what became of it, in words."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import rollout
from rollout_cli.export.chronicle import SEEN, Entry
from rollout_cli.items import SUMMARY, describe, is_known, texts

_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_TIME = re.compile(r"[0-9:.TZ+-]{1,40}")
_UNTOLD = frozenset({"id", "call_id", "turn_id", "internal_chat_message_metadata_passthrough"})
_STATUSES = {
    "replaced": "replaced by line",
    "rolled_back": "taken back by line",
    "removed": "removed by line",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """One record for people: `kind` is user, assistant, call, output, compaction, note, … (in one word, of ours).

    `label` is the same as it is recorded. `parts` are the items that a compaction put into the history.
    """

    kind: str
    label: str
    text: str
    time: str | None
    images: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


class Presenter:
    """Tells records, their secrets masked by the redactor (None: as they are).

    A record is masked as a value, as the forms for programs mask it, before any words are made of it: what is masked
    does not depend on the form.
    """

    def __init__(self, redactor: rollout.Redactor | None, *, images: bool = False) -> None:
        self._redactor, self._images = redactor, images

    @staticmethod
    def presents(explained: rollout.Explained) -> bool:
        """Whether a line may say something: `present` gives None for all others but the damaged ones."""
        if explained.type in _ITEM_RECORDS:
            return explained.status in SEEN
        return explained.type == "compacted" or (explained.type == "event_msg" and explained.kind in _NOTES)

    def present(self, entry: Entry) -> Shown | None:
        """None for what says nothing that is not shown elsewhere."""
        record = entry.record
        if entry.explained.status == "damaged":
            return Shown("note", "damaged", f"damaged: {self.clean(str(entry.explained.reason))}", None)
        if record is None or record.is_damaged:
            return None
        if record.type == "compacted":
            return self._compaction(self._value(record))
        if entry.explained.status in SEEN and record.type in _ITEM_RECORDS:
            return self._item(record.type, self._value(record))
        if record.type == "event_msg" and record.kind in _NOTES:
            return self._note(str(record.kind), self._value(record))
        return None

    def _value(self, record: rollout.Record) -> Any:
        """The record without secrets, and without names that nobody is shown: each is new, and costs a look."""
        value = record.value
        if self._redactor is None:
            return value
        inner = value.get("payload", value)
        if isinstance(inner, dict) and is_known(inner):
            inner = {key: found for key, found in inner.items() if key not in _UNTOLD}
            if "encrypted_content" in inner:
                inner["encrypted_content"] = bool(inner["encrypted_content"])  # only that there is some is shown
        inner = self._redactor.value(inner)
        time = value.get("timestamp")
        plain = time if isinstance(time, str) and _TIME.fullmatch(time) else self._redactor.value(time)
        return {"timestamp": plain, "payload": inner} if "payload" in value else {**inner, "timestamp": plain}

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return text if self._redactor is None else self._redactor.text(text)

    def peek(self, text: str) -> str:
        """The same of a text that is shown a second time: not counted again."""
        return text if self._redactor is None else rollout.Redactor().text(text)

    def _item(self, type: str, value: Any) -> Shown:
        item: Any = value.get("payload", value)
        if type == "inter_agent_communication" and isinstance(item, dict):
            item = {**item, "type": "agent_message"}
        described = describe(item)
        kind = _KINDS.get(described.label, "item")
        if kind == "developer" or rollout.is_program_message(item):
            kind = "context"
        found = tuple(_images(item)) if self._images else ()
        return Shown(kind, described.label, described.text, _time(value), found)

    @staticmethod
    def _compaction(value: Any) -> Shown:
        payload = value.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        items = payload.get("replacement_history")
        given = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        described = [describe(item, left_by=payload.get("message")) for item in given]
        parts = tuple((each.label, each.text) for each in described)
        return Shown("compaction", "compacted", texts(payload.get("message")), _time(value), (), parts)

    @staticmethod
    def _note(kind: str, value: Any) -> Shown | None:
        key, words = _NOTES[kind]
        found = value["payload"].get(key)
        shown = "" if found is None else found if isinstance(found, str) else texts(found)
        return Shown("note", kind, words.format(shown), _time(value))


_ITEM_RECORDS = frozenset({"response_item", "inter_agent_communication"})
_KINDS = {
    **{label: label for label in "user assistant call output reasoning agent image compaction developer".split()},
    SUMMARY: "compaction",
}
"""The kinds of items by their labels."""
_NOTES = {
    "thread_rolled_back": ("num_turns", "turns taken back: {}"),
    "items_removed": ("num_items", "items removed: {}"),
    "turn_aborted": ("reason", "the turn ended: {}"),
    "error": ("message", "error: {}"),
    "entered_review_mode": ("user_facing_hint", "review begins {}"),
    "exited_review_mode": ("-", "review ends {}"),
}


def status_words(explained: rollout.Explained) -> str:
    """What became of a line, in words; empty for what is as it was."""
    words = []
    if explained.status in _STATUSES:
        words.append(f"{_STATUSES[explained.status]} {explained.by}")
    if explained.inherited is not None:
        words.append(f"inherited from {explained.inherited}")
    return ", ".join(words)


def _time(value: Mapping[str, Any]) -> str | None:
    time = value.get("timestamp")
    return time if isinstance(time, str) else None


def _images(value: object) -> Iterator[str]:
    """The pictures of an item that are there as bytes."""
    if isinstance(value, str):
        if _IMAGE.fullmatch(value):
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from _images(each)
    elif isinstance(value, dict):
        if value.get("type") == "image_generation_call" and isinstance(value.get("result"), str):
            yield from _images(f"data:image/png;base64,{value['result']}")
        for each in value.values():
            yield from _images(each)
