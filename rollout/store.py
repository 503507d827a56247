"""A home full of rollouts: logs are made, opened and deleted here.

Names of files come from ids and the clock, never from data; files are 0600, directories 0700. A file that forks refer
to is not deleted, unless the forks are made to stand alone first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rollout import encoding
from rollout.encoding import Part
from rollout.errors import InUse, UsageError, WriteError
from rollout.log import Rollout, create_log, new_path, open_log, origin_of, read_log, refuse_sealed
from rollout.recorder import Ports
from rollout.storage import fork as forks
from rollout.storage import home as homes
from rollout.storage.fs import REAL, FileSystem, RealFileSystem
from rollout.storage.origin import locate
from rollout.storage.writer import Durability, holder

Reference = str | os.PathLike[str] | int
"""A path, a thread id or the beginning of one, or -1, -2, … for the newest threads of the home."""
Mode = Literal["append", "read"]

VERSION = "0.1.0"
"""The `cli_version` of a log whose maker does not say one: this library's."""
_RESERVED = frozenset({"id", "timestamp", "forked_from_id", "history_base", "history_mode"})


class Store:
    """A home: `home`, else $ROLLOUT_HOME, else $CODEX_HOME, else ~/.codex. Nothing is made before it is needed.

    `clock` gives Unix seconds, `randomness(n)` n bytes; `fs` is the file system (by default the real one, which
    writes nothing outside of the home).
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        clock: Callable[[], float] = time.time,
        fs: FileSystem | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.home = (homes.default_home() if home is None else Path(home).expanduser()).absolute()
        self._ports = Ports(self.home, fs or RealFileSystem(self.home), clock, randomness)
        self._outside = dataclasses.replace(self._ports, home=None, fs=fs or REAL)

    def __repr__(self) -> str:
        return f"<Store {self.home}>"

    def create(
        self,
        *,
        cwd: str | os.PathLike[str],
        model_provider: str,
        originator: str = "rollout",
        source: str | Mapping[str, Any] = "cli",
        base_instructions: str | Mapping[str, Any] | None = None,
        git: Mapping[str, Any] | None = None,
        durability: Durability = Durability.TURN,
        **more: Any,
    ) -> Rollout:
        """A new thread, open for writing and on the disk (unless the durability is NONE).

        The arguments are what its session_meta says; `more` are further keys of it. RecordError, WriteError.
        """
        if reserved := sorted(_RESERVED & more.keys()):
            raise UsageError(f"{reserved[0]} is not for the caller to say", remedy="leave it out")
        thread, created = self._ports.new_id(), self._ports.clock()
        said = {"text": base_instructions} if isinstance(base_instructions, str) else base_instructions
        meta = {
            "id": thread,
            "timestamp": encoding.timestamp(created),
            "cwd": os.fspath(cwd),
            "originator": originator,
            "cli_version": more.pop("cli_version", VERSION),
            "source": source,
            "model_provider": model_provider,
            **({} if said is None else {"base_instructions": said}),
            **({} if git is None else {"git": git}),
            **more,
        }
        line = encoding.line(Part("session_meta", encoding.encode(meta)), created)
        return create_log(new_path(self._ports, thread), thread, line, self._ports, durability)

    def open(self, ref: Reference, mode: Mode = "append", *, durability: Durability = Durability.TURN) -> Rollout:
        """A log that is there: to go on with, locked for this writer, or to read.

        For append its end is mended first, and a turn that a crash left open is closed as interrupted. NotFound,
        Ambiguous, NotARollout, Locked (names who writes), WriteError.
        """
        path = locate(ref, self.home)
        if mode == "read":
            return read_log(path, self._ports_for(path))
        if mode != "append":
            raise UsageError(f"{mode!r} is no mode", remedy='give "append" or "read"')
        return open_log(path, self._ports_for(path), durability)

    def forks_of(self, ref: Reference) -> list[Path]:
        """The files of the home that refer to this one."""
        return forks.forks_of(locate(ref, self.home), self.home)

    def detach(self, ref: Reference) -> Path:
        """Makes a fork stand alone: its file then holds the lines of its bases. Its own forks are detached first."""
        path = locate(ref, self.home)
        for child in forks.forks_of(path, self.home):
            self.detach(child)  # they refer to places in this file, which are about to move
        ports = self._ports_for(path)
        refuse_sealed(path, ports)
        with self._locked(path):
            end = forks.newest_point(path, ports.fs).offset
            with origin_of(path, ports, end).opened() as lineage:
                meta = forks.meta_of(lineage.opened[0])
                if meta is None or "history_base" not in meta.payload:
                    return path
                payload = {k: v for k, v in meta.payload.items() if k not in ("history_base", "history_mode")}
                keys = {key: value for key, value in meta.line.items() if key != "ordinal"}
                head = encoding.encode({**keys, "payload": payload}) + b"\n"
                forks.write_copy(ports.fs, path, head, forks.whole(lineage), skip=meta.end)
            ports.fs.sync_dir(path.parent)
        return path

    def delete(self, ref: Reference, *, detach_forks: bool = False) -> Path:
        """Removes the file of a rollout; its path. InUse if forks refer to it, unless they are detached first."""
        path = locate(ref, self.home)
        with self._locked(path):
            for child in forks.forks_of(path, self.home) if detach_forks else ():
                self.detach(child)
            naming = forks.naming(path, self.home)
            _refuse_if_used(path, forks.forks_of(path, self.home))
            fs = self._ports_for(path).fs
            aside = path.with_name(f".{path.name}.deleted")
            fs.rename(path, aside)  # a fork that is made from now on finds no file to refer to
            try:
                _refuse_if_used(path, sorted(forks.naming(path, self.home) - naming))  # but one may just have been made
            except BaseException:
                fs.rename(aside, path)
                raise
            fs.unlink(aside)
            fs.sync_dir(path.parent)
        return path

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        """Holds the lock, and changes nothing: what stands at the end of the file may be part of a sealed one."""
        ports = self._ports_for(path)
        try:
            file = ports.fs.open_append(path)
            try:
                file.lock(holder(ports.timestamp()))
                yield
            finally:
                file.close()
        except OSError as error:
            raise WriteError(f"cannot be changed: {error.strerror}", path=path) from error

    def _ports_for(self, path: Path) -> Ports:
        return self._ports if path.absolute().is_relative_to(self.home) else self._outside


def _refuse_if_used(path: Path, used: Sequence[Path]) -> None:
    if used:
        names = ", ".join(other.name for other in used[:3]) + (", …" if len(used) > 3 else "")
        raise InUse(
            f"forks refer to it: {names}", path=path, remedy="detach them first, or delete with detach_forks=True"
        )


def open_rollout(
    source: Reference,
    mode: Mode = "append",
    *,
    home: str | os.PathLike[str] | None = None,
    durability: Durability = Durability.TURN,
) -> Rollout:
    """Opens a log by path or reference, to go on with or to read. See `Store.open`.

    The home is `home`, else the one that the file lies in, else the default one.
    """
    path = locate(source, None if home is None else Path(home).expanduser())
    return Store(home or homes.home_of(path)).open(path, mode, durability=durability)
