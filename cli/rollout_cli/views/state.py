"""What there is to go on from: the state, the history, the turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rollout
from rollout_cli.cells import LABEL_CHARS, NARROW_COLUMNS, Column, Table, fill, id_columns, preview, short_id
from rollout_cli.items import describe_at, to_json
from rollout_cli.terminal import Block, Row, fact
from rollout_cli.units import count, duration, local_time, seconds_between, size
from rollout_cli.views import array, members, pick
from rollout_cli.views.lines import where
from rollout_cli.views.tokens import token_words

DAMAGE_SHOWN = 5
_TURN = (
    "id derived status stands started ended line offset end_offset items=item_count user model plans session_id tags"
)


@dataclasses.dataclass(frozen=True)
class State:
    """`rollout reconstruct`: {history, prompt, previous_model, …}; `prompt` is not truncated (S6)."""

    state: rollout.State

    def json(self) -> Iterator[bytes]:
        state = self.state
        items = {"history": History(state.history).json(), "prompt": array(state.for_prompt())}
        known = pick(state, "previous_model reference_context session world_state token_usage")
        damage = [pick(met, "line offset reason") for met in state.damage]
        rest = pick(state, "bytes_read records_decoded base_instructions thread_id path")
        return members({**items, **known, "damage": damage, **rest})

    def rows(self, columns: int | None) -> Iterator[Row]:
        state = self.state
        session = state.session or {}
        yield fact("session", state.thread_id or "(unknown)")
        yield fact("file", str(state.path or "(bytes in memory)"))
        begun = local_time(when) if isinstance(when := session.get("timestamp"), str) else ""
        place = _join(session, "cwd", "originator", "cli_version", "model_provider")
        yield fact("where", "  ".join(filter(None, (begun, place))) or "(not known)")
        yield fact("model", state.previous_model or "(none yet)")
        yield fact("context", _context(state.reference_context))
        yield fact("history", count(len(state.history), "item"))
        for label in ("user", "assistant"):
            said = _last(state.history, label)
            if said is not None:
                yield fact(f"  {label}", preview(said, columns))
        yield fact("tokens", _tokens(state.token_usage))
        world = "(none)" if state.world_state is None else preview(", ".join(state.world_state), columns)
        yield fact("world", world)
        yield fact("read", self._reading())
        if not state.damage:
            yield fact("damage", "none met")
        for met in state.damage[:DAMAGE_SHOWN]:
            yield fact("damage", (f"{where(met, state.path)}: {met.reason}", "red"))
        if len(state.damage) > DAMAGE_SHOWN:
            yield fact("", f"and {len(state.damage) - DAMAGE_SHOWN:,} more: rollout verify lists them")

    def _reading(self) -> str:
        """How much was read, and of how much."""
        whole = ""
        if self.state.path is not None:
            try:
                base = " and its base" if self.state.has_base else ""
                whole = f" of {size(Path(self.state.path).stat().st_size)}{base}"
            except OSError:
                whole = ""
        return f"{size(self.state.bytes_read)}{whole}, {self.state.records_decoded:,} records"


@dataclasses.dataclass(frozen=True)
class History:
    """`rollout history`: the `newest` items, all of them or so many, oldest first; as recorded, or as they can be sent.

    To read: an item a line; with `full`, its whole text below.
    """

    items: Sequence[Mapping[str, Any]]
    newest: int | None = None
    full: bool = False

    def _numbers(self) -> range:
        return range(0 if self.newest is None else max(len(self.items) - self.newest, 0), len(self.items))

    def json(self) -> Iterator[bytes]:
        items = self.items
        return array(items.raw(i) if isinstance(items, rollout.History) else items[i] for i in self._numbers())

    def rows(self, columns: int | None) -> Iterator[Row]:
        for i in self._numbers():
            item = describe_at(self.items, i)
            label = (f"{fill(preview(item.label, LABEL_CHARS), 10)} ", item.style)
            if self.full:
                yield (f"{i + 1:>5}  ", label)
                yield Block(item.text)
            else:
                yield (f"{i + 1:>5}  ", label, preview(item.text, columns))


@dataclasses.dataclass(frozen=True)
class Turns:
    """`rollout turns`: `items` is how many there are, `user` the first text of the user. One undone has no number."""

    turns: Sequence[rollout.Turn]

    def json(self) -> Iterator[bytes]:
        return array(pick(turn, _TURN) for turn in self.turns)

    def rows(self, columns: int | None) -> Iterator[Row]:
        parts = (
            Column("#", 4, is_number=True),
            Column("id", id_columns(columns)),
            Column("status", 11),
            Column("started", 16, least_columns=76),
            Column("took", 6, is_number=True, least_columns=NARROW_COLUMNS),
            Column("items", 5, is_number=True, least_columns=100),
        )
        table = Table(parts, "user", columns)
        yield table.heading()
        number = 0
        for turn in self.turns:
            number += turn.stands
            cells = (
                str(number) if turn.stands else "-",
                f"{short_id(turn.id or '', columns)}{' (derived)' if turn.derived and columns is None else ''}",
                turn.status if turn.stands else "undone",
                "" if turn.started is None else local_time(turn.started),
                duration(seconds_between(turn.started, turn.ended)),
                str(turn.item_count),
                preview(turn.user or "", columns),
            )
            yield table.row(cells, "" if turn.stands else "dim")


def _join(mapping: Mapping[str, Any], *keys: str) -> str:
    return "  ".join(_scalar(mapping[key]) for key in keys if mapping.get(key) is not None)


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _context(context: Mapping[str, Any] | None) -> str:
    if context is None:
        return "none: the next turn gives the model its whole context again"
    policy = context.get("approval_policy")
    words = {**context, "approval_policy": None if policy is None else f"approval {_scalar(policy)}"}
    return _join(words, "model", "effort", "cwd", "approval_policy", "turn_id") or to_json(context)


def _last(items: rollout.History, label: str) -> str | None:
    """The newest text of that role, if possible one that no program wrote (S5); None if there is none."""
    newest = None
    for i in range(len(items) - 1, -1, -1):
        item = items[i]
        if item.get("type") != "message" or item.get("role") != label:
            continue
        described = describe_at(items, i)
        if described.label != label:  # a compaction's summary
            continue
        text = described.text.strip()
        if not rollout.is_program_message(item):
            return text
        newest = text if newest is None else newest
    return newest


def _tokens(usage: Mapping[str, Any] | None) -> str:
    if usage is None:
        return "(not recorded)"
    counts = {token_words(key): n for key, n in usage.items() if key.endswith("_tokens") and n}
    return (
        ", ".join(f"{key} {n:,}" if isinstance(n, int) else f"{key} {_scalar(n)}" for key, n in counts.items()) or "0"
    )
