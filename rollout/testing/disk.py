"""A disk in memory behind the file-system port: it remembers what was done to it, and fails on request.

`rollout.testing.crashes` enumerates what a crash may keep of that. Everything is deterministic.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import os
import posixpath
import stat
import threading
from collections.abc import Mapping, Sequence

from rollout.errors import Locked, NotARollout, NotFound
from rollout.files.port import AnyPath, Holder, Listed, ShortWrite, Status, locked

_ROOT = 0


class OpKind(enum.Enum):
    """What can be done to a disk."""

    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    SYNC_FAILED = "sync failed"
    SYNC_DIR = "sync dir"
    CREATE = "create"
    MKDIR = "mkdir"
    UNLINK = "unlink"
    RENAME = "rename"


NAMING = frozenset({OpKind.CREATE, OpKind.MKDIR, OpKind.UNLINK, OpKind.RENAME})


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `node` is the file (write, truncate, sync) or the directory in which `name` comes to stand for `target`, or ceases
    to; a rename takes the name from `old_name` in `old_node`.
    """

    kind: OpKind
    node: int
    name: str = ""
    target: int = -1
    data: bytes = b""
    size: int = 0
    old_node: int = -1
    old_name: str = ""


class Effect(enum.Enum):
    """What goes wrong with an operation."""

    FAIL = "fail"
    """It raises `error`, and nothing happens (a failed sync makes what was not synced unsafe for ever)."""
    SHORT = "short"
    """A write takes `written` bytes only."""
    DROP = "drop"
    """It says that all went well and does nothing."""
    DELAY = "delay"
    """It says that all went well and is done after the next operation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """Something goes wrong with the `nth` operation (from 0) of `kind`, or of any kind (None)."""

    nth: int
    effect: Effect
    kind: OpKind | None = None
    error: int = errno.EIO
    written: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Nodes: files with their bytes, directories with the nodes that their names stand for."""

    files: dict[int, bytes]
    dirs: dict[int, dict[str, int]]

    def tree(self) -> dict[str, bytes | None]:
        """Paths to bytes, or None for a directory."""
        found: dict[str, bytes | None] = {}
        below = [("", _ROOT)]
        while below:
            path, node = below.pop()
            for name, child in self.dirs[node].items():
                found[f"{path}/{name}"] = self.files.get(child)
                if child in self.dirs:
                    below.append((f"{path}/{name}", child))
        return found


def change_names(dirs: dict[int, dict[str, int]], op: Op) -> None:
    """Does to the directories what `op` does to names."""
    if op.kind is OpKind.UNLINK:
        if dirs[op.node].get(op.name) == op.target:
            del dirs[op.node][op.name]
        return
    if op.kind is OpKind.RENAME and dirs[op.old_node].get(op.old_name) == op.target:
        del dirs[op.old_node][op.old_name]
    dirs[op.node][op.name] = op.target


