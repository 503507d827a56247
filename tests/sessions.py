"""A store whose time and chance are known, and what the tests of writing put into it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rollout
from rollout import SessionLog, Store, TurnContext
from rollout.files.disk import FileSystem
from rollout.files.port import Durability
from tests.builders import assistant_item

START = 1774000802.0  # 2026-03-20T10:00:02Z
DAY = "sessions/2026/03/20"


def a_clock(step: float = 0.001) -> Iterator[float]:
    return (START + step * n for n in itertools.count())


def a_store(home: Path | str, *, fs: FileSystem | None = None, seed: int = 0) -> Store:
    """Time goes on by a millisecond whenever somebody looks at the clock."""
    ticks, draws = a_clock(), itertools.count(1)
    return Store(
        home, clock=lambda: next(ticks), fs=fs, randomness=lambda n: (seed * 1000 + next(draws)).to_bytes(n, "big")
    )


def a_log(store: Store, durability: Durability = Durability.TURN) -> SessionLog:
    return store.create(cwd="/p", model_provider="mock", originator="test", durability=durability)


def context(model: str = "m1", **keys: Any) -> TurnContext:
    return TurnContext(model=model, cwd="/p", approval_policy="never", **keys)


def take_turn(log: SessionLog, question: str, settings: Mapping[str, Any] | None = None) -> str:
    """A regular turn with an answer; its id."""
    with log.turn(settings or context()) as turn:
        turn.user(question)
        turn.append(assistant_item(f"answer to {question}"))
    return turn.id


def interrupt(
    log: SessionLog,
    question: str,
    *items: Mapping[str, Any],
    by: type[BaseException] = ValueError,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """A turn that an exception (with its id) ends and goes on."""
    with log.turn(settings or context()) as turn:
        turn.user(question)
        turn.append_all(items)
        raise by(turn.id)


def die(log: SessionLog) -> None:
    """Leaves what a process that is killed does: its bytes, and no lock."""
    left = log.path.read_bytes()
    log.close()
    log.path.write_bytes(left)


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def kinds(path: Path) -> list[str]:
    """The type of each line, of an event its own."""
    found = []
    for line in lines_of(path):
        payload = line["payload"]
        found.append(payload["type"] if line["type"] == "event_msg" else line["type"])
    return found


def texts(state: rollout.State) -> list[str]:
    """All texts of the history, in order."""
    return [part["text"] for item in state.history for part in item.get("content") or [] if "text" in part]
