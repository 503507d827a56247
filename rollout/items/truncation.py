"""Texts cut in the middle, so that both ends stay and it is said how much is missing.

The cuts and the wording are those of Codex 0.169: half of the budget for the beginning, the rest for the end, both
moved inward to a character's edge; 4 bytes are taken for a token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

from rollout.limits import BYTES_PER_TOKEN

Mode = Literal["bytes", "tokens"]
_INSIDE = bytes(range(0x80, 0xC0))
"""The bytes of a character behind its first one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation policy: the most that a tool output may take, in bytes or in tokens (of 4 bytes)."""

    mode: Mode
    limit: int

    @property
    def budget_bytes(self) -> int:
        return self.limit * BYTES_PER_TOKEN if self.mode == "tokens" else self.limit


def cut_text(text: str, budget_bytes: int, mode: Mode) -> str:
    """`text` if it fits into the budget, else its beginning, a marker, its end."""
    return "".join(cut_texts([text], budget_bytes, mode))


def cut_texts(texts: Sequence[str], budget_bytes: int, mode: Mode) -> list[str]:
    """The same over several texts, seen as one: the parts of the beginning, the marker, the parts of the end."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    total = sum(map(len, encoded))
    if total <= budget_bytes:
        return list(texts)
    begin = [_whole_characters(part) for part in _take(encoded, budget_bytes // 2)]
    left = _take((part[::-1] for part in reversed(encoded)), budget_bytes - budget_bytes // 2)
    end = [part[::-1].lstrip(_INSIDE).decode("utf-8", "surrogatepass") for part in reversed(left)]
    if mode == "tokens":
        removed = f"{-(-(total - budget_bytes) // BYTES_PER_TOKEN)} tokens"
    else:
        removed = f"{sum(map(len, texts)) - sum(map(len, begin)) - sum(map(len, end))} chars"
    return [part for part in [*begin, f"…{removed} truncated…", *end] if part]


def _take(parts: Iterable[bytes], budget_bytes: int) -> list[bytes]:
    taken = []
    for part in parts:
        if budget_bytes <= 0:
            break
        taken.append(part[:budget_bytes])
        budget_bytes -= len(part)
    return taken


def _whole_characters(data: bytes) -> str:
    """The text without the last character, if that was cut."""
    before = data.rstrip(_INSIDE)
    lead = before[-1] if before else 0
    size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    is_cut = len(before) - 1 + size != len(data)
    return (before[:-1] if is_cut else data).decode("utf-8", "surrogatepass")
