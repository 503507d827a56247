"""What is said of entries of a log: the records that take them out, and the items that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from rollout.adapters.agents.opaque import item_of, plain_items_of
from rollout.dialects.codex import encoder
from rollout.files.encrypted.lines import ordinal_of
from rollout.fold.history import AgentLine, Entry


def nothing() -> encoder.Part:
    """The compaction that leaves no item."""
    return encoder.Part("compacted", encoder.encode({"message": "", "replacement_history": []}))


def removal(count: int) -> encoder.Part:
    """Takes the newest items out."""
    return encoder.event("items_removed", {"num_items": count})


def can_be_copied(entry: Entry) -> bool:
    """Whether a second line of an item says the same: it has one of its own, without a number."""
    return not isinstance(entry, Raw | AgentLine) and ordinal_of(entry) is None


def decoded(entries: Sequence[Entry]) -> list[Any]:
    """The items."""
    lines = [entry for entry in entries if not isinstance(entry, Raw | AgentLine)]
    found = plain_items_of(lines) if lines and len(lines) == len(entries) else None
    return [item_of(entry) for entry in entries] if found is None else found
