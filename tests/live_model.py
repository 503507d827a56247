"""A session as it lives in memory: what must come back when its log is read.

`Live` is told of each record as it is written, and knows at any time what S1 to S4 say of all of them. It never looks
back over records: what a rollback restores was set aside when its boundary came. So it answers in another way than the
engine does, and shares no code with it. Not modelled: user_message events of turns without a user's item, old
compactions, and items that no model sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from rollout.fold.projection import ContextBaseline, ContextCleared
from rollout.session.state import State

Item = Mapping[str, Any]
Seen = dict[str, Any]
"""What is compared: history, previous_model, reference, world_state, token_usage, turns."""

_TAGS = (
    *("environment_context", "skill", "user_shell_command", "turn_aborted", "subagent_notification"),
    *("recommended_plugins", "goal_context", "agent_message_board_notification", "hook_prompt"),
)
_DEVELOPER = (
    *("permissions instructions", "model_switch", "collaboration_mode", "realtime_conversation"),
    "personality_spec",
)


def see(state: State) -> Seen:
    """What a state says. Derived ids of turns go with byte offsets: they are left out."""
    told = state.reference
    return {
        "history": list(state.history),
        "previous_model": state.previous_model,
        "reference": told.context
        if isinstance(told, ContextBaseline)
        else "cleared"
        if isinstance(told, ContextCleared)
        else None,
        "world_state": state.world_state,
        "token_usage": state.token_usage,
        "turns": [(None if turn.derived else turn.id, turn.status) for turn in state.turns],
    }


def is_contextual(item: Item) -> bool:
    """S5, for messages of one text part as programs write them."""
    if item["type"] != "message":
        return False
    texts = [str(part.get("text", "")).strip().lower() for part in item["content"]]
    if item["role"] == "developer":
        return any(text.startswith(f"<{tag}>") for text in texts for tag in _DEVELOPER)
    ends = [(f"<{tag}", f"</{tag}>") for tag in _TAGS] + [("# agents.md instructions", "</instructions>")]
    return item["role"] == "user" and any(text.startswith(a) and text.endswith(b) for text in texts for a, b in ends)


def is_boundary(item: Item) -> bool:
    """S1: a person's message, or another agent's."""
    is_user = item["type"] == "message" and item["role"] == "user"
    return item["type"] == "agent_message" or (is_user and not is_contextual(item))


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    """What stands of one turn."""

    records: int = 0
    has_boundary: bool = False
    first_model: str | None = None
    context: Item | None = None
    is_cleared: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Standing:
    """What a rollback can restore. `run` is how many of the newest items are contextual and would go with a cut."""

    place: int = 0
    history: tuple[Item, ...] = ()
    run: tuple[int, ...] = ()  # the turn of each
    turns: tuple[_Told, ...] = ()
    world: Any = None
    base: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Turn:
    id: str | None
    status: str
    before: _Standing


@dataclasses.dataclass(frozen=True, slots=True)
class _Boundary:
    turn: int
    before: _Standing


@dataclasses.dataclass(frozen=True, slots=True)
class _Prefix:
    """An item from before the first boundary of all: it stays, whatever is rolled back."""

    place: int
    turn: int
    item: Item


class Live:
    """A session, told record by record. `copy` is cheap."""

    def __init__(self) -> None:
        self._now = _Standing()
        self._turns: list[_Turn] = []
        self._open = False
        self._boundaries: list[_Boundary] = []  # that stand
        self._had_boundary = False
        self._prefix: list[_Prefix] = []
        self._usage: tuple[int, Any] = (0, None)
        self._above: list[tuple[str, tuple[Any, ...]]] = []  # the run that an implicit turn would take along
        self._before_above = self._now

    def copy(self) -> Live:
        """Another one that goes on from here."""
        other = Live()
        for name, value in vars(self).items():
            setattr(other, name, list(value) if isinstance(value, list) else value)
        return other

    @property
    def open_turn(self) -> str | None:
        """The id of the turn that is open."""
        return self._turns[-1].id if self._open else None

    @property
    def turn_ids(self) -> list[str]:
        """Of all turns that have an id, oldest first."""
        return [turn.id for turn in self._turns if turn.id is not None]

    @property
    def boundary_count(self) -> int:
        """How many boundaries stand."""
        return len(self._boundaries)

    def seen(self) -> Seen:
        """What a reader must see (S1, S3, S4)."""
        kept = {prefix.turn for prefix in self._prefix}
        place, usage = self._usage
        return {
            "history": list(self._now.history),
            "previous_model": self._previous_model(),
            "reference": self._reference(),
            "world_state": self._now.world,
            "token_usage": usage if place >= self._now.base else None,
            "turns": [
                (turn.id, turn.status)
                for i, turn in enumerate(self._turns)
                if i in kept or (i < len(self._now.turns) and self._now.turns[i].records)
            ],
        }

    # records

    def start(self, turn_id: str) -> None:
        """task_started."""
        self._begin(_Turn(turn_id, "interrupted", self._now))
        self._open = True
        self._record()

    def context(self, payload: Item) -> None:
        """turn_context, of the open turn."""
        told = self._told()
        self._record(first_model=told.first_model or payload["model"], context=payload, is_cleared=False)

    def event(self) -> None:
        """Any event that has no meaning but that it happened; a session_meta inside too."""
        self._record()

    def meta(self) -> None:
        """session_meta: of the file, not of a turn."""
        self._advance()

    def item(self, item: Item) -> None:
        """response_item, of a type that models see."""
        if is_boundary(item):
            self._boundary(item)
            return
        above = ("item", (item,)) if is_contextual(item) else None
        self._record(above)
        run: tuple[int, ...] = ()
        if not self._had_boundary:
            self._prefix.append(_Prefix(self._now.place, len(self._turns) - 1, item))
        elif above is not None:
            run = (*self._now.run, len(self._turns) - 1)
        self._set(history=(*self._now.history, item), run=run)

    def world(self, full: bool, state: Any) -> None:
        """world_state."""
        self._record(("world", (full, state)))
        if full:
            self._set(world=state)
        elif self._now.world is not None:
            self._set(world=_patched(self._now.world, state))

    def usage(self, totals: Any) -> None:
        """A token_count, or a token_usage_record."""
        self._record()
        self._usage = (self._now.place, totals)

    def compacted(self, items: Iterable[Item]) -> None:
        """compacted, with a replacement_history."""
        self._record(context=None, is_cleared=True)
        self._set(history=tuple(items), run=(), world=None, base=self._now.place)

    def items_removed(self, num_items: int) -> None:
        """The event of that name."""
        self._record()
        kept = max(len(self._now.history) - num_items, 0)
        self._set(history=self._now.history[:kept], run=())

    def end(self, status: str) -> None:
        """task_complete, turn_aborted."""
        self._record()
        self._turns[-1] = dataclasses.replace(self._turns[-1], status=status)
        self._open = False

    def rolled_back(self, num_turns: int) -> None:
        """thread_rolled_back, of 1 or more, while no turn is open (S2)."""
        self._advance()
        place = self._now.place
        if len(self._boundaries) < num_turns:
            self._boundaries.clear()
            self._now = _Standing()
        else:
            self._now = _without_run(self._boundaries[-num_turns].before)
            del self._boundaries[-num_turns:]
        stays = [prefix for prefix in self._prefix if prefix.place > self._now.place]
        self._set(history=(*self._now.history, *(prefix.item for prefix in stays)), run=(), place=place)

    # what they have in common

    def _begin(self, turn: _Turn) -> None:
        self._turns.append(turn)

    def _advance(self, above: tuple[str, tuple[Any, ...]] | None = None) -> None:
        if above is None or self._open:
            self._above = []
        else:
            if not self._above:
                self._before_above = self._now
            self._above.append(above)
        self._set(place=self._now.place + 1)

    def _record(self, above: tuple[str, tuple[Any, ...]] | None = None, **changes: Any) -> None:
        """One record more of the newest turn, if there is one."""
        self._advance(above)
        if self._turns:
            told = self._told()
            turns = [*self._now.turns, *[_Told()] * (len(self._turns) - len(self._now.turns))]
            turns[-1] = dataclasses.replace(told, records=told.records + 1, **changes)
            self._set(turns=tuple(turns))

    def _boundary(self, item: Item) -> None:
        if not self._open:
            self._begin_implicit()
        turn, before = len(self._turns) - 1, self._now
        if not any(older.turn == turn for older in self._boundaries):
            before = self._turns[turn].before
        self._boundaries.append(_Boundary(turn, before))
        self._had_boundary = True
        self._record(has_boundary=True)
        self._set(history=(*self._now.history, item), run=())

    def _begin_implicit(self) -> None:
        """The contextual run right above belongs to the turn: it is told again."""
        above = list(self._above)
        if above:
            self._now = self._before_above
            self._prefix = [prefix for prefix in self._prefix if prefix.place <= self._now.place]
        self._begin(_Turn(None, "completed", self._now))
        for method, arguments in above:
            getattr(self, method)(*arguments)

    def _told(self) -> _Told:
        return self._now.turns[-1] if self._turns and len(self._now.turns) == len(self._turns) else _Told()

    def _set(self, **changes: Any) -> None:
        self._now = dataclasses.replace(self._now, **changes)

    def _previous_model(self) -> str | None:
        models = (told.first_model for told in reversed(self._now.turns) if told.has_boundary)
        return next((model for model in models if model is not None), None)

    def _reference(self) -> Item | str | None:
        for told in reversed(self._now.turns):
            if told.is_cleared:
                return "cleared"
            if told.has_boundary and told.context is not None:
                return told.context
        return None


def _without_run(standing: _Standing) -> _Standing:
    """Without the contextual items right above the cut."""
    turns = list(standing.turns)
    for at in standing.run:
        if 0 <= at < len(turns):
            turns[at] = dataclasses.replace(turns[at], records=turns[at].records - 1)
    kept = standing.history[: len(standing.history) - len(standing.run)]
    return dataclasses.replace(standing, history=kept, run=(), turns=tuple(turns))


def _patched(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = _patched(kept.get(key), value)
    return kept
