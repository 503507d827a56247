"""`replay`: a session stepped through, each line seen as of its own moment.

Only what is looked at is read: opening costs the heads of the files, a moment the lines that it shows and the turns
that they lie in, whatever the size of the log. What became of a line is told by the fold of `explain`, over the log up
to the moment: the same line can be visible at one moment and rolled back at the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.items import text_of
from rollout.dialects.codex.telling import tell
from rollout.files.encrypted.keys import Cipher
from rollout.files.file_watch import Notice, Whereabouts
from rollout.files.source import AnySource, Origin, find
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.fold.line_status import LineStatuses
from rollout.format import records, strict_json
from rollout.format.records import Line, Segment
from rollout.items import events
from rollout.items.events import AgentLine, LineKind
from rollout.items.history import History
from rollout.items.tokens import TokenNote, Tokens
from rollout.limits import DEFAULT, Limits
from rollout.session.explanation import statuses_back_to
from rollout.session.newest_items import recent_entries
from rollout.session.record import Record, read_line
from rollout.session.state import At, origin_at

_KINDS = {kind: kind for kind in "compaction rollback removal start end error tokens context session".split()}
_KINDS["abort"] = "end"
_STORY = frozenset({"item", "compaction", "rollback", "removal", "start", "end", "error", "damaged"})
_LINES_A_PAUSE = 256
_MORE_LINES = 64  # how far behind the steps of a scene tokens and the model are looked for
_TOLD = 4  # things that these lines tell of them


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class StepPosition:
    """A line: in file `segment` of the lineage (0 is the oldest), from byte `offset` to `end`."""

    segment: int
    offset: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One line of a log, as of a moment.

    `kind` is one of item, compaction, rollback, removal, start, end (of a turn), error, damaged, tokens, context,
    session, other. `record` is what the line holds; of several records the last. `status` and `reason` are as in
    `Explained`; `by_offset` is where the record lies that replaced, rolled back or removed it. `turn_id` is derived
    where the log gives none.
    """

    position: StepPosition
    kind: str
    record: Record = dataclasses.field(repr=False)
    status: str = ""
    by_offset: int | None = None
    turn_id: str | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The record's own kind."""
        return self.record.type if self.record.is_damaged else self.record.kind or self.record.type

    @property
    def item(self) -> dict[str, Any] | None:
        """What the model was shown; None for a step that is no item."""
        if self.kind != "item":
            return None
        event = _event_of(self.record)
        is_made = isinstance(event, events.AgentMessage) and event.is_made
        found = strict_json.decode_value(CODEX.item_of(AgentLine(self.record.data) if is_made else self.record.data))
        return found if isinstance(found, dict) else None

    @property
    def is_story(self) -> bool:
        """Whether it tells something to people that no other line tells."""
        return self.kind in _STORY


@dataclasses.dataclass(frozen=True, slots=True)
class PlaybackView:
    """A session as it was when the line of the last of `steps` had been written.

    `folded`: older steps are left out, as the first one is a compaction that stands for them. `tokens` and `last_usage`
    (totals, and the last request's) and `window_tokens`, `model`: as the newest lines that were read say, else None.
    """

    steps: tuple[Step, ...]
    folded: bool
    tokens: Tokens | None = None
    last_usage: Tokens | None = None
    window_tokens: int | None = None
    model: str | None = None
    turn_id: str | None = None
    turn_began: str | None = None
    """The timestamp of the line that opened the turn."""
    turn_position: StepPosition | None = None

    @property
    def step(self) -> Step:
        """The newest one."""
        return self.steps[-1]


