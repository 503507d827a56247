"""Sessions of agents in a home with keys: the same items, and not a word of them on the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import NoKey
from rollout.adapters.agents import RolloutSession
from rollout.files.encrypted.keys import KEYS_FILE
from tests.enciphering import a_cipher


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rollout.make_key(tmp_path / "keys.json", "k1")
    monkeypatch.setenv(KEYS_FILE, str(tmp_path / "keys.json"))
    return tmp_path / "home"


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def test_sessions_of_two_processes_share_an_encrypted_log(home: Path) -> None:
    async def talk() -> None:
        one, two = RolloutSession("a", home), RolloutSession("a", home)
        await one.add_items(said("hidden 1", "hidden 2"))
        await two.add_items(said("hidden 3"))
        assert await one.pop_item() == said("hidden 3")[0]
        await one.add_items(said("hidden 4"))
        assert await two.get_items() == said("hidden 1", "hidden 2", "hidden 4")
        assert await two.get_items(limit=1) == said("hidden 4")
        await two.clear_session()
        await one.add_items(said("hidden 5"))
        assert await two.get_items() == said("hidden 5")
        one.close()
        two.close()

    asyncio.run(talk())
    (path,) = home.rglob("rollout-*.jsonl")
    assert rollout.verify(path).ok
    assert not [file for file in home.rglob("*") if file.is_file() and b"hidden" in file.read_bytes()]


def test_a_session_is_given_keys(tmp_path: Path) -> None:
    cipher = a_cipher()

    async def talk(session: RolloutSession) -> None:
        await session.add_items(said("hidden 1"))
        await session.add_items(said("hidden 2"))
        assert await session.get_items(2) == await session.get_items() == said("hidden 1", "hidden 2")
        assert [await session.pop_item(), await session.pop_item()] == [*said("hidden 2"), *said("hidden 1")]
        assert await session.pop_item() is None
        session.close()

    asyncio.run(talk(RolloutSession("a", tmp_path, cipher=cipher)))
    asyncio.run(talk(RolloutSession("a", cipher=cipher)))
    (path,) = tmp_path.rglob("rollout-*.jsonl")
    assert b"hidden" not in path.read_bytes()
    assert rollout.verify(path, cipher=cipher).ok


def test_a_session_without_its_key_neither_reads_nor_writes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> None:
        session = RolloutSession("a", home)
        await session.add_items(said("hidden"))
        session.close()
        monkeypatch.delenv(KEYS_FILE)
        (path,) = home.rglob("rollout-*.jsonl")
        before = path.read_bytes()
        session = RolloutSession("a", home)
        with pytest.raises(NoKey):
            await session.get_items()
        with pytest.raises(NoKey):
            await session.add_items(said("plain"))
        session.close()
        assert path.read_bytes() == before

    asyncio.run(talk())
