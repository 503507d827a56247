"""What runs have used: recorded as a token count that every reader of rollouts understands, and added up again.

A `token_count` tells the thread's totals and what was counted last, as Codex writes it, and under `run_usage` what the
SDK says of the run. Recording a turn's usage once more replaces what was recorded for it: the SDK's count of a run goes
on when the run does. The totals of a thread also keep what was spent on turns that were taken back, and a branch goes
on from the totals at its fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rollout.adapters.agents.turns import Current, Usage, Used
from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import Part
from rollout.errors import RecordError

_COUNTS = ("requests", "input_tokens", "output_tokens", "total_tokens")
_DETAILS = ("input_tokens_details", "output_tokens_details")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


def take_usage(counted: object, turn: str) -> Usage:
    """The usage of a run (an `agents.usage.Usage`) for a turn; details that are no JSON are left out."""
    counts = {name: _count(getattr(counted, name, 0)) for name in _COUNTS}
    details = {name: _details(getattr(counted, name, None)) for name in _DETAILS}
    entries = []
    for entry in getattr(counted, "request_usage_entries", None) or ():
        told: dict[str, Any] = {name: _count(getattr(entry, name, 0)) for name in _COUNTS[1:]}
        entries.append(told | {name: _details(getattr(entry, name, None)) for name in _DETAILS})
    return Usage(
        turn,
        **counts,
        input_tokens_details=details["input_tokens_details"],
        output_tokens_details=details["output_tokens_details"],
        request_usage_entries=entries,
    )


def tell_usage(usage: Usage, current: Current) -> Part:
    """The record of a run's usage, where `current` is how things stood before it."""
    last = _tokens(usage)
    before = dict.fromkeys(_TOKENS, 0) if current.usage is None else _tokens(current.usage)
    totals = {name: _count(current.totals.get(name)) + last[name] - before[name] for name in _TOKENS}
    return encoder.tokens_counted(totals, last, msgspec.to_builtins(usage))


def add_up(used: Iterable[Used]) -> dict[str, int] | None:
    """Of different turns: requests, input_tokens, output_tokens, total_tokens, total_turns; None if there are none.

    What several branches share is the same record, and counts once.
    """
    found = {one.place or i: one.usage for i, one in enumerate(used) if one.usage is not None}
    if not found:
        return None
    sums = {name: sum(getattr(usage, name) for usage in found.values()) for name in _COUNTS}
    return {**sums, "total_turns": len(found)}


def show_usage(one: Used) -> dict[str, Any]:
    """The row of one turn: the counts, and their details."""
    usage = one.usage
    return {name: getattr(usage, name) for name in (*_COUNTS, *_DETAILS)}


def _tokens(usage: Usage) -> dict[str, int]:
    read, written = usage.input_tokens_details or {}, usage.output_tokens_details or {}
    counts = (
        usage.input_tokens,
        _count(read.get("cached_tokens")),
        usage.output_tokens,
        _count(written.get("reasoning_tokens")),
        usage.total_tokens,
    )
    return dict(zip(_TOKENS, counts, strict=True))


def _count(value: object) -> int:
    return value if type(value) is int else 0


def _details(details: object) -> dict[str, Any] | None:
    """What is said of them: nulls say nothing."""
    found = details if isinstance(details, Mapping) else getattr(details, "__dict__", {})
    told = {name: value for name, value in found.items() if value is not None}
    try:
        encoder.encode(told)
    except RecordError:
        return None
    return told or None
