"""A file system that lives in memory and ends with its process: the port without a disk.

Nothing is ever durable here, so syncs do nothing. Safe to use from several threads; a lock keeps writers of one
process apart.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
import time
import weakref

from rollout.errors import Locked, NotARollout, NotFound
from rollout.files.port import AnyPath, Holder, Listed, Status, locked

_nodes = itertools.count(1)
_mutex = threading.RLock()
"""Of all of them: what is done here takes no time."""
_PAUSE_S = 0.0002


class _Node:
    """The bytes of one file, whatever its names."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.mtime_ns = time.time_ns()
        self.number = next(_nodes)
        self.holder: weakref.ref[MemoryFile] | None = None  # of the lock: free again when that is gone


class MemoryFile:
    """An open file of a `MemoryFileSystem`."""

    def __init__(self, fs: MemoryFileSystem, node: _Node, path: str) -> None:
        self._fs, self._node, self._path = fs, node, path
        self.identity = (0, node.number)

    def size(self) -> int:
        return len(self._node.data)

    def data_start(self) -> int:
        """As the port says: no file here is sparse."""
        return 0

    def read_at(self, offset: int, n: int) -> bytes:
        return bytes(self._node.data[offset : offset + n])

    def append(self, data: bytes) -> int:
        with _mutex:
            self._node.data += data
            self._node.mtime_ns = time.time_ns()
            return len(self._node.data)

    def sync(self) -> None:
        """As the port says: there is no disk."""

    def truncate(self, size: int) -> None:
        with _mutex:
            del self._node.data[size:]

    def set_mtime(self, ns: int) -> None:
        self._node.mtime_ns = ns

    def lock(self, holder: Holder, at: AnyPath | None = None) -> None:
        """As the port says, but for the note."""
        self._path = self._path if at is None else os.fspath(at)
        if at is None:
            self.hold(0.0)

    def hold(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._take():
            if time.monotonic() >= deadline:
                raise locked(self._path, None)
            time.sleep(_PAUSE_S)
        if self._fs.node(self._path) is not self._node:
            self.release()
            raise Locked("was replaced while it was being opened", path=self._path, remedy="open it again")

    def _take(self) -> bool:
        with _mutex:
            holder = None if self._node.holder is None else self._node.holder()
            if holder is None or holder is self:
                self._node.holder = weakref.ref(self)
                return True
            return False

    def release(self) -> None:
        with _mutex:
            if self._node.holder is not None and self._node.holder() is self:
                self._node.holder = None

    def whereabouts(self) -> str | None:
        return self._fs.path_of(self._node)

    def close(self) -> None:
        self.release()


class MemoryFileSystem:
    """A tree of files; `/` is there from the start."""

    def __init__(self) -> None:
        self._tree: dict[str, _Node | None] = {os.path.abspath(os.sep): None}  # by path; None is a directory

    def node(self, path: AnyPath) -> _Node | None:
        """The file at a path."""
        return self._tree.get(_name(path))

    def path_of(self, node: _Node) -> str | None:
        """A path of a file; None if it has none any more."""
        with _mutex:
            return next((path for path, found in self._tree.items() if found is node), None)

    def open_read(self, path: AnyPath) -> MemoryFile:
        try:
            return self._open(_name(path))
        except FileNotFoundError as error:
            raise NotFound("there is no such file", path=path, remedy="check the path") from error

    def open_append(self, path: AnyPath, *, create: bool = False) -> MemoryFile:
        with _mutex:
            if create:
                self._add(_name(path), _Node())
            return self._open(_name(path))

    def _open(self, name: str) -> MemoryFile:
        node = self._entry(name)
        if node is None:
            raise NotARollout("is a directory, not a rollout", path=name, remedy="give the path of a rollout file")
        return MemoryFile(self, node, name)

    def write_new(self, path: AnyPath, data: bytes) -> None:
        self.open_append(path, create=True).append(data)

    def mkdir(self, path: AnyPath) -> None:
        with _mutex:
            self._add(_name(path), None)

    def _add(self, name: str, node: _Node | None) -> None:
        self._entry(os.path.dirname(name))
        if name in self._tree:
            raise _error(errno.EEXIST, name)
        self._tree[name] = node

    def sync_dir(self, path: AnyPath) -> None:
        """As the port says: there is no disk."""

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        with _mutex:
            self._entry(os.path.dirname(_name(target)))
            node = self._entry(_name(source))
            del self._tree[_name(source)]
            self._tree[_name(target)] = node

    def unlink(self, path: AnyPath) -> None:
        with _mutex:
            self._entry(_name(path))
            del self._tree[_name(path)]

    def listed(self, path: AnyPath) -> list[Listed]:
        name = _name(path)
        with _mutex:
            if self._entry(name) is not None:
                raise _error(errno.ENOTDIR, name)
            return sorted(
                Listed(os.path.basename(each), "directory" if node is None else "file")
                for each, node in self._tree.items()
                if os.path.dirname(each) == name != each
            )

    def status(self, path: AnyPath) -> Status:
        node = self._entry(_name(path))
        if node is None:
            return Status(0, 0, (0, 0), stat.S_IFDIR | 0o700)
        if os.fspath(path).endswith(f"{os.sep}."):
            raise _error(errno.ENOTDIR, _name(path))
        return Status(len(node.data), node.mtime_ns, (0, node.number))

    def _entry(self, name: str) -> _Node | None:
        try:
            return self._tree[name]
        except KeyError:
            raise _error(errno.ENOENT, name) from None


def _unlock_in_child() -> None:
    """What other threads held when the process was forked is never given back there."""
    global _mutex  # noqa: PLW0603
    _mutex = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def _name(path: AnyPath) -> str:
    return os.path.abspath(os.fspath(path))


def _error(number: int, name: str) -> OSError:
    return OSError(number, os.strerror(number), name)
