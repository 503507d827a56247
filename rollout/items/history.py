"""The model-visible items, undecoded until they are touched.

Numbers of any length and key order survive, as nothing is decoded and encoded again. An item that has a line of its
own has the label of that; one that a compaction put into the history has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import msgspec
from msgspec import Raw

from rollout.format import labels
from rollout.format.strict_json import decode_value
from rollout.items.events import Dialect, Entry
from rollout.items.kinds import Item, TypeAndRole, texts_of


class History(Sequence[Item]):
    """Items, oldest first; each decodes when touched, anew each time.

    `raw(i)` gives the item's JSON as it was recorded. Equal to any sequence of equal items.
    """

    __slots__ = ("_entries", "dialect", "summaries")

    def __init__(self, entries: Sequence[Entry], dialect: Dialect, summaries: Iterable[str] = ()) -> None:
        self._entries, self.dialect = entries, dialect
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
            return History(self._entries[index], self.dialect, self.summaries)
        item: Item = decode_value(self.dialect.item_of(self._entries[index]))
        return item

    def __iter__(self) -> Iterator[Item]:
        for entry in self._entries:
            yield decode_value(self.dialect.item_of(entry))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | bytes) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, so as unhashable as they are

    def __repr__(self) -> str:
        return f"<History of {len(self)} items>"

    def select(self, indices: Iterable[int]) -> History:
        """The items at those places, in that order."""
        return History([self._entries[i] for i in indices], self.dialect, self.summaries)

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
        item = self.dialect.item_of(self._entries[index])
        head = msgspec.json.decode(item, type=TypeAndRole)
        if head.type != "message" or head.role != "user":
            return False
        texts = texts_of(item)
        return "\n".join(texts) in self.summaries or any(map(self.dialect.is_summary, texts))

    def raw(self, index: int) -> bytes:
        """The JSON of one item, byte for byte as it was recorded."""
        return bytes(self.dialect.item_of(self._entries[index]))


def entries_of(history: History) -> Sequence[Entry]:
    """Where its items come from: lines, and JSON of items that have no line of their own."""
    return history._entries
