"""Halves of characters in what is recorded: U+FFFD is written in their place, whichever method writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import rollout
from rollout import Store
from rollout.session.log import SessionLog
from rollout.session.turn import OpenTurn
from tests.sessions import a_log, context, lines_of

NAME = os.fsdecode(b"caf\xe9")
HALF = {"type": "x", "a": NAME, "b": [{NAME: "\ud800"}], "whole": "\ud83d\ude00"}
MENDED = {"type": "x", "a": "caf\ufffd", "b": [{"caf\ufffd": "\ufffd"}], "whole": "\U0001f600"}
AS_JSON = json.dumps(HALF).encode()
FORMS: list[Any] = [HALF, AS_JSON, bytearray(AS_JSON), msgspec.Raw(AS_JSON)]


@pytest.mark.parametrize("item", FORMS, ids=lambda item: type(item).__name__)
@pytest.mark.parametrize(
    "write",
    [
        OpenTurn.append,
        lambda turn, item: turn.append_all([item, item]),
        lambda turn, item: turn.append({"type": "x", **json.loads(AS_JSON), "raw": msgspec.Raw(AS_JSON)}),
        lambda turn, item: turn.compact([item], message=NAME),
    ],
)  # fmt: skip
def test_an_item_with_a_half_of_a_character_is_in_the_history(
    store: Store, write: Callable[[OpenTurn, Any], object], item: Any
) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        write(turn, item)
        (first, *more) = log.resume_state().history
        first.pop("raw", None)
        assert [first, *more] in ([MENDED], [MENDED, MENDED])
    assert rollout.verify(log.path).ok


def test_a_role_or_a_type_with_one_is_as_good_as_any_other(store: Store) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        turn.append({"type": NAME, "role": NAME})
        turn.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": NAME}]})
        assert next(iter(log.resume_state().history)) == {"type": "caf\ufffd", "role": "caf\ufffd"}
    ended = lines_of(log.path)[-1]["payload"]
    assert (ended["type"], ended["last_agent_message"]) == ("task_complete", "caf\ufffd")


EVERYWHERE: list[Callable[[SessionLog], object]] = [
    lambda log: log.record(NAME, NAME),
    lambda log: log.record("world_state", {"full": True, "state": {NAME: NAME}}),
    lambda log: log.record("x", AS_JSON),
    lambda log: log.event(NAME, {NAME: NAME}),
    lambda log: log.compact([HALF], NAME),
    lambda log: log.turn({**context(), "cwd": NAME}).__enter__().user(NAME, [NAME]),
    lambda log: log.turn(context(), tags={NAME: NAME}).__enter__().user("q"),
    lambda log: log.fork(tags={NAME: NAME}).close(),
]


@pytest.mark.parametrize("write", EVERYWHERE)
def test_nothing_that_is_recorded_is_refused_for_one(store: Store, write: Callable[[SessionLog], object]) -> None:
    with a_log(store) as log:
        write(log)
    files = list(store.home.rglob("rollout-*.jsonl"))
    assert all(rollout.verify(path).ok for path in files)
    assert "caf\ufffd" in repr([line for path in files for line in lines_of(path)])


def test_a_session_may_run_in_a_folder_whose_name_is_no_text(store: Store) -> None:
    git = {"branch": NAME}
    with store.create(cwd=NAME, model_provider=NAME, base_instructions=NAME, git=git, tags={NAME: "1"}) as log:
        pass
    (row,) = store.list(tags={NAME: "1"})
    assert (row.id, row.cwd, row.model_provider) == (log.id, "caf\ufffd", "caf\ufffd")
