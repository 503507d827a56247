"""Texts cut in the middle, so that both ends stay and it is said how much is missing.

The cuts and the wording are those of Codex 0.169: half of the budget for the beginning, the rest for the end, both
moved inward to a character's edge; 4 bytes are taken for a token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from rollout.limits import BYTES_PER_TOKEN

Mode = Literal["bytes", "tokens"]


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
    left = _take(encoded, budget_bytes // 2)
    right = [part[::-1] for part in _take([part[::-1] for part in reversed(encoded)], budget_bytes - budget_bytes // 2)]
    begin = [_decode_front(part) for part in left]
    end = [_decode_back(part) for part in reversed(right)]
    if mode == "tokens":
        removed = f"{-(-(total - budget_bytes) // BYTES_PER_TOKEN)} tokens"
    else:
        removed = f"{sum(map(len, texts)) - sum(map(len, begin)) - sum(map(len, end))} chars"
    return [part for part in [*begin, f"…{removed} truncated…", *end] if part]


def _take(parts: Sequence[bytes], budget_bytes: int) -> list[bytes]:
    taken = []
    for part in parts:
        if budget_bytes <= 0:
            break
        taken.append(part[:budget_bytes])
        budget_bytes -= len(part)
    return taken


def _decode_front(data: bytes) -> str:
    return _strip_cut_character(data).decode("utf-8", "surrogatepass")


def _decode_back(data: bytes) -> str:
    begin = 0
    while begin < len(data) and data[begin] & 0xC0 == 0x80:
        begin += 1
    return data[begin:].decode("utf-8", "surrogatepass")


def _strip_cut_character(data: bytes) -> bytes:
    begin = len(data)
    while begin > 0 and data[begin - 1] & 0xC0 == 0x80:
        begin -= 1
    if begin == 0:
        return b""
    lead = data[begin - 1]
    length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    return data if begin - 1 + length == len(data) else data[: begin - 1]
