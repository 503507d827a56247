"""The proof that a rollout file which is to take the place of another one says the same.

The *fingerprint* of a file is what a reader learns of it: history (from which the prompt follows), previous model,
reference context in its three states, world state, token usage, session, thread id, and the turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path

from rollout.errors import Conflict, WriteError
from rollout.files.disk import AppendFile, FileSystem
from rollout.files.port import explained
from rollout.files.source import Origin
from rollout.files.writer import holder
from rollout.fold.projection import ContextBaseline
from rollout.fold.turn_list import Turn
from rollout.session.state import read_state


class Proof:
    """What the file of `origin` says now, before another one takes its place."""

    def __init__(self, origin: Origin) -> None:
        self._origin, self._before = origin, fingerprint(origin)

    def check(self, new: Path, what: str, *, is_damaged: bool) -> None:
        """WriteError if the file at `new`, read as if it stood in the place, says anything else, or `is_damaged`."""
        after = fingerprint(dataclasses.replace(self._origin, at=new))
        changed = [name for name, value in self._before.items() if after[name] != value]
        if changed or is_damaged:
            has = f"another {', '.join(changed)}" if changed else "damage of its own"
            why = f"cannot be {what}: the new file would have {has}"
            raise WriteError(why, path=self._origin.path, remedy="it was left as it is; it reads as well as it can")


def fingerprint(origin: Origin) -> dict[str, object]:
    """What a file says, by the names of what it tells."""
    state = read_state(origin)
    history = hashlib.sha256()
    for i in range(len(state.history)):
        item = state.history.raw(i).strip()  # a bare item is its whole line
        history.update(b"%d:%b" % (len(item), item))
    told = state.reference
    return {
        "history": (len(state.history), history.digest()),
        "previous model": state.previous_model,
        "reference context": bytes(told.raw) if isinstance(told, ContextBaseline) else type(told),
        "world state": state.world_state,
        "token usage": state.token_usage,
        "session": state.session,
        "thread id": state.thread_id,
        "turns": [_describe(turn) for turn in state.all_turns],
    }


def _describe(turn: Turn) -> object:
    """A turn wherever its bytes lie: derived turn ids go with byte offsets, so they are left out."""
    own_id = None if turn.derived else turn.id
    return own_id, turn.status, turn.stands, turn.started, turn.ended, turn.model, turn.user, turn.item_count


@contextlib.contextmanager
def locked(fs: FileSystem, path: Path, what: str) -> Iterator[AppendFile]:
    """The file under the writer's lock. What the system refuses, here or inside, is a WriteError: it cannot be `what`.

    Locked if somebody else holds it, NotFound.
    """
    with explained(path, what), contextlib.closing(fs.open_append(path)) as file:
        file.lock(holder(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"))
        yield file


def check_unwritten(file: AppendFile, size: int, path: Path) -> None:
    """Conflict if a locked file has another size than it had."""
    if file.size() != size:
        raise Conflict("somebody writes to it without a lock", path=path, remedy="end that program, try again")
