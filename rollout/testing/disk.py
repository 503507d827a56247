"""A disk in memory behind the file-system port: it remembers what was done to it, and fails on request.

`rollout.testing.crashes` enumerates what a crash may keep of that. Everything is deterministic.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import itertools
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

    def changed(self, content: bytes) -> bytes:
        """The content of a file after it, if it is a write or a truncation."""
        return content[: self.size] if self.kind is OpKind.TRUNCATE else content + self.data


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

    @classmethod
    def of(cls, tree: Mapping[str, bytes | None]) -> Image:
        """The image of paths with their bytes, or None for a directory; those above them are made."""
        image = cls({}, {_ROOT: {}})
        for path, data in sorted(tree.items()):
            node = _ROOT
            *folders, last = path.strip("/").split("/")
            for name, content in (*((folder, None) for folder in folders), (last, data)):
                child = image.dirs[node].setdefault(name, len(image.files) + len(image.dirs))
                if child not in image.files and child not in image.dirs:
                    image.do(Op(OpKind.MKDIR if content is None else OpKind.CREATE, node, name, child, content or b""))
                node = child
        return image

    def copy(self) -> Image:
        """Another one, which changes by itself."""
        return Image(dict(self.files), {node: dict(names) for node, names in self.dirs.items()})

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

    def do(self, op: Op) -> None:
        """Does what an operation does to bytes and names."""
        if op.kind in {OpKind.WRITE, OpKind.TRUNCATE}:
            self.files[op.node] = op.changed(self.files[op.node])
        elif op.kind is OpKind.UNLINK:
            if self.dirs[op.node].get(op.name) == op.target:
                del self.dirs[op.node][op.name]
        elif op.kind in NAMING:
            if op.kind is OpKind.CREATE:
                self.files.setdefault(op.target, op.data)
            elif op.kind is OpKind.MKDIR:
                self.dirs.setdefault(op.target, {})
            elif self.dirs[op.old_node].get(op.old_name) == op.target:
                del self.dirs[op.old_node][op.old_name]
            self.dirs[op.node][op.name] = op.target


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
        self.start = Image.of(tree or {})
        self._now = self.start.copy()
        self._nodes = itertools.count(len(self.start.files) + len(self.start.dirs))
        self.changed: dict[int, int] = {}
        self.locks: dict[int, Holder] = {}
        self.process = 0
        self.mutex = threading.RLock()

    def tree(self) -> dict[str, bytes | None]:
        """All that is there, as a running process sees it."""
        return self._now.tree()

    def kill(self) -> None:
        """The process dies (not the machine): its files are closed and its locks gone, all it did is there."""
        self.process += 1
        self.locks.clear()

    # the port

    def open_read(self, path: AnyPath) -> SimulatedFile:
        try:
            return self.open_append(path)
        except OSError as error:
            raise NotFound("there is no such file", path=path) from error

    def open_append(self, path: AnyPath, *, create: bool = False) -> SimulatedFile:
        with self.mutex:
            if create:
                self._add(OpKind.CREATE, path)
            node = self.find(path)
            if node in self._now.dirs:
                raise NotARollout("is a directory, not a rollout", path=path)
            return SimulatedFile(self, node, os.fspath(path))

    def write_new(self, path: AnyPath, data: bytes) -> None:
        file = self.open_append(path, create=True)
        file.append(data)
        file.sync()

    def mkdir(self, path: AnyPath) -> None:
        with self.mutex:
            self._add(OpKind.MKDIR, path)

    def sync_dir(self, path: AnyPath) -> None:
        with self.mutex:
            self.do(Op(OpKind.SYNC_DIR, self._find_dir(path)))

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        with self.mutex:
            old_node, old_name = self._place(source)
            node, name = self._place(target)
            self.do(Op(OpKind.RENAME, node, name, self.find(source), old_node=old_node, old_name=old_name))

    def unlink(self, path: AnyPath) -> None:
        with self.mutex:
            node, name = self._place(path)
            self.do(Op(OpKind.UNLINK, node, name, self.find(path)))

    def names(self, path: AnyPath) -> list[str]:
        return sorted(self._now.dirs[self._find_dir(path)])

    def listed(self, path: AnyPath) -> list[Listed]:
        names = self._now.dirs[self._find_dir(path)]
        return sorted(Listed(name, "directory" if node in self._now.dirs else "file") for name, node in names.items())

    def status(self, path: AnyPath) -> Status:
        node = self.find(path)
        mode = stat.S_IFDIR | 0o700 if node in self._now.dirs else stat.S_IFREG | 0o600
        return Status(len(self._now.files.get(node, b"")), self.changed.get(node, 0), (id(self), node), mode)

    # operations

    def do(self, op: Op) -> int:
        """Does and records `op`, or what its fault makes of it; for a write, how many bytes went."""
        with self.mutex:
            fault = self._fault(op.kind)
            done, self._delayed = self._delayed, []
            if fault is None:
                done = [op, *done]
            elif fault.effect is Effect.SHORT:
                op = dataclasses.replace(op, data=op.data[: fault.written])
                done = [op, *done]
            elif fault.effect is Effect.DELAY:
                self._delayed = [op]
            elif fault.effect is Effect.FAIL:
                if op.kind is OpKind.SYNC:
                    self._record(dataclasses.replace(op, kind=OpKind.SYNC_FAILED))
                raise _error(fault.error)
            for each in done:
                self._record(each)
            return len(op.data)

    def _fault(self, kind: OpKind) -> Fault | None:
        of_kind, of_all = self.attempts.count(kind), len(self.attempts)
        self.attempts.append(kind)
        for fault in self.faults:
            is_it = fault.nth == of_all if fault.kind is None else (fault.kind is kind and fault.nth == of_kind)
            if is_it and (fault.effect is not Effect.SHORT or kind is OpKind.WRITE):
                return fault
        return None

    def _record(self, op: Op) -> None:
        self.ops.append(op)
        self._now.do(op)
        if op.kind not in {OpKind.SYNC, OpKind.SYNC_FAILED, OpKind.SYNC_DIR}:
            self.changed[op.target if op.kind is OpKind.CREATE else op.node] = len(self.ops)

    def _add(self, kind: OpKind, path: AnyPath) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.find(path)
            raise _error(errno.EEXIST, path)
        node, name = self._place(path)
        self.do(Op(kind, node, name, next(self._nodes)))

    # paths and nodes

    def find(self, path: AnyPath) -> int:
        """The node that a path leads to. FileNotFoundError, NotADirectoryError."""
        node = _ROOT
        for name in filter(None, posixpath.normpath(os.fspath(path)).split("/")):
            if node not in self._now.dirs:
                raise _error(errno.ENOTDIR, path)
            if name not in self._now.dirs[node]:
                raise _error(errno.ENOENT, path)
            node = self._now.dirs[node][name]
        return node

    def _find_dir(self, path: AnyPath) -> int:
        node = self.find(path)
        if node not in self._now.dirs:
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: AnyPath) -> tuple[int, str]:
        directory, name = posixpath.split(posixpath.normpath(os.fspath(path)))
        return self._find_dir(directory), name

    def content(self, node: int) -> bytes:
        """The bytes of a file."""
        return self._now.files[node]


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
        self._check_alive()
        return self._disk.content(self._node)[offset : offset + n]

    def append(self, data: bytes) -> int:
        self._check_alive()
        written = self._disk.do(Op(OpKind.WRITE, self._node, data=bytes(data)))
        if written != len(data):
            raise ShortWrite(written, len(data))
        return self.size()

    def sync(self) -> None:
        self._check_alive()
        self._disk.do(Op(OpKind.SYNC, self._node))

    def truncate(self, size: int) -> None:
        self._check_alive()
        self._disk.do(Op(OpKind.TRUNCATE, self._node, size=size))

    def lock(self, holder: Holder, at: AnyPath | None = None) -> None:
        self._check_alive()
        with self._disk.mutex:
            if at is not None:
                self._path = os.fspath(at)
                self._disk.locks.pop(self._node, None)
            if self._node in self._disk.locks:
                raise locked(self._path, self._disk.locks[self._node])
            if not self._is_at(self._path):
                raise Locked("was replaced while it was being opened", path=self._path, remedy="open it again")
            self._disk.locks[self._node] = holder
            self._holds_lock = True

    def hold(self, timeout_s: float) -> None:
        self.lock(Holder(0, "", ""))

    def release(self) -> None:
        if self._holds_lock and self._process == self._disk.process:
            self._disk.locks.pop(self._node, None)
        self._holds_lock = False

    close = release

    def whereabouts(self) -> str | None:
        return next((path for path in self._disk.tree() if self._disk.find(path) == self._node), None)

    def _is_at(self, path: str) -> bool:
        try:
            return self._disk.find(path) == self._node
        except OSError:
            return False

    def _check_alive(self) -> None:
        if self._process != self._disk.process:
            raise _error(errno.EBADF)


def _error(code: int, path: AnyPath | None = None) -> OSError:
    """The exception of that number, of the class that Python has for it."""
    return OSError(code, os.strerror(code), *([] if path is None else [os.fspath(path)]))
