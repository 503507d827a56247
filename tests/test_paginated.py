"""Turns that are appended to a paginated log, on every way of writing, have the events that Codex lists them from."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.errors import Conflict
from rollout.files.port import Durability
from rollout.session.environment import Ports
from rollout.session.log import SessionLog
from rollout.store import Store
from tests.builders import assistant_item, user_item
from tests.interrupting import SIGNALS, Points, at_points, interrupt
from tests.paginated import begin, shown

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
CONTEXT = {"model": "m", "cwd": "/p"}
CALL = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "c"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "out"}
REASONING = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]}
ITEMS: list[dict[str, Any]] = [REASONING, CALL, OUTPUT, assistant_item("a")]
SHOWN = ["UserMessage", "Reasoning", "CommandExecution", "AgentMessage"]
LEGACY = {"user_message", "agent_message", "context_compacted"}


def append(log: SessionLog) -> None:
    with log.turn(CONTEXT) as turn:
        turn.user("q")
        for item in ITEMS:
            turn.append(item)


def append_all(log: SessionLog) -> None:
    with log.turn(CONTEXT) as turn:
        turn.append_all([user_item("q"), *ITEMS])


def record(log: SessionLog) -> None:
    with log.turn(CONTEXT):
        for item in [user_item("q"), *ITEMS]:
            log.record("response_item", item)


def append_async(log: SessionLog) -> None:
    async def run() -> None:
        async with log.turn(CONTEXT) as turn:
            await turn.user("q")
            for item in ITEMS:
                await turn.append(item)

    asyncio.run(run())


def fail(log: SessionLog) -> None:
    with contextlib.suppress(KeyboardInterrupt), log.turn(CONTEXT) as turn:
        turn.user("q")
        turn.append_all(ITEMS)
        raise KeyboardInterrupt


WAYS = [append, append_all, record, append_async, fail]


def kinds(data: bytes) -> list[str | None]:
    return [json.loads(line)["payload"].get("type") for line in data.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    """A recorded log, opened to go on with."""
    path = tmp_path / "sessions/2026/03/20/rollout-2026-03-20T10-00-00-01a1fff5-a979-7561-99b3-3b67a08c8df5.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copyfile(CASES / "p169_plain3" / "rollout.jsonl", path)
    return Store(tmp_path).open(path)


@pytest.mark.parametrize("write", WAYS)
def test_every_way_of_writing_a_turn_shows_its_items_and_writes_no_old_events(
    log: SessionLog, write: Callable[[SessionLog], None]
) -> None:
    before = log.path.read_bytes()
    write(log)
    log.close()
    added = log.path.read_bytes()[len(before) :]
    assert [item["type"] for item in shown(added)] == SHOWN
    assert not LEGACY & set(kinds(added))
    turn = rollout.turns(log.path)[-1]
    events = [json.loads(line)["payload"] for line in added.splitlines() if b"item_completed" in line]
    assert {(event["thread_id"], event["turn_id"]) for event in events} == {(log.id, turn.id)}
    ordinals = [json.loads(line)["ordinal"] for line in log.path.read_bytes().splitlines()]
    assert ordinals == list(range(len(ordinals)))


@pytest.mark.parametrize("write", WAYS)
def test_the_events_change_nothing_for_who_reads(tmp_path: Path, write: Callable[[SessionLog], None]) -> None:
    said: list[Any] = []
    for home, is_paginated in ((tmp_path / "a", True), (tmp_path / "b", False)):
        with begin(Ports(home)) if is_paginated else Store(home).create(cwd="/p", model_provider="m") as made:
            write(made)
            made.compact([user_item("kept")], "why")
            write(made)
            made.rollback(1)
        state = rollout.reconstruct(made.path)
        turns = [(turn.status, turn.user, turn.stands, turn.plans) for turn in rollout.turns(made.path)]
        said.append((list(state.history), state.previous_model, len(state.damage), turns))
    assert said[0] == said[1]


def test_a_compaction_is_shown_in_the_turn_that_it_is_in(log: SessionLog) -> None:
    with log, log.turn(CONTEXT) as turn:
        turn.user("q")
        turn.compact([user_item("q")], "why")
        turn_id = turn.id
    with Store(log.path.parents[4]).open(log.path) as again:
        again.compact([user_item("q")])
    items = [json.loads(line)["payload"] for line in log.path.read_bytes().splitlines() if b"ContextComp" in line]
    assert [event["turn_id"] == turn_id for event in items] == [True, False]
    assert not LEGACY & set(kinds(log.path.read_bytes()))


def test_what_is_written_outside_of_turns_is_shown_in_the_newest_turn_also_of_a_log_that_was_opened(
    log: SessionLog,
) -> None:
    newest = rollout.turns(log.path)[-1].id
    with log:
        log.record("response_item", assistant_item("said outside"))
    last = json.loads(log.path.read_bytes().splitlines()[-2])["payload"]
    assert (last["turn_id"], last["item"]["content"][0]["text"]) == (newest, "said outside")


def test_an_old_event_that_somebody_asks_for_alone_is_written(log: SessionLog) -> None:
    with log, log.turn(CONTEXT) as turn:
        turn.event("user_message", {"message": "q"})
        log.event("context_compacted")
    assert kinds(log.path.read_bytes())[-3:-1] == ["user_message", "context_compacted"]


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_of_a_paginated_log_is_one_too(log: SessionLog, copy: bool) -> None:
    with log, log.fork(copy=copy) as child:
        append(child)
    data = child.path.read_bytes()
    assert json.loads(data.splitlines()[0])["payload"]["history_mode"] == "paginated"
    assert [item["type"] for item in shown(data)][-4:] == SHOWN
    assert len(shown(data)) == (10 if copy else 4)


def test_a_fork_that_is_detached_stays_paginated(log: SessionLog) -> None:
    with log, log.fork() as child:
        append(child)
    Store(log.path.parents[4]).detach(child.id)
    data = child.path.read_bytes()
    assert json.loads(data.splitlines()[0])["payload"]["history_mode"] == "paginated"
    assert len(shown(data)) == 10


def test_a_log_of_the_old_shape_has_the_events_of_that(tmp_path: Path) -> None:
    with Store(tmp_path).create(cwd="/p", model_provider="m") as legacy:
        append(legacy)
        legacy.compact([user_item("q")])
    data = legacy.path.read_bytes()
    assert "history_mode" not in json.loads(data.splitlines()[0])["payload"]
    assert shown(data) == []
    assert set(kinds(data)) >= LEGACY


def test_the_events_of_a_write_that_does_not_stand_are_those_of_its_second_try(tmp_path: Path) -> None:
    log = begin(Ports(tmp_path))
    with log.turn(CONTEXT) as turn:
        end = turn.append(CALL)
        with pytest.raises(Conflict):
            turn.append_all([OUTPUT, REASONING], expected_end=end - 1)
        turn.append_all([OUTPUT, REASONING], expected_end=end)
    log.close()
    assert [item["type"] for item in shown(log.path.read_bytes())] == ["CommandExecution", "Reasoning"]
    assert shown(log.path.read_bytes())[1]["id"] == "r"


def test_the_events_of_an_interrupted_write_stand_once_whatever_became_of_it(tmp_path: Path) -> None:
    homes = (tmp_path / str(n) for n in itertools.count())

    def run(points: Points, nth: int) -> int:
        home = next(homes)
        home.mkdir()
        log = begin(Ports(home), Durability.NONE)
        with log.turn(CONTEXT) as turn:
            end = turn.append(CALL)
            there = interrupt(points, nth, lambda: turn.append(OUTPUT))
            if log.end == end:
                turn.append(OUTPUT)
        log.close()
        assert [item["type"] for item in shown(log.path.read_bytes())] == ["CommandExecution"]
        return there

    assert at_points(SIGNALS, run, 100) > 30
