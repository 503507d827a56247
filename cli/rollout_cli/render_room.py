"""Room, as rows to read: what takes it, and what is given back. As in `render`, nothing here prints or escapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollout_cli.cells import NARROW_COLUMNS, cut_front
from rollout_cli.render import count, size
from rollout_cli.terminal import Line

if TYPE_CHECKING:
    import rollout

_SIZE_COLUMNS = 13
_CAUSES = {
    "standing": "items that the model sees",
    "replaced": "items that a compaction took",
    "rolled_back": "items that were rolled back",
    "removed": "items that were removed",
    "images": "images",
    "copied_prefix": "copies in forks of their source",
    "compactions": "copies in compactions",
    "events": "events, for people",
    "metadata": "settings and tokens",
    "damaged": "damaged lines",
    "blank": "blank",
}


def room(room: rollout.DiskUsage, columns: int | None, *, each: bool) -> Iterator[Line]:
    """`rollout du`: what the bytes are for, most first; with `each`, that of every file before the sum."""
    for usage in room.rows:
        if usage.trouble is not None:
            yield (f"{usage.path}: ", (usage.trouble, "red"))
        elif each:
            path = str(usage.path)
            path = path if columns is None else cut_front(path, columns - _SIZE_COLUMNS)
            yield from _usage(usage, path, columns)
    total = room.total
    yield from _usage(total, count(total.files, "file"), columns)


def _usage(usage: rollout.FileUsage, name: str, columns: int | None) -> Iterator[Line]:
    sealed = f", {size(usage.text_bytes)} unpacked" if usage.text_bytes != usage.disk_bytes else ""
    yield (f"{size(usage.disk_bytes):>11}  ", "bold"), f"{name}{sealed}"
    for cause, taken in sorted(usage.causes.items(), key=lambda pair: pair[1], reverse=True):
        if taken:
            is_narrow = columns is not None and columns < NARROW_COLUMNS
            share = "" if is_narrow else f"{100 * taken / usage.text_bytes:5.1f} %  "
            yield (f"{size(taken):>11}  {share}{_CAUSES.get(cause, cause)}",)
    if usage.would_free_bytes:
        yield f"{size(usage.would_free_bytes):>11}  ", ("given back by sealing, about", "yellow")
