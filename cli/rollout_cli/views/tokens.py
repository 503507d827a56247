"""Tokens: what sessions have spent, by day, model and project; keys and charts of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import rollout
from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut_front, preview
from rollout_cli.terminal import Row, fact
from rollout_cli.units import count, short_number, size
from rollout_cli.views import encode, pick

CHART_COLUMNS, LABEL_COLUMNS = 60, 12
_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = (
    Column("spent", 8, is_number=True),
    Column("input", 8, is_number=True, least_columns=80),
    Column("cached", 8, is_number=True, least_columns=110),
    Column("output", 8, is_number=True, least_columns=80),
    Column("context", 8, is_number=True),
    Column("requests", 8, is_number=True, least_columns=110),
    Column("sessions", 8, is_number=True, least_columns=NARROW_COLUMNS),
)


@dataclasses.dataclass(frozen=True)
class Stats:
    """`rollout stats`: {sessions, …, spent, context_tokens, by_day, by_model, by_project, notes}.

    To read: what it comes to, then a table each by day, model and project, of at most `limit` rows.
    """

    found: rollout.Stats
    limit: int

    def json(self) -> Iterator[bytes]:
        found = self.found
        tables = {
            f"by_{key}": [_row(row, key) for row in rows]
            for key, rows in (("day", found.by_day), ("model", found.by_model), ("project", found.by_project))
        }
        spent = {"spent": tokens(found.spent), **pick(found, "context_tokens without_tokens")}
        notes = [pick(note, "path what") for note in found.notes]
        yield encode({**pick(found, "sessions files turns bytes requests"), **spent, **tables, "notes": notes})

    def rows(self, columns: int | None) -> Iterator[Row]:
        found, spent = self.found, self.found.spent
        yield fact("sessions", f"{found.sessions:,}, {count(found.turns, 'turn')}, {size(found.bytes)}")
        if found.without_tokens:
            yield fact("", f"{found.without_tokens:,} without token counts")
        yield fact("spent", f"{count(spent.total, 'token')} in {count(found.requests, 'request')}")
        yield fact("", f"input {spent.input:,} (cached {spent.cached:,})")
        yield fact("", f"output {spent.output:,} (reasoning {spent.reasoning:,})")
        yield fact("in context", f"{found.context_tokens:,} tokens now")
        drawn = chart([row.spent.total for row in found.by_day if row.key is not None], columns)
        if drawn:
            yield fact("by day", (drawn, "cyan"))
        for name, rows in (("day (UTC)", found.by_day[::-1]), ("model", found.by_model), ("project", found.by_project)):
            table = Table(_COLUMNS, name, columns)
            if rows:
                yield ("",)
                yield table.heading()
            for row in rows[: self.limit]:
                of = row.spent
                numbers = map(short_number, (of.total, of.input, of.cached, of.output, row.context_tokens))
                key = "(not known)" if row.key is None else preview(row.key, None)
                shown = key if table.room is None else cut_front(key, table.room)
                yield table.row([*numbers, f"{row.requests:,}", f"{row.sessions:,}", shown])
            if len(rows) > self.limit:
                yield ((f"          and {len(rows) - self.limit:,} more: --limit shows them", "dim"),)


def tokens(found: rollout.Tokens) -> dict[str, int]:
    """Numbers of tokens."""
    keys = "input_tokens=input cached_input_tokens=cached output_tokens=output reasoning_output_tokens=reasoning"
    return pick(found, f"{keys} total_tokens=total")


def token_words(key: str) -> str:
    """A key of a token usage in words: `cached input`."""
    return key.removesuffix("_tokens").replace("_", " ")


def chart(values: Sequence[int | None], columns: int | None = None) -> str:
    """The values as bars, oldest first; of more than there is room for, the greatest of each few. None and 0: none.

    The tallest bar is the greatest value. `columns` is the width of the terminal, of which a label takes its part.
    """
    room = CHART_COLUMNS if columns is None else min(CHART_COLUMNS, max(columns - LABEL_COLUMNS, 1))
    step = max(1, -(-len(values) // room))
    groups = [[each for each in values[i : i + step] if each is not None] for i in range(0, len(values), step)]
    greatest = max((max(group) for group in groups if group), default=0)
    if not greatest:
        return ""
    tops = [max(group, default=0) for group in groups]
    return "".join(_BARS[(len(_BARS) - 1) * top // greatest] if top else " " for top in tops)


def _row(row: rollout.StatsRow, key: str) -> dict[str, Any]:
    return {
        **pick(row, f"{key}=key sessions requests"),
        "spent": tokens(row.spent),
        "context_tokens": row.context_tokens,
    }
