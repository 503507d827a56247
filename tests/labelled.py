"""Logs with labels, and what the labels of their records are."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import rollout
from rollout import SessionLog, Store
from tests.builders import assistant_item, user_item
from tests.sessions import context

PLAN = "<proposed_plan>\nwalk\n</proposed_plan>"
CALL = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}


def make(store: Store, **keys: Any) -> SessionLog:
    return store.create(cwd="/p", model_provider="mock", **keys)


def ids(log: SessionLog, first: int = 0) -> list[str | None]:
    """The session_id of each record from the `first` on."""
    return [record.session_id for record in rollout.records(log.path)][first:]


def tags(log: SessionLog, first: int = 0) -> list[dict[str, str]]:
    return [record.tags for record in rollout.records(log.path)][first:]


def fill(log: SessionLog, **label: Any) -> None:
    """A turn of everything that a turn can write; then one that an exception ends."""
    with log.turn(context(), **label) as turn:
        turn.user("q")
        turn.append(assistant_item(PLAN))
        turn.append_all([CALL, {**CALL, "type": "function_call_output", "output": ""}])
        turn.event("custom")
        turn.compact([user_item("c")])
    with contextlib.suppress(ValueError), log.turn(context(), **label):
        raise ValueError


async def in_a_task(log: SessionLog) -> None:
    await asyncio.to_thread(log.event, "in a thread of a task")
