"""What can be done to a simulated disk, and what can go wrong with it: values only."""

from __future__ import annotations

import dataclasses
import enum
import errno

ROOT = 0


class Kind(enum.Enum):
    """What can be done to a disk."""

    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    SYNC_FAILED = "sync failed"
    SYNC_DIR = "sync dir"
    CREATE = "create"
    MKDIR = "mkdir"
    LINK = "link"
    UNLINK = "unlink"
    RENAME = "rename"


NAMING = frozenset({Kind.CREATE, Kind.MKDIR, Kind.LINK, Kind.UNLINK, Kind.RENAME})


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    `node` is the file (write, truncate, sync) or the directory in which `name` comes to stand for `target`, or ceases
    to; a rename takes the name from `old_name` in `old_node`.
    """

    kind: Kind
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
    kind: Kind | None = None
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
        below = [("", ROOT)]
        while below:
            path, node = below.pop()
            for name, child in self.dirs[node].items():
                found[f"{path}/{name}"] = self.files.get(child)
                if child in self.dirs:
                    below.append((f"{path}/{name}", child))
        return found


def change_names(dirs: dict[int, dict[str, int]], op: Op) -> None:
    """Does to the directories what `op` does to names."""
    if op.kind is Kind.UNLINK:
        if dirs[op.node].get(op.name) == op.target:
            del dirs[op.node][op.name]
        return
    if op.kind is Kind.RENAME and dirs[op.old_node].get(op.old_name) == op.target:
        del dirs[op.old_node][op.old_name]
    dirs[op.node][op.name] = op.target
