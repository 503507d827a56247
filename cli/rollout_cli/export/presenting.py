"""What a record says to people: who says it, its text without secrets, its images; what became of it, in words."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import rollout
from rollout_cli.items import SUMMARY, describe, is_known

SEEN = frozenset({"visible", "replaced", "rolled_back", "removed"})
"""The statuses of a line that the model sees or has seen."""
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_TIME = re.compile(r"[0-9:.TZ+-]{1,40}")
_UNTOLD = frozenset({"id", "call_id", "turn_id", "internal_chat_message_metadata_passthrough"})
_STATUSES = {"replaced": "replaced by line", "rolled_back": "taken back by line", "removed": "removed by line"}
_KINDS = {
    **{label: label for label in "user assistant call output reasoning agent image compaction".split()},
    SUMMARY: "compaction",
    "developer": "context",
}
"""The kinds of items by their labels."""
_NOTES = {
    "rollback": "turns taken back: {}",
    "removal": "items removed: {}",
    "abort": "the turn ended: {}",
    "error": "error: {}",
    "review": "review begins {}",
    "review_end": "review ends {}",
}
"""What is said in a line of its own, by what is told."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """One record for people: `kind` is user, assistant, call, output, compaction, note, … (in one word, of ours).

    `label` is the same as it is recorded. `parts` are the items that a compaction put into the history.
    """

    kind: str
    label: str
    text: str
    time: str | None = None
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
    def presents(line: rollout.Explained) -> bool:
        """Whether a line says something that is not shown elsewhere: the record of another one is not to be read."""
        kind = _kind_of(line.type, line.kind)
        return line.status in SEEN if kind == "item" else kind == "compaction" or kind in _NOTES

    def present(self, line: rollout.Explained, record: rollout.Record | None) -> Shown | None:
        """A line of which a record was read, or a damaged one; None for another."""
        if line.status == "damaged":
            return Shown("note", "damaged", f"damaged: {self.clean(str(line.reason))}")
        if record is None or record.is_damaged:
            return None
        payload, time = self._masked(record)
        told = rollout.tell(record.type, record.kind, payload)
        if told.kind == "item":
            return self._item(payload if "type" in payload else {"type": "agent_message", **payload}, time)
        if told.kind != "compaction":
            return Shown("note", told.kind, _NOTES[told.kind].format(told.text), time)
        given = [describe(item, left_by=told.text) for item in told.items or () if isinstance(item, dict)]
        return Shown("compaction", record.type, told.text, time, parts=tuple((each.label, each.text) for each in given))

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return text if self._redactor is None else self._redactor.text(text)

    def peek(self, text: str) -> str:
        """The same of a text that is shown a second time: not counted again."""
        return text if self._redactor is None else rollout.Redactor().text(text)

    def _masked(self, record: rollout.Record) -> tuple[Any, str | None]:
        """Payload and time, without secrets, and without names that nobody is shown: each is new, and costs a look."""
        payload, time = record.payload, record.timestamp
        if self._redactor is None:
            return payload, time
        if isinstance(payload, dict) and is_known(payload):
            payload = {key: found for key, found in payload.items() if key not in _UNTOLD}
            if "encrypted_content" in payload:
                payload["encrypted_content"] = bool(payload["encrypted_content"])  # only that there is some is shown
        if time is not None and not _TIME.fullmatch(time):
            time = self._redactor.text(time)
        return self._redactor.value(payload), time

    def _item(self, item: Mapping[str, Any], time: str | None) -> Shown:
        described = describe(item)
        kind = "context" if rollout.is_program_message(item) else _KINDS.get(described.label, "item")
        found = tuple(_images(item)) if self._images else ()
        return Shown(kind, described.label, described.text, time, found)


@functools.lru_cache
def _kind_of(type: str | None, kind: str | None) -> str:
    return rollout.tell(type, kind).kind


def status_words(line: rollout.Explained) -> str:
    """What became of a line, in words; empty for what is as it was."""
    words = [f"{_STATUSES[line.status]} {line.by}"] if line.status in _STATUSES else []
    return ", ".join([*words, *([] if line.inherited is None else [f"inherited from {line.inherited}"])])


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
        yield from _images(list(value.values()))
