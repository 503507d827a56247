"""An interrupt at any point of a session's calls that runs in the main thread, and of a writer that others share."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout import Store
from rollout.adapters.agents import RolloutSession
from rollout.dialects.codex import encoder
from rollout.files.encrypted.keys import Keys
from rollout.format.labels import UNLABELLED
from rollout.session.asyncio_bridge import change_in_thread
from rollout.session.environment import Ports
from rollout.session.shared_log import SharedLog
from tests.enciphering import a_cipher
from tests.interrupting import LINES, SIGNALS, Points, at_points, interrupt, within
from tests.sessions import a_log, context

MOST = 10_000 if "ROLLOUT_CRASH" in os.environ else 6


def item(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


CALLS: dict[str, Callable[[RolloutSession], Any]] = {
    "add_items": lambda session: session.add_items([item("b"), item("c")]),
    "pop_item": lambda session: session.pop_item(),
    "get_items": lambda session: session.get_items(),
    "clear_session": lambda session: session.clear_session(),
}
LEFT = {
    "add_items": [["a"], ["a", "b", "c"]],
    "pop_item": [["a"], []],
    "get_items": [["a"]],
    "clear_session": [["a"], []],
}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the loop that was torn
@pytest.mark.parametrize("points", [SIGNALS, LINES])
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupted_call_of_a_session_is_done_or_not_and_others_go_on(
    name: str, points: Points, tmp_path: Path
) -> None:
    homes = (tmp_path / str(n) for n in itertools.count())

    def run(points: Points, nth: int) -> int:
        home = next(homes)
        session = RolloutSession("s", home)
        asyncio.run(session.add_items([item("a")]))
        there = interrupt(points, nth, lambda: asyncio.run(CALLS[name](session)))
        with within(30) as in_a_thread:
            in_a_thread(lambda: asyncio.run(session.add_items([item("later")])))
            in_a_thread(session.close)
        again = RolloutSession("s", home)
        texts = [item["content"] for item in asyncio.run(again.get_items())]
        again.close()
        assert [text for text in texts if text != "later"] in LEFT[name]
        assert texts.count("later") == 1
        return there

    assert at_points(points, run, MOST) > 5


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the loop that was torn
def test_an_interrupted_change_is_never_made_behind_what_the_program_does_next() -> None:
    torn = 0

    def run(points: Points, nth: int) -> int:
        nonlocal torn
        made: list[str] = []

        def change() -> None:
            time.sleep(0.005)
            made.append("change")

        there = interrupt(points, nth, lambda: asyncio.run(change_in_thread(change)))
        made.append("next")
        time.sleep(0.02)
        assert made in (["change", "next"], ["next"])
        torn += "change" not in made
        return there

    assert at_points(SIGNALS, run, 10_000) > 5
    assert torn


@pytest.mark.parametrize("points", [SIGNALS, LINES])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_an_interrupted_operation_on_a_shared_file_gives_its_lock_back_and_numbers_no_line_twice(
    is_encrypted: bool, points: Points, tmp_path: Path
) -> None:
    cipher = a_cipher() if is_encrypted else None
    keys, store = Keys(cipher), Store(tmp_path, cipher=cipher)

    def append(shared: SharedLog, word: str) -> None:
        part = encoder.event_record(word, {})
        shared.carry_out(lambda recorder: recorder.write([part, part], atomic=True))

    def run(points: Points, nth: int) -> int:
        log = a_log(store)
        log.close()
        first, second = (SharedLog(lambda: log.path, Ports(tmp_path, keys=keys), UNLABELLED, 0) for _ in range(2))
        append(first, "before")
        there = interrupt(points, nth, lambda: append(first, "torn"))
        with within(30) as in_a_thread:
            in_a_thread(lambda: append(second, "other"))
            in_a_thread(lambda: append(first, "same"))
        first.close()
        second.close()
        with store.open(log.path) as again, again.turn(context()) as turn:
            turn.user("opened")
        lines = [json.loads(line) for line in log.path.read_bytes().splitlines()]
        if is_encrypted:
            assert [line["ordinal"] for line in lines] == [*range(len(lines))]
        else:
            words = [line["payload"].get("type") for line in lines]
            assert [words.count(word) for word in ("before", "other", "same")] == [2, 2, 2]
            assert words.count("torn") in (0, 2)
        return there

    assert at_points(points, run, MOST) > 20
