"""What the records of a log say of the calls of its model: what it made, what it was asked with, what that cost.

A reader of calls (`rollout.adapters.responses`) knows these and no record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED
from rollout.dialects.codex.prompt import unwrap_item
from rollout.format.strict_json import value_at
from rollout.items.kinds import COMPACTIONS, SESSION_ITEM, is_made_by_model, is_visible
from rollout.items.truncation import Truncation

_CHANGES_HISTORY = frozenset({"thread_rolled_back", "items_removed"})
_ENDS_CALL = frozenset({*TURN_STARTED, *TURN_COMPLETED, TURN_ABORTED, *_CHANGES_HISTORY, "error"})
_UNTOLD = frozenset({SESSION_ITEM, "tool_search_output"})


class Made(NamedTuple):
    """The model made an item."""

    item: dict[str, Any]


class Given(NamedTuple):
    """What the model is asked with has one item more, the record's own if it is one (else it is unknown which)."""

    is_item: bool


class Compacted(NamedTuple):
    """A history in short takes the place of the other. `items` are the model's provider's own, `summary` a model's."""

    items: tuple[dict[str, Any], ...]
    summary: str | None


class Ended(NamedTuple):
    """A turn begins or ends, or what it did is taken back (`changes_history`): no call reaches over that."""

    changes_history: bool


class Charged(NamedTuple):
    """A report of what the newest call cost. `totals` (None: not told) are the same where it is told once more."""

    usage: dict[str, Any] | None
    totals: dict[str, Any] | None


class Chose(NamedTuple):
    """The model that answers from here on."""

    model: str


Fact: TypeAlias = Made | Given | Compacted | Ended | Charged | Chose


def fact_of(type: str, kind: str | None, role: str | None, payload: Callable[[], Any]) -> Fact | None:
    """What a record says of calls; None if nothing.

    Args:
        type: The record's.
        kind: Its payload's type.
        role: Of a message, whose it is.
        payload: Decodes the payload; called only where it is needed.
    """
    if type == "response_item" and kind is not None:
        return _item(kind, role, payload)
    if type == "inter_agent_communication":
        return Given(is_item=False)
    if type == "compacted":
        said = payload()
        items, summary = value_at(said, "replacement_history"), value_at(said, "message")
        items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        is_own = any(isinstance(each := item.get("type"), str) and each in COMPACTIONS for item in items)
        return Compacted(tuple(items) if is_own else (), summary if isinstance(summary, str) else None)
    if type == "turn_context":
        model = value_at(payload(), "model")
        return Chose(model) if isinstance(model, str) else None
    if type == "token_usage_record":
        return Charged(_usage(value_at(payload(), "usage")), None)
    if type == "event_msg" and kind == "token_count":
        info = value_at(payload(), "info")
        totals = value_at(info, "total_token_usage")
        return Charged(_usage(value_at(info, "last_token_usage")), totals) if isinstance(totals, dict) else None
    return Ended(kind in _CHANGES_HISTORY) if type == "event_msg" and kind in _ENDS_CALL else None


def truncation_of(context: object) -> Truncation | None:
    """How outputs were cut on their way to the model, by the settings of a turn; None: not at all, or not told."""
    policy = value_at(context, "truncation_policy")
    mode, limit = value_at(policy, "mode"), value_at(policy, "limit")
    return Truncation(mode, limit) if mode in ("bytes", "tokens") and isinstance(limit, int) and limit >= 0 else None


def _item(kind: str, role: str | None, payload: Callable[[], Any]) -> Fact | None:
    # the type and the role are enough to tell whose an item is, but for two kinds
    item = unwrap_item(payload()) if kind in _UNTOLD else {"type": kind, "role": role}
    if item is None or not is_visible(str(item.get("type")), item.get("role")):
        return None
    return Made(unwrap_item(payload()) or {}) if is_made_by_model(item) else Given(is_item=True)


def _usage(recorded: object) -> dict[str, Any] | None:
    """Token counts in the keys of the Responses API."""
    if not isinstance(recorded, dict):
        return None
    counts = {key: value for key, value in recorded.items() if isinstance(value, int)}
    return {
        "input_tokens": counts.get("input_tokens", 0),
        "input_tokens_details": {"cached_tokens": counts.get("cached_input_tokens", 0)},
        "output_tokens": counts.get("output_tokens", 0),
        "output_tokens_details": {"reasoning_tokens": counts.get("reasoning_output_tokens", 0)},
        "total_tokens": counts.get("total_tokens", 0),
    }
