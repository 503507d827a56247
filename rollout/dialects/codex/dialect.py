"""Codex's rollouts as the fold reads them: `CODEX` is what is handed to it."""

from __future__ import annotations

from rollout.dialects.codex import envelope, events, fast_path, items, tokens
from rollout.dialects.codex.contextual import begins_as_summary, is_contextual
from rollout.items.events import Dialect

CODEX = Dialect(
    decode=envelope.decode_plain,
    split=envelope.split,
    types_of=envelope.types_of,
    event_of=events.event_of,
    usage_of=events.usage_of,
    token_note=tokens.note_of,
    collect=fast_path.collect,
    collect_items=fast_path.collect_items,
    payload_of=envelope.payload_of,
    world_of=items.world_of,
    item_of=items.item_of,
    shown_lines=items.shown_lines,
    compaction_of=items.compaction_of,
    user_texts=items.user_texts,
    is_contextual=is_contextual,
    is_summary=begins_as_summary,
    announced=items.announced,
)
