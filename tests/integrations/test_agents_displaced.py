"""Another program takes a session's file away while items are put on the disk, or our own maintenance replaces it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.adapters.agents import RolloutSession
from rollout.errors import Displaced, NotFound
from tests.enciphering import a_cipher

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows lets nobody take away a file that is open")


def item(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def in_the_next_sync(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Does something while the next sync of a file runs."""
    really, is_over = os.fdatasync, False

    def sync(fd: int) -> None:
        nonlocal is_over
        really(fd)
        if not is_over:
            is_over = True
            act()

    monkeypatch.setattr(os, "fdatasync", sync)


def the_file(store: Store) -> Path:
    return store.resolve("s")


def test_items_whose_file_is_unlinked_in_their_sync_are_rescued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, session = Store(tmp_path), RolloutSession("s", tmp_path)
    asyncio.run(session.add_items([item("first")]))
    path = the_file(store)
    in_the_next_sync(monkeypatch, path.unlink)
    with pytest.raises(Displaced, match="was removed while it was open") as told:
        asyncio.run(session.add_items([item("second")]))
    rescued = rollout.reconstruct(told.value.lines_at or "").history
    assert [item["content"][0]["text"] for item in rescued] == ["first", "second"]
    with pytest.raises(NotFound):
        asyncio.run(session.add_items([item("third")]))
    Path(told.value.lines_at or "").rename(path)
    asyncio.run(session.add_items([item("third")]))
    assert [item["content"] for item in asyncio.run(session.get_items())] == ["first", "second", "third"]
    session.close()


def test_items_whose_file_is_replaced_in_their_sync_are_rescued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, session = Store(tmp_path), RolloutSession("s", tmp_path)
    asyncio.run(session.add_items([item("first")]))
    path = the_file(store)
    old = path.read_bytes()

    def restore() -> None:
        path.with_name("x").write_bytes(old)
        path.with_name("x").replace(path)

    in_the_next_sync(monkeypatch, restore)
    with pytest.raises(Displaced, match="was replaced by another file") as told:
        asyncio.run(session.add_items([item("second")]))
    assert b"second" in Path(told.value.lines_at or "").read_bytes()
    asyncio.run(session.add_items([item("third")]))
    assert [item["content"] for item in asyncio.run(session.get_items())] == ["first", "third"]
    session.close()


MAINTENANCE: dict[str, Callable[[Store, Path], object]] = {
    "seal": lambda store, path: store.seal(path),
    "archive": lambda store, path: store.archive(path),
    "encrypt": lambda store, path: store.rekey(path),
}


@pytest.mark.parametrize("maintenance", MAINTENANCE)
def test_maintenance_in_the_sync_of_items_takes_them_along(
    maintenance: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cipher = a_cipher()
    store, session = Store(tmp_path, cipher=cipher), RolloutSession("s", tmp_path)
    asyncio.run(session.add_items([item("first")]))
    session = RolloutSession("s", tmp_path, cipher=cipher)
    path = the_file(store)
    in_the_next_sync(monkeypatch, lambda: MAINTENANCE[maintenance](store, path))
    asyncio.run(session.add_items([item("second")]))
    monkeypatch.undo()
    asyncio.run(session.add_items([item("third")]))
    assert [item["content"] for item in asyncio.run(session.get_items())] == ["first", "second", "third"]
    assert not list(tmp_path.rglob("*.rescued-*"))
    session.close()
