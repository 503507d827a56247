"""Room, as JSON documents for `Output.print_json`; `documents` says what their keys are to scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rollout_cli.documents import array, encode, name

if TYPE_CHECKING:
    import rollout


def room(room: rollout.DiskUsage) -> Iterator[bytes]:
    """`rollout du --json`: {total, files}, each {path, text_bytes, disk_bytes, sealed, causes, would_free_bytes, …}."""
    yield b'{"total":' + encode(_usage(room.total)) + b',"files":'
    yield from array(encode(_usage(each)) for each in room.rows)
    yield b"}"


def _usage(usage: rollout.FileUsage) -> dict[str, Any]:
    return {
        "path": name(usage.path),
        "text_bytes": usage.text_bytes,
        "disk_bytes": usage.disk_bytes,
        "sealed": usage.sealed,
        "causes": dict(usage.causes),
        "would_free_bytes": usage.would_free_bytes,
        "files": usage.files,
        "trouble": usage.trouble,
    }
