"""What each line of a log calls itself: the type of the record and that of its payload, a small number a line.

A log has few kinds of records and many lines. Numbers are noted newest first, one for each record, each stretch of
damaged bytes and each blank line, in the order in which a collector that traces takes them.
"""

from __future__ import annotations

from array import array

NAME_CHARACTERS = 200
"""Longer types are cut at that: a name is held as long as the log is explained."""


class Numbers(dict[str | None, int]):
    """The number of each type of payload, in records of one type; a new one gets the next."""

    def __init__(self, type: str, named: list[tuple[str | None, str | None]]) -> None:
        self._type, self._named = type, named

    def __missing__(self, kind: str | None) -> int:
        if kind is not None and len(kind) > NAME_CHARACTERS:
            return self[kind[:NAME_CHARACTERS]]
        number = self[kind] = len(self._named)
        self._named.append((self._type, kind))
        return number


class Types(dict[str, Numbers]):
    """The numbers of the records of each type."""

    def __init__(self, named: list[tuple[str | None, str | None]]) -> None:
        self._named = named

    def __missing__(self, type: str) -> Numbers:
        if len(type) > NAME_CHARACTERS:
            return self[type[:NAME_CHARACTERS]]
        self[type] = Numbers(type, self._named)
        return self[type]


class Names:
    """The type and the kind of every line, as in `Record`; neither for what is no record."""

    def __init__(self) -> None:
        self.numbers = array("I")
        """Newest first."""
        self.named: list[tuple[str | None, str | None]] = [(None, None)]
        """By number; 0 is no record."""
        self._types = Types(self.named)
        self.noting = self.numbers.append, self._types.__getitem__
        """What notes a number, and the numbers of the records of a type."""

    def note(self, type: str, kind: str | None) -> None:
        """One record, older than all before."""
        self.numbers.append(self._types[type][kind])

    def note_nothing(self) -> None:
        """Bytes that are no record, older than all before."""
        self.numbers.append(0)
