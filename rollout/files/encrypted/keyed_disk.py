"""A file system with keys: whatever is read or written through it is read and written with them.

Everything that touches a rollout is handed a file system, so the keys reach every place, and no place has to know.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rollout.files.port import AnyPath, AppendFile, FileSystem, Listed, ReadFile, Status

if TYPE_CHECKING:
    from rollout.files.encrypted.keys import Cipher

KEYS_FILE = "ROLLOUT_KEYS_FILE"
"""The variable of the environment that names a file of keys, for all who say nothing."""


class KeyedFileSystem(FileSystem):
    """Another file system, and a `cipher`."""

    def __init__(self, inner: FileSystem, cipher: Cipher) -> None:
        self._inner, self.cipher = inner, cipher

    def open_read(self, path: AnyPath) -> ReadFile:
        return self._inner.open_read(path)

    def open_append(self, path: AnyPath, *, create: bool = False, mode: int = 0o600) -> AppendFile:
        return self._inner.open_append(path, create=create, mode=mode)

    def write_new(self, path: AnyPath, data: bytes) -> None:
        self._inner.write_new(path, data)

    def mkdir(self, path: AnyPath) -> None:
        self._inner.mkdir(path)

    def sync_dir(self, path: AnyPath) -> None:
        self._inner.sync_dir(path)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        self._inner.rename(source, target)

    def link(self, source: AnyPath, target: AnyPath) -> None:
        self._inner.link(source, target)

    def unlink(self, path: AnyPath) -> None:
        self._inner.unlink(path)

    def names(self, path: AnyPath) -> list[str]:
        return self._inner.names(path)

    def listed(self, path: AnyPath) -> list[Listed]:
        return self._inner.listed(path)

    def status(self, path: AnyPath) -> Status:
        return self._inner.status(path)


def with_keys(fs: FileSystem, cipher: Cipher | None) -> FileSystem:
    """`fs`, with the keys, if there are any to add."""
    return fs if cipher is None else KeyedFileSystem(fs, cipher)


def has_keys(fs: FileSystem) -> bool:
    """Whether there are keys in force; they are not read."""
    return isinstance(fs, KeyedFileSystem) or bool(os.environ.get(KEYS_FILE))
