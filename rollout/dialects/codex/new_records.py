"""The records that a log writes of its own: what bounds and takes back turns, and what is told beside items.

An item and what is told of it stand together: a user's message has an event behind it, one of the assistant events
ahead of it. All are encoded here; `encoder` puts them into lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rollout.dialects.codex.encoder import AnyItem, Part, encode, encode_items, event
from rollout.errors import RecordError
from rollout.items.kinds import texts_of

ABORT_REASONS = ("interrupted", "replaced", "review_ended")
ABORTED_TEXT = (
    "<turn_aborted>\nThe previous turn was interrupted before it was finished. Commands that were running may still be "
    "running in the background; those that were aborted may have been carried out in part.\n</turn_aborted>"
)


_LINE_ENDS = r"[^\S\n]*(?:\n|\Z)"
_PLAN = re.compile(
    rf"^[^\S\n]*<proposed_plan>(?:{_LINE_ENDS}(.*?)(?:^[^\S\n]*</proposed_plan>{_LINE_ENDS}|\Z)"
    rf"|([^\n]*)</proposed_plan>{_LINE_ENDS})",
    re.MULTILINE | re.DOTALL,
)


class _Phase(msgspec.Struct):
    phase: str | None = None


def item(payload: bytes, behind: bytes = b"") -> Part:
    """An item, as its JSON; `behind` is what its line has behind that."""
    return Part("response_item", payload, behind)


def turn_started(turn_id: str, context: Mapping[str, Any] | None, window: int | None) -> list[Part]:
    """The beginning of a turn; with its context, if it is a regular one. RecordError."""
    mode = (context or {}).get("collaboration_mode")
    kind = mode.get("mode") if isinstance(mode, Mapping) else mode
    keys = {
        "turn_id": turn_id,
        "model_context_window": window,
        "collaboration_mode_kind": kind if isinstance(kind, str) else "default",
    }
    return [event("task_started", keys), *([] if context is None else [turn_context(turn_id, context)])]


def turn_context(turn_id: str, context: Mapping[str, Any] | str) -> Part:
    """The settings of a turn. RecordError for what has no model, or is no JSON."""
    if not isinstance(context, Mapping) or not isinstance(context.get("model"), str):
        raise RecordError("a turn_context needs a model", remedy="give a TurnContext")
    keys = {key: value for key, value in context.items() if key != "turn_id"}
    return Part("turn_context", encode({"turn_id": turn_id, **keys}))


def turn_completed(turn_id: str, last_message: str | None) -> list[Part]:
    """The end of a turn; `last_message` is the newest one of the assistant in it."""
    return [event("task_complete", {"turn_id": turn_id, "last_agent_message": last_message})]


def turn_aborted(turn_id: str | None, reason: str = "interrupted") -> list[Part]:
    """What ends a turn that is not completed: for the model (if it was interrupted), and for the reader."""
    named = {} if turn_id is None else {"turn_id": turn_id}
    ended = event("turn_aborted", {**named, "reason": reason})
    return [_user(ABORTED_TEXT, []), ended] if reason == "interrupted" else [ended]


def user_message(text: str, urls: Sequence[str]) -> list[Part]:
    """What a user says, with images by their URLs."""
    keys = {"message": text, "images": urls, "local_images": [], "text_elements": []}
    return [_user(text, urls), event("user_message", keys)]


def _user(text: str, urls: Sequence[str]) -> Part:
    content = [{"type": "input_text", "text": text}, *({"type": "input_image", "image_url": url} for url in urls)]
    return item(encode({"type": "message", "role": "user", "content": content}))


def assistant_message(payload: bytes, thread: str, turn_id: str, plans: int) -> tuple[list[Part], str, int]:
    """A message of the assistant and what is told of it; its text without plans, and how many of these the turn has.

    `plans` is how many it had before.
    """
    text, found = split_plans("".join(texts_of(payload) or ()))
    parts = []
    if text:
        try:
            phase = msgspec.json.decode(payload, type=_Phase).phase
        except msgspec.ValidationError:
            phase = None
        parts.append(event("agent_message", {"message": text, "phase": phase, "memory_citation": None}))
    for number, plan in enumerate(found, plans + 1):
        name = f"{turn_id}-plan" if number == 1 else f"{turn_id}-plan-{number}"
        told = {"type": "Plan", "id": name, "text": plan}
        parts.append(event("item_completed", {"thread_id": thread, "turn_id": turn_id, "item": told}))
    return [*parts, item(payload)], text, plans + len(found)


def split_plans(text: str) -> tuple[str, list[str]]:
    """The text of an assistant without its plans, and the plans in order; lines keep their ends, blank plans are none.

    A plan begins with a line that is its opening tag alone and ends with a line that is its closing tag alone, or with
    the text; or it is one line that begins with the one and ends with the other. A tag among other words is no tag.
    """
    if "<proposed_plan>" not in text:
        return text, []
    plans = [found[1] if found[2] is None else found[2].strip() for found in _PLAN.finditer(text)]
    return _PLAN.sub("", text), [plan for plan in plans if plan.strip()]


def compaction(replacement_history: Iterable[AnyItem], message: str = "") -> Part:
    """The history is `replacement_history` from here on. RecordError."""
    items = encode_items(replacement_history)
    return Part("compacted", encode({"message": message, "replacement_history": items}))


def compaction_told() -> Part:
    """Says to people that there was one."""
    return event("context_compacted", {})


def turns_rolled_back(count: int) -> Part:
    """Takes back the newest user boundaries (S2)."""
    return event("thread_rolled_back", {"num_turns": count})


def items_removed(count: int) -> Part:
    """Takes the newest items out (S3)."""
    return event("items_removed", {"num_items": count})


def tokens_counted(totals: Mapping[str, int], last: Mapping[str, int], run: object) -> Part:
    """What the thread has used in all, and what was counted last; `run` is what an agents framework says of that."""
    info = {"total_token_usage": totals, "last_token_usage": last, "model_context_window": None}
    return event("token_count", {"info": info, "rate_limits": None, "run_usage": run})
