"""Tools give back names that are no text: no run is aborted by one, and what is kept has U+FFFD in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

import rollout
from rollout.adapters.agents import RolloutSession
from rollout.adapters.agents.opaque import item_of, items_of, parts_of
from rollout.dialects.codex import encoder
from tests.enciphering import a_cipher
from tests.integrations.agent_sessions import file_of, files_of, run, say, says
from tests.integrations.branching import ran, talk
from tests.integrations.scripted_model import Scripted, calls
from tests.integrations.scripted_model import says as answers
from tests.integrations.scripted_runs import QUIET
from tests.integrations.test_agents_wrappers import FakeClient, compacting

NAME, MENDED = os.fsdecode(b"caf\xe9"), "caf\ufffd"
ODD: list[tuple[Any, Any]] = [
    (NAME, MENDED),
    ("\ud83d\ude00", "\U0001f600"),
    ([NAME, {NAME: [NAME]}], [MENDED, {MENDED: [MENDED]}]),
    (dict.fromkeys("\ud800\ud801", 1), {"\ufffd": 1, "\ufffd\ufffd": 1}),
    (say(NAME), say(MENDED)),
    (say(NAME, NAME), say(MENDED, MENDED)),
    (say("a", "system") | {"x": NAME}, say("a", "system") | {"x": MENDED}),
    (
        {"type": "function_call_output", "call_id": NAME, "output": NAME},
        {"type": "function_call_output", "call_id": MENDED, "output": MENDED},
    ),
    ({"type": NAME, "role": NAME}, {"type": MENDED, "role": MENDED}),
]


def test_what_is_kept_of_any_item_has_a_replacement_for_each_half() -> None:
    for given, kept in ODD:
        (line,) = encoder.lines(parts_of([given]), 1.0, None)
        assert item_of(line[:-1]) == kept
        assert items_of([line[:-1]]) == [kept]


async def add(session: RolloutSession, items: list[Any]) -> None:
    await session.add_items(items)


async def replace_all(session: RolloutSession, items: list[Any]) -> None:
    assert await session._atomic_replace_items(items)


async def replace_newest(session: RolloutSession, items: list[Any]) -> None:
    await session.add_items(says("old"))
    snapshot = await session._get_compaction_snapshot(1)
    if snapshot is None:  # an older SDK asks for none
        await session.pop_item()
        await session.add_items(items)
    else:
        assert await snapshot.replace_suffix(0, items)


async def add_in_a_branch(session: RolloutSession, items: list[Any]) -> None:
    await session.create_branch("other")
    await session.add_items(items)


@pytest.mark.parametrize("enter", [add, replace_all, replace_newest, add_in_a_branch])
@pytest.mark.parametrize("kind", ["plain", "encrypted", "memory"])
def test_every_way_in_takes_them(tmp_path: Path, enter: Callable[..., Any], kind: str) -> None:
    cipher = a_cipher() if kind == "encrypted" else None
    home = None if kind == "memory" else tmp_path
    session = RolloutSession("s", home, cipher=cipher)
    given, kept = [item for item, _ in ODD], [item for _, item in ODD]
    run(enter(session, given))
    again = session if home is None else RolloutSession("s", home, cipher=cipher)
    for one in (session, again):
        assert run(one.get_items()) == run(one.get_items(len(kept))) == kept
    assert run(again.pop_item()) == kept[-1]
    if kind == "plain":
        assert all(rollout.verify(path).ok for path in files_of(tmp_path))


def test_a_message_is_found_by_the_text_that_was_said(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(talk(NAME, "other")))
    for term in (NAME, MENDED):
        assert [row["content"] for row in run(session.find_turns_by_content(term))] == [MENDED]


def test_what_the_sdk_compacts_may_have_them(tmp_path: Path) -> None:
    session: Any = compacting(RolloutSession("s", tmp_path), FakeClient())
    run(session.add_items([say(NAME), *(say(f"{n}{NAME}", "assistant") for n in range(3))]))
    run(session.run_compaction({"force": True}))
    summary = {"type": "compaction", "id": "cmp-1", "encrypted_content": "all of it"}
    assert run(RolloutSession("s", tmp_path).get_items()) == [say(MENDED), summary]


def test_ids_labels_and_usage_with_one_abort_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    monkeypatch.chdir(folder)
    session = RolloutSession(NAME, tmp_path)
    with rollout.label(tags={NAME: NAME}):
        run(session.add_items(talk("hello")))
    used = ran(5)
    used.context_wrapper.usage.input_tokens_details = {NAME: NAME}
    run(session.store_run_usage(used))
    usage: Any = run(session.get_turn_usage(1))
    assert usage["input_tokens_details"] == {MENDED: MENDED}
    assert run(RolloutSession(NAME, tmp_path).get_items()) == talk("hello")
    assert run(RolloutSession(MENDED, tmp_path).get_items()) == []  # another id, another session
    (path,) = files_of(tmp_path)
    (row,) = rollout.Store(tmp_path).list(tags={MENDED: MENDED})
    assert (row.path, row.cwd) == (path, str(tmp_path / MENDED))


@function_tool
def first_name() -> str:
    """What a folder holds."""
    return NAME


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_keeps_the_call_whose_tool_gave_one_back(tmp_path: Path, streamed: bool) -> None:
    model = Scripted([calls("first_name", "c1")], [answers("done")], [answers("again")])
    agent = Agent(name="one", model=model, tools=[first_name])

    async def ask(question: str) -> None:
        session = RolloutSession("s", tmp_path)
        if streamed:
            [_ async for _ in Runner.run_streamed(agent, question, session=session, run_config=QUIET).stream_events()]
        else:
            await Runner.run(agent, question, session=session, run_config=QUIET)

    run(ask("look"))
    run(ask("and now"))
    items = run(RolloutSession("s", tmp_path).get_items())
    assert [item["output"] for item in items if item.get("type") == "function_call_output"] == [MENDED]
    assert items[:4] == model.seen[-1][:4]
    assert rollout.verify(file_of(tmp_path)).ok
