"""Sessions for the tests of the SDK's extra, their items and their files."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

import rollout
from rollout.adapters.agents import RolloutSession
from rollout.store import Store

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def says(*texts: str) -> list[Any]:
    return [say(text) for text in texts]


async def add_all(session: RolloutSession, *items: Any) -> None:
    """One call an item."""
    for item in items:
        await session.add_items([item])


def file_of(home: Path, session_id: str = "s") -> Path:
    """The rollout of the only session of a home that has this id."""
    (row,) = [row for row in Store(home).list(archived=None) if (row.name or "") == session_id]
    return Path(row.path)


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("rollout-*") if path.suffix in {".jsonl", ".zst"})


def history_of(home: Path) -> list[Any]:
    (path,) = files_of(home)
    return list(rollout.reconstruct(path, home=home).history)


texts = st.text(max_size=8) | st.sampled_from(
    ["\0", "\u2028\u2029\x85", "\ufeff", "\x1b[0m", "\U0001f600", '{"timestamp":"', "\\", '"', "\n", "\r\n", "]}", ""]
)
numbers = (
    st.integers() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.just(-0.0)
)
leaves = st.none() | st.booleans() | numbers | texts
keys = texts | st.sampled_from(["timestamp", "type", "payload", "role", "content", "item", "batch", "ordinal"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
odd_items: list[Any] = [
    *(
        {"type": kind}
        for kind in ("compacted", "event_msg", "session_meta", "turn_context", "response_item", "message")
    ),
    *({"type": kind, "role": "user"} for kind in ("ghost_snapshot", "compaction_trigger", "other", "session_item")),
    {"type": "message", "role": "system", "content": "be kind"},
    {"role": "system", "content": "be kind"},
    {"type": "message", "role": None, "content": []},
    {"type": "message", "role": ["user"], "content": []},
    {"type": 7, "role": "user"},
    {"type": None, "role": "user", "content": ""},
    {"role": "user", "content": "short", "id": None},
    {"role": "tool", "content": "?"},
    {"content": "no role"},
    {"type": "session_item", "role": None, "item": 1},
    {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": {"type": "message", "role": "user"}},
    {"timestamp": "", "type": "compacted", "payload": {"message": "", "replacement_history": []}},
    {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 9}},
    {"type": "event_msg", "payload": {"type": "items_removed", "num_items": 9}},
    {"type": "reasoning", "batch": [1, 2]},
    *([], {}, None, 0, "", [{}], [None], True, -0.0, 10**30, "text", '{"type":"compacted"}'),
]
items = st.sampled_from(odd_items) | values | texts.map(say)