class Playback:
    """A session to step through, made by `rollout.replay`. Close it, or use it as a context manager."""

    path: Path | None
    """The file; None for bytes."""
    thread_id: str | None
    session: dict[str, Any] | None
    """The payload of the first session_meta."""
    notice: str | None
    """What the last `refresh` found to have happened to the file, in words: the thread goes on in another one."""

    def __init__(self, origin: Origin, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = origin.limits
        self._small = dataclasses.replace(
            origin.limits, chunk_bytes=min(origin.limits.chunk_bytes, origin.limits.first_chunk_bytes)
        )
        self.notice = None
        self._whereabouts: Whereabouts | None = None
        self._moved: Notice | None = None  # not opened yet
        if origin.path is not None:
            self._whereabouts = Whereabouts(origin.path.absolute(), origin.home, origin.fs, clock)
        self._open(origin)
        self._common = len(self._segments)

    def _open(self, origin: Origin) -> None:
        """Opens all files, or leaves everything as it is."""
        with contextlib.ExitStack() as exits:
            lineage = exits.enter_context(origin.opened())
            segments: Sequence[Segment] = list(lineage)[::-1]
            self._exits = exits.pop_all()
        self._origin, self._lineage, self._segments = origin, lineage, segments
        first = lineage.opened[0]
        self.session, self.thread_id, self.path = first.session, first.thread, origin.path

    def __enter__(self) -> Playback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of all files."""
        self._exits.close()

    @property
    def bytes_read(self) -> int:
        """Bytes read of all files since they were opened."""
        return self._lineage.bytes_read

    @property
    def size_bytes(self) -> int:
        """The text of all files, as far as it is the session's."""
        return sum(segment.end for segment in self._segments)

    def bytes_up_to(self, position: StepPosition) -> int:
        """How many bytes of the session come up to the end of a line."""
        return sum(segment.end for segment in self._segments[: position.segment]) + position.end

    def holds(self, position: StepPosition) -> bool:
        """Whether the session still reaches as far as a line, in the same file, after a `refresh`."""
        return position.segment < self._common and position.end <= self._segments[position.segment].end

    def inherited(self, position: StepPosition) -> str | None:
        """The thread of the base that a line lies in; None for the file's own lines."""
        return None if position.segment == len(self._segments) - 1 else self._segments[position.segment].thread

    def refresh(self) -> bool:
        """Look again at files that are being written; whether they have changed.

        Goes along to where the file was sealed or moved to, and to another one in which the thread goes on (a rollback
        can be one): `notice` tells of that. A replay of an earlier moment stays at it.

        Raises:
            SourceError: The files are gone.
        """
        origin, before, old = self._origin, self._segments, self._exits
        if self._whereabouts is not None and origin.size is None:
            notice = self._whereabouts.look()
            if notice is not None and notice.happened != "deleted":
                self._moved = notice
        self._open(origin if self._moved is None else dataclasses.replace(origin, path=self._moved.path))
        old.close()
        self.notice, self._moved = None if self._moved is None else self._moved.what, None
        same = (_name(was) == _name(now) for was, now in zip(before, self._segments, strict=False))
        self._common = sum(itertools.takewhile(bool, same))
        return [(each.path, each.end) for each in before] != [(each.path, each.end) for each in self._segments]

    def first(self, *, everything: bool = False) -> StepPosition | None:
        """The oldest step; None if there is none."""
        return _first(self._forward(0, 0), everything)

    def last(self, *, everything: bool = False) -> StepPosition | None:
        """The newest step."""
        end = len(self._segments) - 1
        return _first(self._backward(end, self._segments[end].end), everything)

    def after(self, position: StepPosition, *, everything: bool = False) -> StepPosition | None:
        """The step that comes next."""
        return _first(self._forward(position.segment, position.end), everything)

    def before(self, position: StepPosition, *, everything: bool = False) -> StepPosition | None:
        """The step that came before."""
        return _first(self._backward(position.segment, position.offset), everything)

    def jump(
        self, position: StepPosition, kinds: Collection[str], *, back: bool = False
    ) -> Iterator[StepPosition | None]:
        """The next older or newer step of these kinds. Gives None now and then while it is not found yet."""
        return self._look(position, lambda step: step.kind in kinds, back=back)

    def search(self, position: StepPosition, text: str, *, back: bool = False) -> Iterator[StepPosition | None]:
        """The next step with this text in it, in upper case or lower: of messages, calls and outputs."""
        wanted = text.casefold()

        def has_text(step: Step) -> bool:
            found = text_of(step.record.data, step.record.envelope) if step.record.data else None
            return found is not None and wanted in found[1].casefold()

        return self._look(position, has_text, back=back)

    def next_turn(self, position: StepPosition) -> Iterator[StepPosition | None]:
        """Where the next turn begins: its task_started, or the message that opens it. None now and then."""

        def opens_turn(step: Step) -> bool:
            if step.kind != "item":
                return step.kind == "start"
            is_boundary = isinstance(_event_of(step.record), events.BOUNDARIES)
            return is_boundary and self.scene(step.position, 1, everything=True).turn_position == step.position

        return self._look(position, opens_turn, back=False)

    def turn_before(self, position: StepPosition) -> StepPosition | None:
        """Where the turn of a line begins; of a line where one begins, where the one before does. None if none does."""
        own = self.scene(position, 1, everything=True).turn_position
        if own is not None and own != position:
            return own
        before = self.before(own or position, everything=True)
        return None if before is None else self.scene(before, 1, everything=True).turn_position

    def scene(self, position: StepPosition, count: int, *, everything: bool = False, fold: bool = True) -> PlaybackView:
        """The newest `count` steps up to a position (or fewer, where there are no more), as of that moment."""
        steps: list[Step] = []  # newest first
        more = _MORE_LINES
        told: dict[str, Any] = {}
        for step in self._backward(position.segment, position.end):
            note = _note_of(step.record)
            if note is not None:
                _keep_newest(told, note)
            if len(steps) < count and (everything or step.is_story or step.position == position):
                steps.append(step)
            elif len(steps) >= count:
                more -= 1
                if not more or len(told) == _TOLD:
                    break
        oldest = (position.segment - steps[-1].position.segment, steps[-1].record.offset)
        statuses = statuses_back_to(self._up_to(position), oldest, self._limits)
        steps = list(self._judged(steps, statuses, position.segment))
        is_base = (n for n, step in enumerate(steps) if step.kind == "compaction" and step.status == "metadata")
        base = next(is_base, None) if fold else None
        shown = steps if base is None else steps[: base + 1]
        opening = self._opening_of(steps[0], statuses, position.segment)
        return PlaybackView(
            tuple(reversed(shown)),
            base is not None,
            **told,
            turn_id=steps[0].turn_id,
            turn_began=None if opening is None else opening.record.timestamp,
            turn_position=None if opening is None else opening.position,
        )

    def seen(self, position: StepPosition, count: int) -> tuple[History, bool]:
        """The newest `count` items of the history that the model saw at a position, and whether that is all of it."""
        log = self._up_to(position)
        entries = recent_entries(log, count + 1, self._limits)
        if entries is None:
            history = Reconstruction(log, Collector(CODEX, limits=self._limits)).run().history
        else:
            history = History(entries, CODEX)
        return history[-count:], len(history) <= count

    def steps(self, *, progress: Callable[[int, int], None] | None = None) -> Iterator[Step]:
        """The step of each line, oldest first, as of the end of the log, as `explain` has it. Reads all, twice."""
        statuses = statuses_back_to(self._segments[::-1], None, self._limits, progress)
        yield from self._judged(self._forward(0, 0), statuses, len(self._segments) - 1)

    def _up_to(self, position: StepPosition) -> list[Segment]:
        """The log up to the end of a line, newest segment first."""
        newest = dataclasses.replace(self._segments[position.segment], end=position.end)
        return [newest, *self._segments[: position.segment][::-1]]

    def _forward(self, segment: int, offset: int) -> Iterator[Step]:
        """The steps from a byte of a segment on."""
        last = len(self._segments) - 1
        lines = records.forward(self._segments[::-1], self._small, segment=last - segment, start=offset)
        return self._steps_of(lines, last)

    def _backward(self, segment: int, end: int) -> Iterator[Step]:
        """The steps ahead of a byte, newest first."""
        return self._steps_of(records.backward(self._up_to(StepPosition(segment, 0, end)), self._small), segment)

    def _steps_of(self, lines: Iterable[Line], newest: int) -> Iterator[Step]:
        for line in lines:
            if not line.data and line.skipped != "oversize":
                continue
            found = read_line(line, self._limits)
            record = next((each for each in reversed(found) if each.data), found[-1])
            yield Step(StepPosition(newest - line.segment, line.offset, line.end), _kind_of(record), record)

    def _judged(self, steps: Iterable[Step], statuses: LineStatuses, newest: int) -> Iterator[Step]:
        """The steps with what became of them; `newest` is the segment in which the moment lies."""
        threads = [segment.thread for segment in self._segments[newest::-1]]
        for step in steps:
            found = statuses.find(newest - step.position.segment, step.record.offset)
            if found is None:
                reason = step.record.reason
                yield dataclasses.replace(step, status="damaged" if reason else "blank", reason=reason)
                continue
            run, status, by = found
            yield dataclasses.replace(
                step,
                status=status,
                by_offset=None if by is None else by.offset,
                turn_id=statuses.turn_id(run.turn, threads),
                reason=step.record.reason or run.reason,
            )

    def _opening_of(self, step: Step, statuses: LineStatuses, newest: int) -> Step | None:
        """The line that opened the turn of a step."""
        found = statuses.find(newest - step.position.segment, step.record.offset)
        if found is None or found[0].turn < 0:
            return None
        opening = statuses.turns[found[0].turn].opening
        segment, begin = newest - opening.segment, opening.offset
        end = min(begin + opening.size + 1, self._segments[segment].end)
        return next(each for each in self._backward(segment, end) if each.position.offset <= begin)

    def _look(
        self, position: StepPosition, fits: Callable[[Step], bool], *, back: bool
    ) -> Iterator[StepPosition | None]:
        begin = self._backward(position.segment, position.offset) if back else None
        for count, step in enumerate(begin or self._forward(position.segment, position.end)):
            if fits(step):
                yield step.position
                return
            if count % _LINES_A_PAUSE == 0:
                yield None


def replay(
    source: AnySource,
    *,
    home: str | Path | None = None,
    at: At | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Playback:
    """Open a session to step through it. Close what it gives.

    Args:
        source: As in `rollout.reconstruct`, and so are the others.
        at: As it was then, and as it stays.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        clock: Seconds: tells when `refresh` looks through the home again.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return Playback(origin_at(find(source, home, limits, cipher), at), clock)


def _name(segment: Segment) -> str:
    """The name of a file, sealed or not, wherever it lies."""
    return "" if segment.path is None else Path(segment.path).name.removesuffix(".zst")


def _first(steps: Iterator[Step], everything: bool) -> StepPosition | None:
    return next((step.position for step in steps if everything or step.is_story), None)


def _event_of(record: Record) -> events.Event | LineKind:
    return CODEX.event_of(record.data, record.envelope, False)


def _note_of(record: Record) -> TokenNote | None:
    return CODEX.token_note(record.data, record.envelope) if record.data else None


def _kind_of(record: Record) -> str:
    if not record.data:
        return "damaged" if record.is_damaged else "other"
    event = _event_of(record)
    if isinstance(event, events.Malformed):
        return "damaged"
    if isinstance(event, events.ITEM_EVENTS) or event in (LineKind.ITEM, LineKind.SAID):
        return "item"
    return _KINDS.get(tell(record.type, record.kind).kind, "other")


def _keep_newest(told: dict[str, Any], note: TokenNote) -> None:
    """Keep what a line tells of tokens and the model, unless a newer one has told it."""
    found: dict[str, object] = {"model": note.model}
    if (reading := note.reading) is not None:
        found = {"tokens": reading.totals, "last_usage": reading.last, "window_tokens": reading.window}
    for key, value in found.items():
        if value is not None:
            told.setdefault(key, value)
