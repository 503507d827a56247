"""What a record says to people, in no agent's words: of what sort it is, the text and the items in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from rollout.dialects.codex.names import TURN_ABORTED, TURN_COMPLETED, TURN_STARTED

_RECORDS: dict[str | None, tuple[str, tuple[str, ...]]] = {
    "response_item": ("item", ()),
    "inter_agent_communication": ("item", ("content",)),
    "compacted": ("compaction", ("message",)),
    "turn_context": ("context", ("model", "effort", "cwd", "approval_policy")),
    "session_meta": ("session", ("id", "cwd", "originator", "cli_version")),
    "token_usage_record": ("tokens", ()),
}
_EVENTS: dict[str | None, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(TURN_STARTED, ("start", ("turn_id",))),
    **dict.fromkeys(TURN_COMPLETED, ("end", ())),
    TURN_ABORTED: ("abort", ("reason",)),
    "thread_rolled_back": ("rollback", ("num_turns",)),
    "items_removed": ("removal", ("num_items",)),
    "token_count": ("tokens", ()),
    "error": ("error", ("message",)),
    "entered_review_mode": ("review", ("user_facing_hint",)),
    "exited_review_mode": ("review_end", ()),
    "user_message": ("announcement", ("message",)),
    "context_compacted": ("compaction_end", ()),
}
"""What each type is called here, and the keys of what it says."""
_OTHER: tuple[str, tuple[str, ...]] = ("other", ("message", "text", "reason"))


class Told(NamedTuple):
    """What a record says.

    `kind` is one of item, compaction, compaction_end, rollback, removal, start, end, abort (of a turn), error, review,
    review_end, announcement (of a user's message), tokens, context, session, other. `text` is what it says: a message,
    a reason, a number of turns or items, settings; `items` are those that a compaction put into the history.
    """

    kind: str
    text: str = ""
    items: list[Any] | None = None


def tell(type: str | None, kind: str | None, payload: object = None) -> Told:
    """What a record says; without its payload only of what kind it is.

    Args:
        type: As in `Record` and `Explained`.
        kind: Likewise.
        payload: That of the record, or another in its place, without its secrets say.
    """
    told, keys = _EVENTS.get(kind, _OTHER) if type == "event_msg" else _RECORDS.get(type, _OTHER)
    if not isinstance(payload, dict):
        return Told(told)
    words = [str(payload[key]) for key in keys if isinstance(payload.get(key), str | int)]
    items = payload.get("replacement_history") if told == "compaction" else None
    return Told(told, "  ".join(words), items if isinstance(items, list) else None)
