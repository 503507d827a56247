"""Tokens: what a log says was spent, on which day and by which model, each token once.

Programs write running totals (token_count, token_usage_record), often the same twice, and a fork goes on with those of
its source. So what a record adds is what it exceeds the total before it by, wherever that stands (see `Running`); a
total that is lower begins anew. What a rollback takes back was spent even so. What a fork holds of its source was spent
there: a base is not its own, and of a copy, neither are the turns that are older than the thread. The times tell where
turns have no ids that do: a copy is written in one moment.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

import msgspec

from rollout.items.tokens import Reading, TokenNote, Tokens

_COPYING = datetime.timedelta(seconds=2)
_UUID7 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class TokenSpend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one model was paid on one day (UTC; None: not known), in so many requests."""

    day: str | None
    model: str | None
    requests: int
    tokens: Tokens


class Running(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far the running totals of a log have come.

    There are two: those of token_counts miss what compactions ask, which the newer token_usage_records tell, too. Where
    a request has a record, the count behind it adds nothing.
    """

    counted: Tokens | None = None
    recorded: Tokens | None = None
    is_told: bool = False
    """A record has no count behind it yet."""

    def after(self, reading: Reading) -> tuple[Tokens, Running]:
        """What a reading that has totals adds, and how far they are then."""
        if not reading.is_record:
            added = Tokens() if self.is_told else reading.since(self.counted)
            return added, Running(reading.totals, self.recorded)
        added = reading.since(self.recorded or self.counted)
        if self.recorded is None and reading.last is not None and reading.last.total < added.total:
            added = reading.last  # the counts before it have missed something
        return added, Running(self.counted, reading.totals, True)


class Ledger(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was spent by a file's own records up to some point, and what must be known to go on."""

    spent: tuple[TokenSpend, ...] = ()
    """By day and model, sorted."""
    running: Running = Running()
    model: str | None = None
    thread: str | None = None
    born: str | None = None
    """When the file's own session_meta was written."""
    copies: bool = False
    """A session_meta of another thread stands in the file."""
    is_older: bool | None = None
    """Whether the turn is older than the thread; None where its id does not tell."""

    def after(self, notes: Iterator[TokenNote]) -> Ledger:
        """The ledger after more records, oldest first."""
        rows = {(row.day, row.model): (row.requests, row.tokens) for row in self.spent}
        now = self
        for note in notes:
            if note.reading is None or note.reading.totals is None:
                now = now._turned(note)
                continue
            added, running = now.running.after(note.reading)
            if added.total and not now._is_copied(note):
                key = day_of(note.time), now.model
                requests, tokens = rows.get(key, (0, Tokens()))
                rows[key] = requests + 1, tokens + added
            now = msgspec.structs.replace(now, running=running)
        spent = tuple(
            TokenSpend(*key, *rows[key]) for key in sorted(rows, key=lambda key: (key[0] or "", key[1] or ""))
        )
        return msgspec.structs.replace(now, spent=spent)

    def _turned(self, note: TokenNote) -> Ledger:
        now = self
        if note.thread is not None:
            if now.thread is None:
                now = msgspec.structs.replace(now, thread=note.thread, born=note.time)
            elif now.thread != note.thread:
                now = msgspec.structs.replace(now, copies=True)
        if note.model is not None:
            now = msgspec.structs.replace(now, model=note.model)
        if note.turn_id is not None:
            turn_ms, thread_ms = _made_ms(note.turn_id), _made_ms(now.thread)
            is_older = None if turn_ms is None or thread_ms is None else turn_ms < thread_ms
            now = msgspec.structs.replace(now, is_older=is_older)
        return now

    def _is_copied(self, note: TokenNote) -> bool:
        if not self.copies or self.is_older is not None:
            return self.copies and bool(self.is_older)
        born, written = _moment(self.born), _moment(note.time)
        return born is not None and written is not None and written - born <= _COPYING


def day_of(time: str | None) -> str | None:
    """The day, in UTC, that a recorded time lies in; None where it tells none."""
    if time is not None and time.endswith("Z") and _DAY.match(time) and time[10:11] == "T":
        return time[:10]
    moment = _moment(time)
    return None if moment is None else moment.date().isoformat()


def seconds_between(begin: str | None, end: str | None) -> float | None:
    """What lies between two recorded times; None where one is not told or they are the wrong way round."""
    first, last = _moment(begin), _moment(end)
    return None if first is None or last is None or last < first else (last - first).total_seconds()


def _moment(time: str | None) -> datetime.datetime | None:
    if time is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(time)
        return found.replace(tzinfo=datetime.UTC) if found.tzinfo is None else found.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def _made_ms(id: str | None) -> int | None:
    """When a UUID of version 7 was made, in Unix ms."""
    found = None if id is None else _UUID7.fullmatch(id)
    return None if found is None else int(found[1] + found[2], 16)
