"""The state to go on from, and the turns that led to it, as a log is or as it was at a moment.

What was written up to a moment is all that counts: a compaction or a rollback that came later has not happened. The
state at a moment is that of a file that ends there. Damage in the data is never an exception.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.prompt import make_prompt
from rollout.dialects.codex.session_meta import base_of, instructions_of
from rollout.errors import Ambiguous, NotFound, UsageError
from rollout.files import positions
from rollout.files.encrypted.keys import Cipher
from rollout.files.port import Progress
from rollout.files.positions import Extent
from rollout.files.source import AnySource, Origin, find
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.fold.projection import ContextBaseline, Reference
from rollout.fold.turn_list import ItemPlace, Turn, TurnCollector
from rollout.format.lines import Damage
from rollout.format.records import Segment
from rollout.items.events import AgentLine, Entry
from rollout.items.history import History
from rollout.items.kinds import Item
from rollout.items.truncation import Truncation
from rollout.limits import DEFAULT, Limits

_SHOWN = 5


@dataclasses.dataclass(frozen=True, eq=False)
class State:
    """What a log says (S1 to S5). Made by `rollout.reconstruct`. What is not there is None.

    The fields are known. `session`, `thread_id`, `base_instructions`, `turns` and `all_turns` are read from the files
    when they are touched; they raise SourceError if those are gone.

    Attributes:
        history: What the model sees (S3), oldest first.
        previous_model: The model of the newest turn that a user began (S4).
        reference: What the model was last told of its settings (S4): never, cleared, or a baseline.
        world_state: The newest snapshot with its patches (S4).
        token_usage: The newest totals (S4).
        damage: What was met on the way that cannot be read. `rollout.verify` lists all there is.
        bytes_read: So many bytes were read, packed ones of a sealed file.
        records_decoded: So many records were looked at.
        end: So many bytes of the file (text bytes of a sealed one) count: up to the moment that this is the state of.
        path: The file, None for bytes in memory.
    """

    history: History
    previous_model: str | None
    reference: Reference
    world_state: dict[str, Any] | None
    token_usage: dict[str, Any] | None
    damage: tuple[Damage, ...]
    bytes_read: int
    records_decoded: int
    end: int
    path: Path | None
    _origin: Origin = dataclasses.field(repr=False)

    def __repr__(self) -> str:
        where = "bytes" if self.path is None else str(self.path)
        return f"<State of {where}: {len(self.history)} items, model {self.previous_model}>"

    @property
    def reference_context(self) -> dict[str, Any] | None:
        """The payload of the turn_context that the model was last told of (S4); None if never set or cleared."""
        return self.reference.context if isinstance(self.reference, ContextBaseline) else None

    @functools.cached_property
    def _head(self) -> tuple[dict[str, Any] | None, str | None]:
        with self._origin.opened() as lineage:
            first = lineage.opened[0]
            session = first.session  # what looks for it knows where it begins
            return session if (first.head.offset or 0) < lineage.end else None, first.thread

    @property
    def session(self) -> dict[str, Any] | None:
        """The payload of the first session_meta."""
        return self._head[0]

    @property
    def thread_id(self) -> str | None:
        """The id of the thread; from the file's name where the file does not say it."""
        return self._head[1]

    @property
    def has_base(self) -> bool:
        """Whether the session goes on from another file, which it names."""
        return base_of(self.session) is not None

    @property
    def base_instructions(self) -> str | None:
        """The text that the session began with."""
        return instructions_of(self.session)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns that stand, oldest first. Reads the whole log, once.

        Raises:
            SourceError: A file of the log can no longer be read.
        """
        return tuple(turn for turn in self.all_turns if turn.stands)

    @functools.cached_property
    def all_turns(self) -> tuple[Turn, ...]:
        """The turns that stand and those that were rolled back. Reads the whole log, once.

        Raises:
            SourceError: A file of the log can no longer be read.
        """
        return read_turns(self._origin)

    def for_prompt(
        self,
        *,
        images: bool = True,
        truncation: Truncation | None = None,
        fresh_context: Sequence[Item] | None = None,
    ) -> list[Item]:
        """The history made sendable (S6).

        Args:
            images: Whether the model reads images.
            truncation: The most that one tool output may take; None: outputs stay whole.
            fresh_context: Developer messages that take the place of the program's old ones.

        Returns:
            The items, oldest first.
        """
        return make_prompt(self.history, images=images, truncation=truncation, fresh_context=fresh_context)


def origin_of(state: State) -> Origin:
    """The bytes that it is the state of, to be opened again."""
    return state._origin


def reconstruct(
    source: AnySource,
    *,
    at: At | None = None,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> State:
    """The state to go on from (S1 to S5), read newest line first and no further than the answer needs.

    Args:
        source: A path, bytes, a thread id or the beginning of one, or -1, -2, … for the newest threads of the home.
        at: As it was then: a turn's id (as that turn ended), `at_line(n)`, `at_ordinal(n)` or a byte offset.
        home: The home that ids, positions and bases are looked up in: else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex.
        limits: The most that is read and held.
        cipher: The keys of an encrypted rollout: else those in the file $ROLLOUT_KEYS_FILE.
        progress: Called with the bytes that were read of a file, and its size, where the work can be long.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return read_state(origin_at(find(source, home, limits, cipher), at, progress), progress)


def turns(
    source: AnySource,
    *,
    at: At | None = None,
    home: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT,
    cipher: Cipher | None = None,
    progress: Progress | None = None,
) -> tuple[Turn, ...]:
    """All turns (S1), oldest first, those that were rolled back too: without a state. Reads everything.

    Args:
        source: As in `reconstruct`, and so are `at`, `home`, `limits`, `cipher` and `progress`.

    Raises:
        SourceError: There is nothing to read: NotFound, Ambiguous, NotARollout, NoKey, WrongKey.
        UsageError: `at` is no moment that a log can have.
    """
    return read_turns(origin_at(find(source, home, limits, cipher), at, progress), progress)