class SimulatedDisk:
    """A `FileSystem` in memory, to be given to `Store(home, fs=disk)`. Paths are absolute, with slashes.

    Every operation is recorded, so that `rollout.testing.crashes` can tell what a crash after any of them leaves. The
    methods of the port raise what `rollout.files.port.FileSystem` says, and OSError where a fault says so.

    Args:
        tree: What lies on the disk, synced, when the record begins: paths to bytes, or to None for a directory.
        faults: What goes wrong; of several that fit an operation, the first.

    Attributes:
        faults: The same, to be changed while the disk is in use.
        ops: What was done since, oldest first.
        attempts: The kinds of all that was asked for, whatever became of it; `Fault.nth` counts these.
    """

    def __init__(self, tree: Mapping[str, bytes | None] | None = None, *, faults: Sequence[Fault] = ()) -> None:
        self.ops: list[Op] = []
        self.attempts: list[OpKind] = []
        self.faults = list(faults)
        self._delayed: list[Op] = []
        self._files: dict[int, bytes] = {}
        self._dirs: dict[int, dict[str, int]] = {_ROOT: {}}
        self._next = _ROOT + 1
        self.changed: dict[int, int] = {}
        self._locks: dict[int, Holder] = {}
        self.process = 0
        self._mutex = threading.RLock()
        for path, data in sorted((tree or {}).items()):
            self._plant(path, data)
        self.start = Image(dict(self._files), {node: dict(names) for node, names in self._dirs.items()})

    def tree(self) -> dict[str, bytes | None]:
        """All that is there, as a running process sees it."""
        return Image(self._files, self._dirs).tree()

    def kill(self) -> None:
        """The process dies (not the machine): its files are closed and its locks gone, all it did is there."""
        self.process += 1
        self._locks.clear()

    # the port

    def open_read(self, path: AnyPath) -> SimulatedFile:
        try:
            return self._open(path)
        except OSError as error:
            raise NotFound("there is no such file", path=path) from error

    def open_append(self, path: AnyPath, *, create: bool = False) -> SimulatedFile:
        with self._mutex:
            if create:
                self._add(OpKind.CREATE, path)
            return self._open(path)

    def _open(self, path: AnyPath) -> SimulatedFile:
        node = self._find(path)
        if node in self._dirs:
            raise NotARollout("is a directory, not a rollout", path=path)
        return SimulatedFile(self, node, os.fspath(path))

    def write_new(self, path: AnyPath, data: bytes) -> None:
        file = self.open_append(path, create=True)
        file.append(data)
        file.sync()

    def mkdir(self, path: AnyPath) -> None:
        with self._mutex:
            self._add(OpKind.MKDIR, path)

    def sync_dir(self, path: AnyPath) -> None:
        with self._mutex:
            self.do(Op(OpKind.SYNC_DIR, self._find_dir(path)))

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        with self._mutex:
            old_node, old_name = self._place(source)
            node, name = self._place(target)
            self.do(Op(OpKind.RENAME, node, name, self._find(source), old_node=old_node, old_name=old_name))

    def unlink(self, path: AnyPath) -> None:
        with self._mutex:
            node, name = self._place(path)
            self.do(Op(OpKind.UNLINK, node, name, self._find(path)))

    def listed(self, path: AnyPath) -> list[Listed]:
        names = self._dirs[self._find_dir(path)]
        return sorted(Listed(name, "directory" if node in self._dirs else "file") for name, node in names.items())

    def status(self, path: AnyPath) -> Status:
        node = self._find(path)
        mode = stat.S_IFDIR | 0o700 if node in self._dirs else stat.S_IFREG | 0o600
        return Status(len(self._files.get(node, b"")), self.changed.get(node, 0), (id(self), node), mode)

    # operations

    def do(self, op: Op) -> int:
        """Does and records `op`, or what its fault makes of it; for a write, how many bytes went."""
        with self._mutex:
            fault = self._fault(op.kind)
            delayed, self._delayed = self._delayed, []
            if fault is None:
                self._record(op)
            elif fault.effect is Effect.SHORT:
                op = dataclasses.replace(op, data=op.data[: fault.written])
                self._record(op)
            elif fault.effect is Effect.DELAY:
                self._delayed.append(op)
            elif fault.effect is Effect.FAIL:
                if op.kind is OpKind.SYNC:
                    self._record(dataclasses.replace(op, kind=OpKind.SYNC_FAILED))
                raise OSError(fault.error, os.strerror(fault.error))
            for late in delayed:
                self._record(late)
            return len(op.data)

    def _fault(self, kind: OpKind) -> Fault | None:
        of_kind, of_all = self.attempts.count(kind), len(self.attempts)
        self.attempts.append(kind)
        for fault in self.faults:
            if fault.nth == of_all if fault.kind is None else (fault.kind is kind and fault.nth == of_kind):
                if fault.effect is Effect.SHORT and kind is not OpKind.WRITE:
                    continue
                return fault
        return None

    def _record(self, op: Op) -> None:
        self.ops.append(op)
        if op.kind not in {OpKind.SYNC, OpKind.SYNC_FAILED, OpKind.SYNC_DIR}:
            self.changed[op.target if op.kind is OpKind.CREATE else op.node] = len(self.ops)
        if op.kind is OpKind.WRITE:
            self._files[op.node] += op.data
        elif op.kind is OpKind.TRUNCATE:
            self._files[op.node] = self._files[op.node][: op.size]
        elif op.kind in NAMING:
            if op.kind is OpKind.CREATE:
                self._files[op.target] = b""
            elif op.kind is OpKind.MKDIR:
                self._dirs[op.target] = {}
            change_names(self._dirs, op)

    def _add(self, kind: OpKind, path: AnyPath) -> None:
        self._refuse_existing(path)
        node, name = self._place(path)
        self._next += 1
        self.do(Op(kind, node, name, self._next))

    # paths

    def _plant(self, path: str, data: bytes | None) -> None:
        node = _ROOT
        *directories, last = [part for part in path.split("/") if part]
        for name in directories:
            node = self._plant_one(node, name, None)
        self._plant_one(node, last, data)

    def _plant_one(self, node: int, name: str, data: bytes | None) -> int:
        if name not in self._dirs[node]:
            self._next += 1
            self._dirs[node][name] = self._next
            if data is None:
                self._dirs[self._next] = {}
            else:
                self._files[self._next] = data
        return self._dirs[node][name]

    def _find(self, path: AnyPath) -> int:
        node = _ROOT
        for name in posixpath.normpath(os.fspath(path)).split("/"):
            if not name:
                continue
            if node not in self._dirs:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
            if name not in self._dirs[node]:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            node = self._dirs[node][name]
        if node not in self._dirs and os.fspath(path).endswith("/."):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        return node

    def _find_dir(self, path: AnyPath) -> int:
        node = self._find(path)
        if node not in self._dirs:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        return node

    def _place(self, path: AnyPath) -> tuple[int, str]:
        directory, name = posixpath.split(posixpath.normpath(os.fspath(path)))
        return self._find_dir(directory), name

    def _exists(self, path: AnyPath) -> bool:
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def _refuse_existing(self, path: AnyPath) -> None:
        if self._exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))

    # what an open file does

    def content(self, node: int) -> bytes:
        """The bytes of a file."""
        return self._files[node]

    def path_of(self, node: int) -> str | None:
        """A path of a file; None if it has none any more."""
        return next((path for path in self.tree() if self._find(path) == node), None)

    def check_alive(self, process: int) -> None:
        """Raises EBADF for a file that a process opened that is dead."""
        if process != self.process:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def lock(self, node: int, path: str, by: Holder) -> None:
        """Takes the lock of a file; Locked."""
        with self._mutex:
            if node in self._locks:
                raise locked(path, self._locks[node])
            if not self._exists(path) or self._find(path) != node:
                raise Locked("was replaced while it was being opened", path=path, remedy="open it again")
            self._locks[node] = by

    def unlock(self, node: int) -> None:
        """Gives the lock of a file back."""
        self._locks.pop(node, None)


