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
from rollout.files.weak_registry import Living

_nodes = itertools.count(1)
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

    @property
    def identity(self) -> tuple[int, int]:
        return (0, self._node.number)

    def size(self) -> int:
        return len(self._node.data)

    def data_start(self) -> int:
        """As the port says: no file here is sparse."""
        return 0

    def read_at(self, offset: int, n: int) -> bytes:
        return bytes(self._node.data[offset : offset + n])

    def append(self, data: bytes) -> int:
        with self._fs.mutex:
            self._node.data += data
            self._node.mtime_ns = time.time_ns()
            return len(self._node.data)

    def sync(self) -> None:
        """As the port says: there is no disk."""

    def truncate(self, size: int) -> None:
        with self._fs.mutex:
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
        with self._fs.mutex:
            holder = None if self._node.holder is None else self._node.holder()
            if holder is None or holder is self:
                self._node.holder = weakref.ref(self)
                return True
            return False

    def release(self) -> None:
        with self._fs.mutex:
            if self._node.holder is not None and self._node.holder() is self:
                self._node.holder = None

    def whereabouts(self) -> str | None:
        return self._fs.path_of(self._node)

    def close(self) -> None:
        self.release()


class MemoryFileSystem:
    """A tree of files; `/` is there from the start."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        _file_systems.add(self)
        self._files: dict[str, _Node] = {}
        self._dirs = {os.path.abspath(os.sep)}

    def node(self, path: AnyPath) -> _Node | None:
        """The file at a path."""
        return self._files.get(_name(path))

    def path_of(self, node: _Node) -> str | None:
        """A path of a file; None if it has none any more."""
        with self.mutex:
            return next((path for path, found in self._files.items() if found is node), None)

    def open_read(self, path: AnyPath) -> MemoryFile:
        name = _name(path)
        if name in self._dirs:
            raise NotARollout("is a directory, not a rollout", path=name, remedy="give the path of a rollout file")
        node = self._files.get(name)
        if node is None:
            raise NotFound("there is no such file", path=name, remedy="check the path")
        return MemoryFile(self, node, name)

    def open_append(self, path: AnyPath, *, create: bool = False) -> MemoryFile:
        name = _name(path)
        with self.mutex:
            self._check_parent(name)
            if name in self._dirs:
                raise NotARollout("is a directory, not a rollout", path=name, remedy="give the path of a rollout file")
            if create and name in self._files:
                raise _error(FileExistsError, errno.EEXIST, name)
            if not create and name not in self._files:
                raise _error(FileNotFoundError, errno.ENOENT, name)
            return MemoryFile(self, self._files.setdefault(name, _Node()), name)

    def write_new(self, path: AnyPath, data: bytes) -> None:
        self.open_append(path, create=True).append(data)

    def mkdir(self, path: AnyPath) -> None:
        name = _name(path)
        with self.mutex:
            self._check_parent(name)
            if name in self._dirs or name in self._files:
                raise _error(FileExistsError, errno.EEXIST, name)
            self._dirs.add(name)

    def sync_dir(self, path: AnyPath) -> None:
        """As the port says: there is no disk."""

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        with self.mutex:
            self._check_parent(_name(target))
            self._files[_name(target)] = self._take(_name(source))

    def unlink(self, path: AnyPath) -> None:
        with self.mutex:
            self._take(_name(path))

    def names(self, path: AnyPath) -> list[str]:
        return [each.name for each in self.listed(path)]

    def listed(self, path: AnyPath) -> list[Listed]:
        name = _name(path)
        with self.mutex:
            if name in self._files:
                raise _error(NotADirectoryError, errno.ENOTDIR, name)
            if name not in self._dirs:
                raise _error(FileNotFoundError, errno.ENOENT, name)
            found = [Listed(os.path.basename(each), "file") for each in self._files if os.path.dirname(each) == name]
            found += [
                Listed(os.path.basename(each), "directory")
                for each in self._dirs
                if each != name and os.path.dirname(each) == name
            ]
            return sorted(found)

    def status(self, path: AnyPath) -> Status:
        node = self._files.get(_name(path))
        if node is None and _name(path) in self._dirs:
            return Status(0, 0, (0, 0), stat.S_IFDIR | 0o700)
        if node is not None and os.fspath(path).endswith(f"{os.sep}."):
            raise _error(NotADirectoryError, errno.ENOTDIR, _name(path))
        if node is None:
            raise _error(FileNotFoundError, errno.ENOENT, _name(path))
        return Status(len(node.data), node.mtime_ns, (0, node.number))

    def _take(self, name: str) -> _Node:
        try:
            return self._files.pop(name)
        except KeyError:
            raise _error(FileNotFoundError, errno.ENOENT, name) from None

    def _check_parent(self, name: str) -> None:
        if os.path.dirname(name) not in self._dirs:
            raise _error(FileNotFoundError, errno.ENOENT, os.path.dirname(name))


_file_systems: Living[MemoryFileSystem] = Living()


def _unlock_in_child() -> None:
    """What other threads held when the process was forked is never given back there."""
    for fs in _file_systems.in_child():
        fs.mutex = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)


def _name(path: AnyPath) -> str:
    return os.path.abspath(os.fspath(path))


def _error(kind: type[OSError], number: int, name: str) -> OSError:
    return kind(number, os.strerror(number), name)
