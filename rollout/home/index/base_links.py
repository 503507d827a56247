"""Which file each base of a home goes on from, so that nobody has to open them to know whether they are still there.

What is known of a fork depends on all files beneath it. Their *print* is a checksum of their paths and of what the disk
knows them by now: as long as it is the same, nothing that the fork goes on from was replaced, moved or deleted.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable

import msgspec

from rollout.errors import SourceError
from rollout.files.disk import FileSystem
from rollout.home.index.database import Cache, Link


class Links:
    """The links of one home. Each file beneath others is looked at once until `forget`."""

    def __init__(self, cache: Cache, fs: FileSystem) -> None:
        self._cache, self._fs = cache, fs
        self._known: dict[str, Link | None] = {}
        self._prints: dict[str, str] = {}

    def forget(self) -> None:
        """Files may have changed."""
        self._known.clear()
        self._prints.clear()

    def add(self, links: Iterable[tuple[str, Link]]) -> None:
        """What was found when files were opened."""
        new = [(path, link) for path, link in links if self._link(path) != link]
        if any(path in self._prints for path, _ in new):
            self._prints.clear()
        self._known.update(new)
        self._cache.put_links(new)

    def print_of(self, path: str) -> str:
        """The print of all files beneath one; empty if there are none, or none was ever met."""
        way: list[tuple[str, Link]] = []
        at, seen = path, {path}
        while at not in self._prints and (link := self._link(at)) is not None and link.base not in seen:
            way.append((at, link))
            at = link.base
            seen.add(at)
        found = self._prints.setdefault(at, "")
        for user, link in reversed(way):
            device, inode = self._identity(link.base)
            is_same = (device, inode) == (link.device, link.inode)
            told = msgspec.msgpack.encode((link.base, device, inode, is_same, found))
            found = self._prints[user] = f"{zlib.crc32(told):08x}"
        return found

    def _link(self, path: str) -> Link | None:
        if path not in self._known:
            self._known[path] = self._cache.link(path)
        return self._known[path]

    def _identity(self, path: str) -> tuple[int, int]:
        with contextlib.suppress(OSError, SourceError):
            return self._fs.status(path).identity
        return 0, 0