class SimulatedFile:
    """An open file of a simulated disk: the `AppendFile` of the port, but for `hold`, which does not wait."""

    def __init__(self, disk: SimulatedDisk, node: int, path: str) -> None:
        self._disk, self._node, self._path = disk, node, path
        self._process = disk.process
        self._holds_lock = False

    @property
    def identity(self) -> tuple[int, int]:
        return (id(self._disk), self._node)

    def size(self) -> int:
        return len(self._disk.content(self._node))

    def set_mtime(self, ns: int) -> None:
        # no operation of its own: nothing depends on it
        self._disk.changed[self._node] = ns

    def data_start(self) -> int:
        return 0  # no file here is sparse

    def read_at(self, offset: int, n: int) -> bytes:
        self._disk.check_alive(self._process)
        return self._disk.content(self._node)[offset : offset + n]

    def append(self, data: bytes) -> int:
        self._disk.check_alive(self._process)
        written = self._disk.do(Op(OpKind.WRITE, self._node, data=bytes(data)))
        if written != len(data):
            raise ShortWrite(written, len(data))
        return self.size()

    def sync(self) -> None:
        self._disk.check_alive(self._process)
        self._disk.do(Op(OpKind.SYNC, self._node))

    def truncate(self, size: int) -> None:
        self._disk.check_alive(self._process)
        self._disk.do(Op(OpKind.TRUNCATE, self._node, size=size))

    def lock(self, holder: Holder, at: AnyPath | None = None) -> None:
        self._disk.check_alive(self._process)
        self._path = self._path if at is None else os.fspath(at)
        if at is not None:
            self._disk.unlock(self._node)
        self._disk.lock(self._node, self._path, holder)
        self._holds_lock = True

    def hold(self, timeout_s: float) -> None:
        self.lock(Holder(0, "", ""))

    def release(self) -> None:
        if self._holds_lock:
            self._disk.unlock(self._node)
        self._holds_lock = False

    def whereabouts(self) -> str | None:
        return self._disk.path_of(self._node)

    def close(self) -> None:
        if self._holds_lock and self._process == self._disk.process:
            self._disk.unlock(self._node)
        self._holds_lock = False
