"""Whole threads as the tests of keeping need them: closed logs, forks and reverts of them, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import rollout
from rollout import SessionLog, Store
from tests.sessions import a_log, take_turn, texts

PART = "019e0000-0000-7000-8000-000000000009"


def a_thread(store: Store, *questions: str) -> SessionLog:
    """A closed log."""
    with a_log(store) as log:
        for question in questions or ("q",):
            take_turn(log, question)
    return log


def a_fork(log: SessionLog, question: str = "f") -> SessionLog:
    with rollout.open_log(log.path, "read") as reader, reader.fork() as child:
        take_turn(child, question)
    return child


def a_revert(store: Store, log: SessionLog, day: str = "21") -> Path:
    """A newer file of the same thread, that goes on from all of the older one."""
    meta = json.loads(log.path.read_bytes().splitlines()[0])
    meta["payload"]["history_base"] = {"thread_id": log.id, "end_byte_offset": log.path.stat().st_size}
    path = store.home / f"sessions/2026/03/{day}/rollout-2026-03-{day}T10-00-00-{log.id}_{PART}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(meta) + "\n")
    with store.open(path) as again:
        take_turn(again, "after the revert")
    return path


def says(path: Path) -> list[str]:
    state = rollout.reconstruct(path)
    assert state.damage == ()
    return texts(state)


def files(store: Store) -> list[str]:
    return sorted(str(path.relative_to(store.home)) for path in store.home.rglob("*") if not path.is_dir())
