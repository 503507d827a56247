"""What kind of record an explained line holds: the library explains places, the records of the file say the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import rollout


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """One explained line, and its `kind`: an event's or item's own type, else the line's; damaged; blank."""

    explained: rollout.Explained
    kind: str


def name_kinds(lines: Iterable[rollout.Explained]) -> Iterator[Place]:
    """Each line with its kind, oldest first as they come."""
    for line, record in pair_records(lines):
        yield Place(line, line.status if record is None else _kind(record))


def pair_records(lines: Iterable[rollout.Explained]) -> Iterator[tuple[rollout.Explained, rollout.Record | None]]:
    """Each line with its record, oldest first as they come; reads each file of the lineage once, beside the lines."""
    path: str | None = None
    records: Iterator[rollout.Record] = iter(())
    record: rollout.Record | None = None
    for line in lines:
        if line.path != path:
            path = line.path
            records = iter(()) if path is None else rollout.records(path)
            record = next(records, None)
        while record is not None and record.offset < line.offset:
            record = next(records, None)
        yield line, record if record is not None and record.offset == line.offset else None


def _kind(record: rollout.Record) -> str:
    return record.type if record.kind is None or record.is_damaged else record.kind
