"""Identifiers: where they come from and what they look like.

A thread id and a turn id are UUIDs of version 7 (RFC 9562) when this project makes them; foreign ids are any string.
File names are made here and nowhere else, from ids and a time, never from data.
"""

from __future__ import annotations

import datetime
import functools
import re
import threading
import uuid
from typing import NamedTuple, NewType

ThreadId = NewType("ThreadId", str)
TurnId = NewType("TurnId", str)
SessionId = NewType("SessionId", str)
FileId = NewType("FileId", str)

_NAMESPACE = uuid.UUID("6f1c7d0e-52a8-5b0e-9d3f-2b1f0c9a7e11")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID_ANY_CASE = _UUID.replace("a-f", "a-fA-F")
_UUID_VALUE = re.compile(_UUID_ANY_CASE.replace("-[", "-?["))
_ZERO_UUID = str(uuid.UUID(int=0))
_NAME = re.compile(
    r"rollout-(?P<time>[0-9]{4}(?:-[0-9]{2}){2}T[0-9]{2}(?:-[0-9]{2}){2})"
    rf"-(?P<thread>{_UUID_ANY_CASE})(?:_(?P<part>{_UUID_ANY_CASE}))?\.jsonl(?P<sealed>\.zst)?",
)


class Uuid7:
    """Makes UUIDs of version 7 that grow strictly within one process; `random_bytes(n)` gives the rest.

    48 bits of Unix milliseconds, 12 bits of counter, 62 bits of randomness: unique over processes and resumes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def make(self, unix_ms: int, randomness: bytes) -> str:
        """A new id for the time `unix_ms`; `randomness` is 10 bytes. A clock that goes back does not reorder ids."""
        bits = int.from_bytes(randomness[:10], "big")
        with self._lock:
            ms, counter = self._last
            if unix_ms > ms:
                ms, counter = unix_ms, bits >> 69  # 11 of 12 counter bits random: room to count up
            else:
                counter += 1
                if counter > 0xFFF:
                    ms, counter = ms + 1, 0
            self._last = (ms, counter)
        value = (ms & (1 << 48) - 1) << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | bits & (1 << 62) - 1
        return str(uuid.UUID(int=value))


def derived_turn_id(thread: str, offset: int) -> TurnId:
    """The id of an implicit turn (S1): a version 5 UUID of the thread and the byte offset of its boundary."""
    return TurnId(str(uuid.uuid5(_NAMESPACE, f"{thread}:{offset}")))


def file_name(thread: ThreadId, created: datetime.datetime, *, part: str | None = None, sealed: bool = False) -> str:
    """`rollout-<time>-<thread>.jsonl`; with `part`, the file of a revert."""
    suffix = "" if part is None else f"_{part}"
    name = f"rollout-{created:%Y-%m-%dT%H-%M-%S}-{thread}{suffix}.jsonl{'.zst' if sealed else ''}"
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"not an id for a file name: {thread!r}")
    return name


def is_thread_id(text: str) -> bool:
    """Whether a text looks like the thread id of a file's name: a UUID in small letters."""
    return re.fullmatch(_UUID, text) is not None


def begins_thread_id(text: str) -> bool:
    """Whether a thread id could begin with that text."""
    return bool(text) and re.fullmatch(_UUID, text + _ZERO_UUID[len(text) :]) is not None


def file_id_of(text: str) -> FileId | None:
    """The id of a file that a text spells, in any case and with or without hyphens; None if it is no UUID."""
    return FileId(str(uuid.UUID(text))) if _UUID_VALUE.fullmatch(text) else None


def day_of(id: str) -> datetime.date | None:
    """The day (UTC) on which a UUID of version 7 was made; None for any other text."""
    if not is_thread_id(id) or id[14] != "7":
        return None
    try:
        return datetime.datetime.fromtimestamp(int(id[:8] + id[9:13], 16) / 1000, datetime.UTC).date()
    except (ValueError, OverflowError, OSError):
        return None  # later than any calendar


class NameParts(NamedTuple):
    """What a rollout's file name says: `time` (its text), `thread`, `part` (of a revert, or None), `sealed`.

    Ids are in small letters, however the name has them.
    """

    time: str
    thread: ThreadId
    part: str | None
    sealed: bool

    @property
    def file(self) -> FileId:
        """The id of the file, by which others name it as their base: the last UUID of the name."""
        return FileId(self.part or self.thread)


@functools.lru_cache(maxsize=1 << 14)  # a home is looked over again and again
def parse_file_name(name: str) -> NameParts | None:
    """The parts of a rollout's file name, or None if it is not one."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    time, thread, part, sealed = found.groups()
    return NameParts(time, ThreadId(thread.lower()), None if part is None else part.lower(), sealed is not None)
