"""S3: the history while it is folded forward, oldest record first.

A compaction of the old kind leaves the users' texts up to a limit, newest first, and a summary, which the next one
takes for a user's text again. What one has kept is not looked at again by the next: only its oldest texts can be too
many then, and they are taken off from that side. So a log with many of them costs no more than its lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rollout.items.dialect import Entry
from rollout.items.kinds import plain_user_message
from rollout.items.truncation import cut_texts
from rollout.limits import BYTES_PER_TOKEN, LEGACY_COMPACTION_USER_TOKENS


class _Kept(NamedTuple):
    """A user's texts that a compaction has kept, as a message."""

    entry: Entry
    tokens: int
    is_cut: bool = False


class Folded:
    """A history as it stands. None among what is added stands for an item that is no user's message, not held."""

    def __init__(self, user_texts: Callable[[Entry], list[str] | None]) -> None:
        self._user_texts = user_texts
        self._kept: deque[_Kept] = deque()  # by the newest compaction of the old kind
        self._kept_tokens = 0
        self._since: list[Entry | None] = []  # what came behind it

    def __iter__(self) -> Iterator[Entry]:
        yield from (kept.entry for kept in self._kept)
        yield from (entry for entry in self._since if entry is not None)

    def add(self, entries: Iterable[Entry | None]) -> None:
        """Items that come behind all others."""
        self._since += entries

    def remove(self, count: int) -> None:
        """Take the newest `count` items out."""
        from_since = min(count, len(self._since))
        del self._since[len(self._since) - from_since :]
        for _ in range(min(count - from_since, len(self._kept))):
            self._kept_tokens -= self._kept.pop().tokens

    def replace(self, entries: Iterable[Entry]) -> None:
        """Other items stand in the place of all."""
        self._kept.clear()
        self._kept_tokens = 0
        self._since = list(entries)

    def compact(self, summary: str) -> None:
        """A compaction without items of its own: the users' texts that fit, and what it says itself."""
        left = LEGACY_COMPACTION_USER_TOKENS
        chosen: list[_Kept] = []
        for entry in reversed(self._since):
            if left <= 0:
                break
            found = self._judge(entry, left)
            if found is not None:
                chosen.append(found[0])
                left -= found[1]
        self._fit_kept(left)
        self._kept.extend(reversed(chosen))
        self._kept_tokens += sum(kept.tokens for kept in chosen)
        self._since = [plain_user_message([summary])]

    def _fit_kept(self, left: int) -> None:
        """Take off what does not fit into so many tokens, from the oldest on; the last that is too long is cut."""
        kept = self._kept
        if kept and kept[0].is_cut:  # which can make of it a message that counts as another, or as none
            self._replace_oldest(self._judge(kept[0].entry, None))
        while kept and self._kept_tokens - kept[0].tokens >= left:
            self._kept_tokens -= kept.popleft().tokens
        if kept and self._kept_tokens > left:
            self._replace_oldest(self._judge(kept[0].entry, left - (self._kept_tokens - kept[0].tokens)))

    def _replace_oldest(self, judged: tuple[_Kept, int] | None) -> None:
        self._kept_tokens -= self._kept.popleft().tokens
        if judged is not None:
            self._kept.appendleft(judged[0])
            self._kept_tokens += judged[0].tokens

    def _judge(self, entry: Entry | None, left: int | None) -> tuple[_Kept, int] | None:
        """What a compaction keeps of an entry if so many tokens are left, and how many it takes; None for nothing."""
        texts = None if entry is None else self._user_texts(entry)
        if texts is None:
            return None
        tokens = _tokens_of(texts)
        if left is None or tokens <= left:
            return _Kept(plain_user_message(texts), tokens), tokens
        cut = cut_texts(texts, left * BYTES_PER_TOKEN, "tokens")
        return _Kept(plain_user_message(cut), _tokens_of(cut), is_cut=True), tokens


def _tokens_of(texts: list[str]) -> int:
    return -(-sum(len(text.encode()) for text in texts) // BYTES_PER_TOKEN)
