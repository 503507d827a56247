"""Who holds a lock: a note beside the locked file, which never decides anything."""

from __future__ import annotations

import dataclasses
import json

from rollout.errors import Locked


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Who writes: process, machine, and since when (text, as it is to be shown)."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    def encode(self) -> bytes:
        """The note in the lock file: one JSON object."""
        return json.dumps(dataclasses.asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, note: bytes) -> Holder | None:
        """The holder of a note; None for one that was not written whole."""
        try:
            found = json.loads(note)
            return cls(int(found["pid"]), str(found["host"]), str(found["since"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


def locked(path: str, holder: Holder | None) -> Locked:
    """The error for a lock that is taken."""
    who = "" if holder is None else f" ({holder})"
    return Locked(f"another writer holds it{who}", path=path, remedy="close it there, or read without a lock")
