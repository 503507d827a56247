"""The one tree of exceptions.

    RolloutError                  every exception of this library
    ├── SourceError               a rollout could not be found or read at all
    │   ├── NotFound              no such file, thread, name or position
    │   ├── Ambiguous             a reference fits more than one rollout
    │   ├── NotARollout           a directory, a FIFO, a file of another kind
    │   ├── TooLarge              it holds more than `Limits` let a reader take in
    │   ├── NoKey                 it is encrypted, and the key that it names is not there
    │   └── WrongKey              the key that it names opens none of its lines
    ├── UsageError                an argument that can never be right
    ├── RecordError               a record that may not be written (bad JSON, bad key)
    └── WriteError                a write did not happen, or it is not known whether it did
        ├── Locked                another writer holds the rollout
        ├── Conflict              the log has moved past `expected_end`
        ├── Poisoned              an earlier write of this writer failed; reopen to recover
        ├── Displaced             another program moved, replaced or removed the open file
        ├── InUse                 forks still need the file
        └── Closed                the rollout or turn is closed

Damage *in data* is no exception: it is a `Damage` value that is collected and reported.
Every message is one line that says what is wrong, where (path and byte offset, where there is one) and what to do.
"""

from __future__ import annotations

from os import PathLike, fspath


class RolloutError(Exception):
    """Base of all. `path`, `offset` (bytes) and `remedy` are None where there is nothing to say."""

    message: str
    path: str | None
    offset: int | None
    remedy: str | None

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        offset: int | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.path = None if path is None else fspath(path)
        self.offset = offset
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path}: "
        at = "" if self.offset is None else f" (at byte {self.offset})"
        hint = "" if self.remedy is None else f"; {self.remedy}"
        return f"{where}{self.message}{at}{hint}"


class SourceError(RolloutError):
    """A rollout could not be found or read at all."""


class NotFound(SourceError):
    """No such file, thread, name or position."""


class Ambiguous(SourceError):
    """A reference fits more than one rollout."""


class NotARollout(SourceError):
    """A directory, a FIFO, a file of another kind."""


class TooLarge(SourceError):
    """It holds more text, or more lines, than `Limits` let a reader take in. By default they let it take in all."""


class NoKey(SourceError):
    """It is encrypted, and the key that it names is not there."""


class WrongKey(SourceError):
    """The key that it names opens none of its lines."""


class UsageError(RolloutError):
    """An argument that can never be right."""


class RecordError(RolloutError):
    """A record that may not be written."""


class WriteError(RolloutError):
    """A write did not happen, or it is not known whether it did.

    `durable_end` is the number of bytes from the start of the file that are known to be on the disk (None: unknown).
    """

    durable_end: int | None = None


class Locked(WriteError):
    """Another writer holds the rollout."""


class Conflict(WriteError):
    """The log has moved past `expected_end`."""


class Poisoned(WriteError):
    """An earlier write of this writer failed; only reopening recovers."""


class Displaced(WriteError):
    """The path does not name the file any more that is open for append: another program moved, replaced or removed it.

    `lines_at` is the file that holds all lines that were acknowledged; None if they could not be rescued yet.
    """

    lines_at: str | None = None


class InUse(WriteError):
    """Forks still need the file."""


class Closed(WriteError):
    """The rollout or turn is closed."""
