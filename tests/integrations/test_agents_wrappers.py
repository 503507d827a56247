"""RolloutSession in the SDK's hands: the same runs as with SQLiteSession give the same prompts and the same items.

Plain and in what the SDK puts around sessions: EncryptedSession, OpenAIResponsesCompactionSession, both.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from agents import SQLiteSession
from agents.extensions.memory.encrypt_session import EncryptedSession
from agents.memory import OpenAIResponsesCompactionSession, Session, is_openai_responses_compaction_aware_session

import rollout
from rollout.adapters.agents import RolloutSession
from tests.integrations.scripted_runs import SCENARIOS, Noted, talk

KEY = "a secret of more than thirty-two letters"


class FakeClient:
    """Stands for the API: compacts anything to the user's messages and one item, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.responses = SimpleNamespace(compact=self._compact)
        self._numbers = itertools.count(1)

    async def _compact(self, **asked: Any) -> Any:
        self.asked.append(copy.deepcopy(asked))
        kept = [item for item in asked.get("input", ()) if item.get("role") == "user"]
        summary = {"type": "compaction", "id": f"cmp-{next(self._numbers)}", "encrypted_content": "all of it"}
        return SimpleNamespace(output=[*kept, summary], usage=None)


def plain(session: Session, _: FakeClient) -> Session:
    return session


def encrypted(session: Any, _: FakeClient) -> Session:
    return EncryptedSession("s", session, KEY)


def compacting(session: Any, client: FakeClient) -> Session:
    """Compacts when three items are no user's messages."""
    return OpenAIResponsesCompactionSession(
        "s",
        session,
        client=client,  # type: ignore[arg-type]  # all that is asked of it
        compaction_mode="input",
        should_trigger_compaction=lambda told: len(told["compaction_candidate_items"]) >= 3,
    )


def encrypted_and_compacting(session: Any, client: FakeClient) -> Session:
    """In this order at all versions; at the other one 0.20 sends the API what is encrypted."""
    return compacting(encrypted(session, client), client)


WRAPPERS = (plain, encrypted, compacting, encrypted_and_compacting)
Wrap = Callable[[Any, FakeClient], Session]


async def played(name: str, wrapped: Wrap, inner: Callable[[], Any]) -> Noted:
    """What a scenario saw and left behind, down to the last item, popped one by one."""
    client, noted, opened = FakeClient(), list[Any](), list[Any]()

    def open_() -> Session:
        opened.append(inner())
        return wrapped(opened[-1], client)

    await SCENARIOS[name](open_, noted)
    session = open_()
    noted += [client.asked, await session.get_items(), await session.get_items(limit=3)]
    while (item := await session.pop_item()) is not None:
        noted.append(item)
    noted.append(await open_().get_items())
    for one in opened:
        one.close()
    return noted


@pytest.mark.parametrize("wrapped", WRAPPERS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_sees_and_leaves_the_same_items_as_with_the_sqlite_session(
    name: str, wrapped: Wrap, tmp_path: Path
) -> None:
    ours = asyncio.run(played(name, wrapped, lambda: RolloutSession("s", tmp_path / "home")))
    theirs = asyncio.run(played(name, wrapped, lambda: SQLiteSession("s", tmp_path / "their.db")))
    assert ours == theirs
    assert json.dumps(ours) == json.dumps(theirs)  # the order of keys too


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_is_the_same_with_a_session_that_is_kept_in_memory(name: str) -> None:
    ours, theirs = RolloutSession("s"), SQLiteSession("s")
    assert asyncio.run(played(name, plain, lambda: ours)) == asyncio.run(played(name, plain, lambda: theirs))


def test_the_session_is_one_in_the_eyes_of_the_sdk_and_compacts_nothing_on_its_own() -> None:
    session = RolloutSession("s")
    assert isinstance(session, Session)
    assert not is_openai_responses_compaction_aware_session(session)
    assert is_openai_responses_compaction_aware_session(compacting(session, FakeClient()))


async def filled(session: Any, wrapped: Wrap, client: FakeClient) -> Session:
    """A session of three exchanges."""
    whole = wrapped(session, client)
    await talk(lambda: whole, [], "q1", "q2", "a secret")
    return whole


@pytest.mark.parametrize("wrapped", [compacting, encrypted_and_compacting])
def test_a_compaction_by_hand_replaces_the_same_items_and_the_file_still_says_what_was_before(
    wrapped: Any, tmp_path: Path
) -> None:
    async def compacted(inner: Any) -> Noted:
        client = FakeClient()
        session: Any = await filled(inner, wrapped, client)
        await session.add_items([{"role": "user", "content": "one more"}])
        await session.run_compaction({"force": True})
        inner.close()
        with contextlib.closing(type(inner)("s", path)) as again:
            return [client.asked, await wrapped(again, client).get_items()]

    path = tmp_path / "home"
    ours = asyncio.run(compacted(RolloutSession("s", path)))
    (file,) = path.rglob("rollout-*.jsonl")
    fates = Counter(line.status for line in rollout.explain(file))
    assert len(rollout.reconstruct(file).history) == fates["visible"] == len(ours[1])
    assert fates["replaced"] >= 7
    path = tmp_path / "their.db"
    assert ours == asyncio.run(compacted(SQLiteSession("s", path)))


class Noting(RolloutSession):
    """A session that has something to do of its own when it is cleared."""

    cleared = 0

    async def clear_session(self, *, wrapper: object = None) -> None:
        self.cleared += 1
        await super().clear_session()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_compaction_does_not_pass_by_a_method_that_was_put_in_place_of_ours(by_hand: bool) -> None:
    async def compacted() -> None:
        inner = RolloutSession("s") if by_hand else Noting("s")
        put: Any = mock.patch.object(inner, "clear_session", wraps=inner.clear_session) if by_hand else nullcontext()
        with put as clear:
            session: Any = await filled(inner, compacting, FakeClient())
            await session.run_compaction({"force": True})
        assert (inner.cleared if isinstance(inner, Noting) else clear.await_count) == 2
        assert (await inner.get_items())[-1]["type"] == "compaction"

    asyncio.run(compacted())


def test_the_file_of_an_encrypted_session_holds_no_word_of_it_and_another_key_reads_nothing(tmp_path: Path) -> None:
    async def kept() -> None:
        session = await filled(RolloutSession("s", tmp_path), encrypted, FakeClient())
        before = await session.get_items()
        (file,) = tmp_path.rglob("rollout-*.jsonl")
        assert b"secret" not in file.read_bytes()
        assert await EncryptedSession("s", RolloutSession("s", tmp_path), "another" + KEY).get_items() == []  # type: ignore[arg-type]  # Session is enough
        assert await encrypted(RolloutSession("s", tmp_path), FakeClient()).get_items() == before
        assert len(before) == 6

    asyncio.run(kept())


def test_items_that_have_expired_are_neither_read_nor_popped(tmp_path: Path) -> None:
    async def read(inner: Any) -> Noted:
        await filled(inner, encrypted, FakeClient())
        expired = EncryptedSession("s", inner, KEY, ttl=-1)
        noted = [await expired.get_items(), await expired.get_items(2), len(await inner.get_items())]
        noted += [await expired.pop_item(), await inner.get_items()]
        inner.close()
        return noted

    ours = asyncio.run(read(RolloutSession("s", tmp_path / "home")))
    assert ours == asyncio.run(read(SQLiteSession("s", tmp_path / "their.db"))) == [[], [], 6, None, []]
