"""The state to go on from, and the turns that led to it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rollout.dialects.codex.dialect import CODEX
from rollout.dialects.codex.prompt import make_prompt
from rollout.dialects.codex.session_meta import base_of
from rollout.files.source import Origin
from rollout.fold.collector import Collector
from rollout.fold.engine import Reconstruction
from rollout.fold.projection import ContextBaseline, Reference
from rollout.fold.turn_list import ItemPlace, Turn, TurnCollector
from rollout.format.lines import Damage
from rollout.items.dialect import AgentLine, Entry
from rollout.items.history import History
from rollout.items.kinds import Item
from rollout.items.truncation import Truncation

Progress = Callable[[int, int], None]


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
        session = self.session or {}
        given = session.get("base_instructions", session.get("instructions"))
        text = given.get("text") if isinstance(given, dict) else given
        return text if isinstance(text, str) else None

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
            for is_run, is_made, segment, offset, size in places:
                data = sources[segment].read_at(offset, size)
                if is_run:
                    entries += CODEX.shown_lines(data, origin.limits.depth)
                else:
                    entries.append(AgentLine(data) if is_made else data)
        return History(entries, CODEX)

    return load