def read_state(origin: Origin, progress: Progress | None = None) -> State:
    """The state of a log, read as far back as it needs; see `rollout.reconstruct`.

    Raises:
        SourceError: The log cannot be read.
    """
    with origin.opened() as lineage:
        answer = Reconstruction(lineage, Collector(CODEX, limits=origin.limits), progress=progress).run()
        return State(
            history=answer.history,
            previous_model=answer.previous_model,
            reference=answer.reference,
            world_state=answer.world_state,
            token_usage=answer.token_usage,
            damage=(*answer.damage, *lineage.damage()),
            bytes_read=lineage.bytes_read,
            records_decoded=answer.records_decoded,
            end=lineage.end,
            path=origin.path,
            _origin=dataclasses.replace(origin, size=lineage.end),
        )


def read_turns(origin: Origin, progress: Progress | None = None) -> tuple[Turn, ...]:
    """All turns of a log, oldest first.

    Raises:
        SourceError: The log cannot be read.
    """
    gatherer = Collector(CODEX, wants_items=False, wants_turns=True, limits=origin.limits)
    with origin.opened() as lineage:
        collector = TurnCollector(lineage.segments, items_of(origin))
        answer = Reconstruction(lineage, gatherer, observers=[collector.see], progress=progress).run()
        return collector.turns(answer.line_counts)


def items_of(origin: Origin) -> Callable[[Sequence[ItemPlace]], History]:
    """What reads the items at some places of a log again."""

    def load(places: Sequence[ItemPlace]) -> History:
        entries: list[Entry] = []
        with origin.opened() as lineage:
            sources = [segment.source for segment in lineage]
            for place in places:
                data = sources[place.segment].read_at(place.offset, place.size)
                if place.is_run:
                    entries += CODEX.shown_lines(data, origin.limits.depth)
                else:
                    entries.append(AgentLine(data) if place.is_made else data)
        return History(entries, CODEX)

    return load


class AtOrdinal(int):
    """The moment behind the line that carries this `ordinal`, as `at` takes it (a plain int is a byte offset there)."""


class AtLine(int):
    """The moment behind that line of the file itself, from 1, as `explain` tells it."""


at_ordinal, at_line = AtOrdinal, AtLine
At: TypeAlias = str | int
"""A turn's id, its unique beginning or its unique end (as that turn ended); an `at_ordinal` or an `at_line` (behind
that line); the byte offset behind a line."""


def origin_at(origin: Origin, at: At | None, progress: Progress | None = None) -> Origin:
    """The log as it was at that moment (None: as it is). A moment that lies in a base is one of that file.

    To find a turn reads everything, a line or an ordinal all before.

    Raises:
        NotFound: There is no such turn, line or ordinal.
        Ambiguous: Several turns have an id that begins, or ends, so.
        UsageError: No line ends at that byte, or it is no moment at all.
    """
    if at is None:
        return origin
    with origin.opened() as lineage:
        segments = list(lineage)
        now = dataclasses.replace(origin, size=lineage.end)
        if type(at) is int and at == lineage.end:
            return now
        found = extent_at(now, segments, at, progress=progress)
    path = segments[found.segment].path
    if found.segment == 0 or path is None:
        return dataclasses.replace(now, size=found.offset)
    return Origin(None, Path(path), origin.home, origin.limits, size=found.offset, fs=origin.fs, keys=origin.keys)


def extent_at(
    origin: Origin, segments: Sequence[Segment], at: At, *, before: bool = False, progress: Progress | None = None
) -> Extent:
    """How far the log had come: `segments` are those of `origin`, newest first. `before`: as the turn began."""
    if isinstance(at, bool) or not isinstance(at, int | str):
        raise UsageError(
            f"{at!r} is no point of a log", remedy="give a turn id, at_line(n), at_ordinal(n) or a byte offset"
        )
    if isinstance(at, AtOrdinal):
        return positions.extent_at_ordinal(segments, at, origin.limits)
    if isinstance(at, AtLine):
        return positions.extent_at_line(segments, at)
    if isinstance(at, int):
        return positions.extent_at_offset(segments, at)
    turns = read_turns(origin, progress)
    i = _find(turns, at, origin.path)
    of_path = {segment.path: number for number, segment in enumerate(segments)}
    places = [(of_path[turn.path], turn.offset) for turn in turns[i : i + 2]]
    if before:
        return positions.extent_at_offset(segments, places[0][1], places[0][0])
    return positions.extent_of_turn(segments, places[0], places[1] if len(places) > 1 else None, origin.limits)


def _find(turns: Sequence[Turn], wanted: str, path: Path | None) -> int:
    """Which turn that is; of several with one id the newest."""
    wanted = wanted.removeprefix("…")  # as a narrow terminal shows an id
    if not wanted:
        raise UsageError("an empty turn id", path=path, remedy="give a turn id or the beginning of one")
    for fits in (str.__eq__, str.startswith, str.endswith):
        found = {turn.id: i for i, turn in enumerate(turns) if fits(turn.id, wanted)}
        if len(found) == 1:
            return found.popitem()[1]
        if found:
            shown = ", ".join(list(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            raise Ambiguous(f"{len(found)} turns fit {wanted!r}", path=path, remedy=f"give more of the id: {shown}")
    raise NotFound(f"there is no turn {wanted}", path=path, remedy="`rollout turns --all` lists all that there are")
