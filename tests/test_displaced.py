"""Another program takes the file of an open log away: nothing is acknowledged that is gone, and all else is found."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Durability, SessionLog, Store
from rollout.errors import Closed, Displaced
from tests.builders import user_item
from tests.sessions import a_log, a_store, context, take_turn, texts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows lets nobody take away a file that is open")


def replace(path: Path, data: bytes) -> None:
    path.with_name("x").write_bytes(data)
    path.with_name("x").replace(path)


AWAY: dict[str, Callable[[Path], object]] = {
    "unlinked": os.unlink,
    "replaced by a copy": lambda path: replace(path, path.read_bytes()),
    "replaced by another": lambda path: replace(path, b"{}\n"),
    "moved": lambda path: path.rename(path.with_name("moved.jsonl")),
    "moved away": lambda path: path.rename(path.parents[4] / "moved.jsonl"),
    "its folder moved": lambda path: path.parent.rename(path.parents[1] / "moved"),
    "its folder deleted": lambda path: shutil.rmtree(path.parents[3]),
}


async def take_turn_awaited(log: SessionLog, question: str) -> None:
    async with log.turn(context()) as turn:
        await turn.user(question)


def write_and_close(log: SessionLog) -> None:
    log.event("later")
    log.close()


COMMITS: dict[str, Callable[[SessionLog], object]] = {
    "a turn": lambda log: take_turn(log, "later"),
    "an awaited turn": lambda log: asyncio.run(take_turn_awaited(log, "later")),
    "a compaction": lambda log: log.compact([user_item("later")]),
    "closing": write_and_close,
}


@pytest.mark.parametrize("durability", Durability)
@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("commit", COMMITS)
def test_a_log_whose_file_was_taken_away_says_where_its_lines_lie(
    commit: str, away: str, durability: Durability, tmp_path: Path
) -> None:
    log = a_log(a_store(tmp_path / "home"), durability)
    take_turn(log, "first")
    before = log.path.read_bytes()
    AWAY[away](log.path)
    with pytest.raises(
        Displaced, match="while it was open for append; all lines that were acknowledged lie in"
    ) as told:
        COMMITS[commit](log)
    lines_at = Path(told.value.lines_at or "")
    assert told.value.path == str(log.path)
    assert ("moved" in lines_at.parts or lines_at.name == "moved.jsonl") is ("moved" in away)
    if durability is not Durability.RECORD:
        assert b"later" in lines_at.read_bytes()
    for call in (lambda: take_turn(log, "again"), log.commit, lambda: log.event("again")):
        with pytest.raises((Displaced, Closed)):
            call()
    log.close()
    assert lines_at.read_bytes().startswith(before)
    assert rollout.verify(lines_at).damage == ()


def test_the_doctor_names_what_was_rescued(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with a_log(store) as log:
        take_turn(log, "first")
        log.path.unlink()
        with pytest.raises(Displaced) as told:
            take_turn(log, "later")
    (finding,) = [finding for finding in store.doctor().findings if finding.kind == "rescued"]
    assert str(finding.path) == told.value.lines_at == f"{log.path}.rescued-1"
    assert finding.is_problem


def test_what_cannot_be_rescued_is_tried_again_by_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_log(a_store(tmp_path)) as log:
        take_turn(log, "first")
        log.path.unlink()
        with monkeypatch.context() as patched:
            patched.setattr("rollout.files.disk.RealFileSystem.mkdir", refuse)
            patched.setattr("rollout.files.disk.RealFileSystem.open_append", refuse)
            with pytest.raises(Displaced, match="could not be rescued: Permission denied") as told:
                take_turn(log, "second")
            assert told.value.lines_at is None
        with pytest.raises(Displaced, match="was removed") as told:
            log.commit()
        assert texts(rollout.reconstruct(told.value.lines_at or ""))[0] == "first"


def refuse(*given: object, **named: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_log_that_is_led_to_by_a_link_in_its_old_place_goes_on(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as log:
        moved = log.path.rename(tmp_path / "moved.jsonl")
        log.path.symlink_to(moved)
        take_turn(log, "first")
    assert texts(rollout.reconstruct(moved))[0] == "first"


def test_a_commit_looks_at_the_path_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, really = list[object](), os.stat

    def look(path: Any, **how: Any) -> os.stat_result:
        looked.append(path)
        return really(path, **how)

    with a_log(a_store(tmp_path)) as log, log.turn(context()) as turn:
        monkeypatch.setattr(os, "stat", look)
        for _ in range(100):
            turn.user("x")
        assert looked == []
        turn.commit()
        assert looked == [str(log.path)]
        monkeypatch.undo()


def test_maintenance_of_a_closed_log_is_no_displacement(tmp_path: Path) -> None:
    store = Store(tmp_path)
    log = a_log(store)
    log.close()
    for maintain in (store.archive, store.unarchive, store.seal, store.unseal):
        maintain(log.id)
        with store.open(log.id) as again:
            take_turn(again, maintain.__name__)
    assert len(rollout.reconstruct(store.resolve(log.id)).history) == 8
