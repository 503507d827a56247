"""Numbers of tokens, and what one record or a whole log tells of them."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple

_MOST_IN_SUM = 1 << 62  # what the encodings of numbers hold


class Tokens(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Numbers of tokens. `cached` ones are among the input, `reasoning` ones among the output."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(min(a + b, _MOST_IN_SUM) for a, b in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: Tokens | None) -> Tokens:
        """What was spent from one running total to this one."""
        if before is None or self.total < before.total:
            return self
        return Tokens(*(max(0, a - b) for a, b in zip(astuple(self), astuple(before), strict=True)))


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What one record says of tokens: the running totals, those of the last request, the window of the model."""

    totals: Tokens | None
    last: Tokens | None
    window: int | None
    is_record: bool = False
    """It is of the newer kind, which compactions have, too."""

    def since(self, before: Tokens | None) -> Tokens:
        """What was spent since the totals were those `before`; where they are not known, by the last request.

        Totals that are those of the last request alone begin anew.
        """
        if self.totals is None or (before is None and self.last is not None):
            return self.last or Tokens()
        return self.totals if self.last == self.totals != before else self.totals.since(before)

    @property
    def context_tokens(self) -> int | None:
        """What the last request took of the window, its answer included."""
        return None if self.last is None or not self.last.total else self.last.total


class TokenNote(msgspec.Struct, frozen=True, gc=False):
    """What the ledger needs to know of one record."""

    time: str | None
    thread: str | None = None
    """Of whom, in the record that describes the session."""
    turn_id: str | None = None
    model: str | None = None
    reading: Reading | None = None
