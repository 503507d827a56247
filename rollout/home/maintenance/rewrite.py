"""A rollout file that is written anew beside the old one, the proof that both say the same, and their exchange.

The *fingerprint* of a file is what a reader learns of it: history (from which the prompt follows), previous model,
reference context in its three states, world state, token usage, session, thread id, and the turns as `describe` tells
of them. A file can be read as if it stood elsewhere (`at`), and as if more lines stood at its end (`more`): so the
state after a rollback that nobody has written yet can be compared too.

The new file is on the disk, and proven, before it takes the old one's name: a crash leaves the one or the other, and
perhaps a hidden part of the new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rollout.errors import Conflict, NotFound, WriteError
from rollout.files.disk import AppendFile, FileSystem
from rollout.files.lineage import AnyText, Lineage, open_path
from rollout.files.source import Origin
from rollout.files.writer import holder
from rollout.fold.engine import Reconstruction
from rollout.fold.projection import ContextBaseline
from rollout.format import lines
from rollout.limits import MIB
from rollout.session.state import State, Turn

Describe = Callable[[Turn], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Through(Origin):
    """The file that stands `at` some place of `fs`, with `more` behind it, read as if it stood at `path`."""

    at: Path = Path()
    more: bytes = b""

    @contextlib.contextmanager
    def opened(self) -> Iterator[Lineage]:
        """As `Origin.opened`."""
        first = open_path(self.at, fs=self.fs, keys=self.keys, limits=self.limits)
        first.path = self.path
        if self.more:
            first.source = _Followed(first.source, self.more)
        lineage = Lineage(first, home=self.home, fs=self.fs, keys=self.keys, limits=self.limits)
        with contextlib.closing(lineage):
            yield lineage


class _Followed(lines.BytesSource):
    """The text of a file, with some bytes behind it that nobody has written."""

    def __init__(self, source: AnyText, more: bytes) -> None:
        super().__init__(more)
        self._source, self._end = source, source.size

    @property
    def size(self) -> int:
        return self._end + len(self.data)

    def read_at(self, offset: int, n: int, /) -> bytes:
        own = self._source.read_at(offset, min(n, self._end - offset)) if offset < self._end else b""
        start = max(offset - self._end, 0)
        return own + bytes(self.data[start : max(offset + n - self._end, 0)])


def fingerprint(origin: Origin, describe: Describe | None) -> dict[str, object]:
    """What a file says. Without `describe` the turns are left out, and the file is read no further than it needs."""
    with origin.opened() as lineage:
        answer = Reconstruction(lineage, limits=origin.limits).run()
    state = State(origin, answer, 0, ())
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
        "turns": None if describe is None else [describe(turn) for turn in state.all_turns],
    }


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """The names of what two fingerprints say differently."""
    return [name for name, value in before.items() if after[name] != value]


def describe_placeless(turn: Turn) -> object:
    """A turn wherever its bytes lie: derived turn ids go with byte offsets, so they are left out."""
    own_id = None if turn.derived else turn.id
    return own_id, turn.status, turn.stands, turn.started, turn.ended, turn.model, turn.user, turn.item_count


def refuse_changed(path: Path, changed: list[str]) -> None:
    """WriteError if anything would be `changed`, by its names."""
    if changed:
        raise WriteError(f"would have another {', '.join(changed)}: it was left as it is", path=path)


@contextlib.contextmanager
def locked(fs: FileSystem, path: Path, what: str) -> Iterator[AppendFile]:
    """The file under the writer's lock. What the system refuses, here or inside, is a WriteError: it cannot be `what`.

    Locked if somebody else holds it, NotFound.
    """
    try:
        with contextlib.closing(fs.open_append(path)) as file:
            file.lock(holder(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"))
            yield file
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound("there is no such file", path=path, remedy="check the path") from error
    except PermissionError as error:
        remedy = "check the permissions of it and its directory"
        raise WriteError("may not be written", path=path, remedy=remedy) from error
    except OSError as error:
        remedy = "mend what the system complains of, then try again"
        raise WriteError(f"cannot be {what}: {error.strerror}", path=path, remedy=remedy) from error


def replace(
    fs: FileSystem,
    file: AppendFile,
    path: Path,
    new: Path,
    pieces: Iterable[bytes],
    prove: Callable[[], None],
    *,
    size: int,
    mtime_ns: int | None = None,
) -> None:
    """A file of these `pieces`, written at `new` as `write` does, takes the place of the locked `file` at `path`.

    `prove` is called in between, and raises what stands against it. Conflict if the old file is no longer of the `size`
    that it had when the pieces were made of it; OSError: nothing has changed, and the file at `new` is gone. WriteError
    if it did take the place, and nobody can say that it keeps it.
    """
    unlink(fs, new)  # of one that a crash cut short
    try:
        write(fs, new, pieces, mtime_ns=mtime_ns)
        prove()
        if file.size() != size:
            raise Conflict("somebody writes to it without a lock", path=path, remedy="end that program, try again")
        fs.rename(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unlink(fs, new)
        raise
    try:
        fs.sync_dir(path.parent)
    except OSError as error:
        what = f"is the new file, but its directory could not be put on the disk: {error.strerror}"
        raise WriteError(what, path=path, remedy="a crash may bring the old file back; do it again then") from error


def write(fs: FileSystem, path: Path, pieces: Iterable[bytes], *, mtime_ns: int | None = None) -> None:
    """A new file (0600), its bytes on the disk; last written at `mtime_ns`, if that is given. OSError."""
    with contextlib.closing(fs.open_append(path, create=True)) as file:
        held = bytearray()
        for piece in pieces:
            held += piece
            if len(held) >= MIB:
                file.append(bytes(held))
                held.clear()
        if held:
            file.append(bytes(held))
        if mtime_ns is not None:
            file.set_mtime(mtime_ns)
        file.sync()


def unlink(fs: FileSystem, *paths: Path) -> None:
    """Removes the files that are there."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(path)
