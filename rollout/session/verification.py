"""`verify`: everything that is wrong or odd in a file, and whether its bases are there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from rollout import ids
from rollout.dialects.codex.dialect import CODEX
from rollout.files.encrypted.keys import Cipher
from rollout.files.lineage import Lineage
from rollout.files.log_end import ordinal_of
from rollout.files.port import Progress
from rollout.files.source import AnySource, Origin, find
from rollout.format.labels import read_label
from rollout.format.lines import Damage
from rollout.format.records import Segment
from rollout.items.events import LineKind, Malformed, TurnStarted
from rollout.limits import DEFAULT, Limits
from rollout.session.record import BLANK, Record, read_records

_MOST_NOTES = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """Something odd that costs no record.

    `kind` is one of recovered, malformed, doubled, reused_id, ordinal, label, end, meta, base.
    """

    line: int
    offset: int
    kind: str
    reason: str
    remedy: str | None = None
    path: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found. `ok`: no damage (notes may be there)."""

    path: str | None
    lines: int
    records: int
    damage: tuple[Damage, ...]
    notes: tuple[Note, ...]
    damaged_lines: int
    """Lines that hold damaged bytes, plus one for each base that is missing or ends elsewhere than it is said."""

    @property
    def ok(self) -> bool:
        return not self.damage


class _Examiner:
    """Collects notes over the records of one file."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.notes: list[Note] = []
        self.damage: list[Damage] = []
        self.records = 0
        self.lines = 0
        self._before: Record | None = None
        self._ordinal: int | None = None
        self._turn_ids: set[str] = set()
        self._has_meta = False

    def see(self, record: Record) -> None:
        self.lines = record.line
        if record.type == BLANK and not record.data:
            return
        if record.is_damaged:
            why, kind = record.reason or "damaged", record.kind or "oversize"
            self.damage.append(Damage(record.line, record.offset, why, kind, self.path))
        else:
            self.records += 1
            self._see_record(record)
        self._before = record

    def _note(self, record: Record, kind: str, reason: str, remedy: str | None = None) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Note(record.line, record.offset, kind, reason, remedy, self.path))

    def _see_record(self, record: Record) -> None:
        before = self._before
        if before is not None and before.line == record.line:
            reason = "a whole record stands behind other bytes in the same line"
            self._note(record, "recovered", reason, "`rollout repair` gives it a line of its own")
        if before is not None and before.data == record.data:
            self._note(record, "doubled", "the same line as the one before")
        event = CODEX.event_of(record.data, record.envelope, False)
        if event is LineKind.SESSION:
            if not self._has_meta and self.records > 1:
                self._note(record, "meta", "the session_meta is not the first record")
            self._has_meta = True
        elif isinstance(event, Malformed):
            self._note(record, "malformed", event.reason, "it has no effect; nothing else is lost")
        elif isinstance(event, TurnStarted) and event.turn_id is not None:
            if event.turn_id in self._turn_ids:
                self._note(record, "reused_id", f"turn id {event.turn_id:.80} was used before")
            self._turn_ids.add(event.turn_id)
        for reason in read_label(record.data)[1]:
            self._note(record, "label", reason, "it counts as unset; nothing else is lost")
        ordinal = ordinal_of(record.data)
        if ordinal is not None:
            if self._ordinal is not None and ordinal != self._ordinal + 1:
                self._note(record, "ordinal", f"ordinal {ordinal} follows {self._ordinal}")
            self._ordinal = ordinal


def verify(
    source: AnySource,
    *,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> Report:
    """All damage of one file, and whether its bases are there. Reads everything.

    Args:
        source: As in `reconstruct`, and so are `home`, `limits`, `cipher` and `progress`.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
    """
    return examine(find(source, home, limits, cipher), progress)


def examine(origin: Origin, progress: Progress | None = None) -> Report:
    """Read a whole file and look for its bases."""
    with origin.opened() as lineage:
        first = lineage.opened[0]
        examiner = _Examiner(None if first.path is None else str(first.path))
        record = None
        for record in read_records([Segment(first.source, lineage.end)], origin.limits):
            examiner.see(record)
            if progress is not None:
                progress(record.offset + len(record.raw), lineage.end)
        if record is not None and not record.is_damaged and record.data and not record.raw.endswith(b"\n"):
            examiner.notes.append(
                Note(record.line, record.offset, "end", "the last record has no line end", None, examiner.path)
            )
        for _ in lineage:
            pass
        files = lineage.damage()
        examiner.notes += _doubled(lineage, examiner.path)
    return Report(
        path=examiner.path,
        lines=examiner.lines,
        records=examiner.records,
        damage=(*examiner.damage, *files),
        notes=tuple(examiner.notes),
        damaged_lines=len({damage.line for damage in examiner.damage}) + len(files),
    )


def _doubled(lineage: Lineage, path: str | None) -> Iterator[Note]:
    """A note for each base whose id other files of the home have too."""
    for base in lineage.opened[1:]:
        assert base.path is not None  # it was looked up
        parts = ids.parse_file_name(base.path.name)
        others = [other for other in lineage.bases.all_of(parts.file) if other != base.path] if parts else []
        if others:
            reason = f"goes on from {base.path}; the same id has {others[0]}" + (", …" if len(others) > 1 else "")
            yield Note(1, 0, "base", reason, "compare them, and take one out of the home", path)
