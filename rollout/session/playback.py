"""`replay`: a session stepped through, each step seen as of its own moment.

A `Playback` reads what is looked at: opening one costs the heads of its files, a moment the lines that it shows and the
turns that they lie in, whatever the size of the log. What became of a line is judged by the same fold as `explain`,
over the log up to the moment; that judgement holds until the next line that compacts, rolls back or removes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.items import text_of
from rollout.files.encrypted.keys import Cipher
from rollout.files.file_watch import Notice, Whereabouts
from rollout.files.source import AnySource, Origin, find
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.format.records import Segment
from rollout.items.history import History
from rollout.limits import DEFAULT, Limits
from rollout.session.moments import At, origin_at
from rollout.session.newest_items import recent_entries
from rollout.session.status_at import StatusesAt
from rollout.session.steps import (
    COMPACTION,
    CONTEXT,
    START,
    TOKENS,
    Step,
    StepPosition,
    steps_backward,
    steps_forward,
    tokens_of,
)

_LINES_A_PAUSE = 256
_MORE_LINES = 64  # how far behind the steps of a scene tokens and the model are looked for
_TOLD = 4  # things that lines tell of them
_AGENTS = frozenset({"inter_agent_communication", "agent_message"})


@dataclasses.dataclass(frozen=True, slots=True)
class PlaybackView:
    """A session as it was when the line of the last of `steps` had been written.

    `folded`: older steps are left out, as the first one is a compaction that stands for them. `tokens` and `last_usage`
    (totals, and the last request's) and `window_tokens`, `model`: as the newest lines that were read say, else None.
    """

    steps: tuple[Step, ...]
    folded: bool
    tokens: dict[str, Any] | None = None
    last_usage: dict[str, Any] | None = None
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
        self._statuses = StatusesAt(self._segments, self._limits, self._small)
        first = self._lineage.opened[0]
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
        return next((step.position for step in self._forward(0, 0) if everything or step.is_story), None)

    def last(self, *, everything: bool = False) -> StepPosition | None:
        """The newest step."""
        end = len(self._segments) - 1
        steps = self._backward(end, self._segments[end].end)
        return next((step.position for step in steps if everything or step.is_story), None)

    def after(self, position: StepPosition, *, everything: bool = False) -> StepPosition | None:
        """The step that comes next."""
        steps = self._forward(position.segment, position.end)
        return next((step.position for step in steps if everything or step.is_story), None)

    def before(self, position: StepPosition, *, everything: bool = False) -> StepPosition | None:
        """The step that came before."""
        steps = self._backward(position.segment, position.offset)
        return next((step.position for step in steps if everything or step.is_story), None)

    def jump(
        self, position: StepPosition, kinds: Collection[str], *, back: bool = False
    ) -> Iterator[StepPosition | None]:
        """The next older or newer step of these kinds. Gives None now and then while it is not found yet."""
        return self._look(position, lambda step: step.kind in kinds, back=back)

    def search(self, position: StepPosition, text: str, *, back: bool = False) -> Iterator[StepPosition | None]:
        """The next step with this text in it, in upper case or lower: of messages, calls and outputs."""
        wanted = text.casefold()
        return self._look(position, lambda step: wanted in _text(step).casefold(), back=back)

    def next_turn(self, position: StepPosition) -> Iterator[StepPosition | None]:
        """Where the next turn begins: its task_started, or the message that opens it. None now and then."""
        return self._look(position, self._opens_turn, back=False)

    def turn_before(self, position: StepPosition) -> StepPosition | None:
        """Where the turn of a line begins; of a line where one begins, where the one before does. None if none does."""
        own = self.scene(position, 1, everything=True).turn_position
        if own is not None and own != position:
            return own
        before = self.before(own or position, everything=True)
        return None if before is None else self.scene(before, 1, everything=True).turn_position

    def scene(self, position: StepPosition, count: int, *, everything: bool = False, fold: bool = True) -> PlaybackView:
        """The newest `count` steps up to a position (or fewer, where there are no more), as of that moment."""
        steps: list[Step] = []
        folded, more = False, _MORE_LINES
        told: dict[str, Any] = {}
        for step in self._backward(position.segment, position.end):
            if step.kind in (TOKENS, CONTEXT):
                _tell(told, step)
            if len(steps) >= count:
                more -= 1
                if not more or len(told) == _TOLD:
                    break
                continue
            if not (everything or step.is_story or step.position == position):
                continue
            judged = self._statuses.tell(step, position, count)
            steps.append(judged)
            if fold and judged.kind == COMPACTION and judged.status == "metadata":
                folded = True
                break
        turn = self._statuses.turn_of(steps[0]) if steps else {}
        return PlaybackView(tuple(reversed(steps)), folded, **told, **turn)

    def seen(self, position: StepPosition, count: int) -> tuple[History, bool]:
        """The newest `count` items of the history that the model saw at a position, and whether that is all of it."""
        segments = self._statuses.up_to(position.segment, position.end)
        entries = recent_entries(segments, count + 1, self._limits)
        history = (
            Reconstruction(segments, Collector(CODEX, limits=self._limits)).run().history
            if entries is None
            else History(entries, CODEX)
        )
        return history[-count:], len(history) <= count

    def steps(self, *, progress: Callable[[int, int], None] | None = None) -> Iterator[Step]:
        """The step of each line, oldest first, as of the end of the log, as `explain` has it. Reads all, twice."""
        judged = self._statuses.at_end(progress)
        yield from map(judged, self._forward(0, 0))

    def _forward(self, segment: int, offset: int) -> Iterator[Step]:
        return steps_forward(self._segments, segment, offset, self._limits, small=self._small)

    def _backward(self, segment: int, end: int) -> Iterator[Step]:
        return steps_backward(self._segments, segment, end, self._limits, small=self._small)

    @property
    def _small(self) -> Limits:
        return dataclasses.replace(
            self._limits, chunk_bytes=min(self._limits.chunk_bytes, self._limits.first_chunk_bytes)
        )

    def _look(
        self, position: StepPosition, fits: Callable[[Step], bool], *, back: bool
    ) -> Iterator[StepPosition | None]:
        steps = (
            self._backward(position.segment, position.offset) if back else self._forward(position.segment, position.end)
        )
        for count, step in enumerate(steps):
            if fits(step):
                yield step.position
                return
            if count % _LINES_A_PAUSE == 0:
                yield None

    def _opens_turn(self, step: Step) -> bool:
        if step.kind == START:
            return True
        is_message = step.name == "message" and step.facts.get("role") == "user"
        if not is_message and step.name not in _AGENTS:
            return False
        return self.scene(step.position, 1, everything=True).turn_position == step.position


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


def _tell(told: dict[str, Any], step: Step) -> None:
    """Keep what a line tells of tokens and the model, unless a newer one has told it."""
    if step.kind == CONTEXT:
        model = step.facts.get("model")
        if isinstance(model, str):
            told.setdefault("model", model)
        return
    for key, value in zip(("tokens", "last_usage", "window_tokens"), tokens_of(step), strict=True):
        if value is not None:
            told.setdefault(key, value)


def _text(step: Step) -> str:
    envelope = codec.decode_plain(step.data) if step.data else None
    found = None if envelope is None else text_of(step.data, envelope)
    return "" if found is None else found[1]
