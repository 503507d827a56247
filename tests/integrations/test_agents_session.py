"""A session among others: limits, its end, cancellation, other writers, and what the command line does to its file."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import SQLiteSession
from agents.memory import Session, SessionSettings

import rollout
from rollout.adapters.agents import RolloutSession, SessionClosed
from rollout.adapters.agents.ledger import escape
from rollout.errors import Locked, NotFound, RolloutError, WriteError
from rollout.files.disk import RealFileSystem
from rollout.files.shared_writer import SharedWriter
from rollout.store import Store
from tests.integrations.agent_sessions import add_all, file_of, files_of, run, say, says


def test_it_is_a_session_of_the_sdk() -> None:
    assert isinstance(RolloutSession("s"), Session)
    assert not hasattr(RolloutSession("s"), "run_compaction")


@pytest.mark.parametrize("limit", [None, -2, -1, 0, 1, 2, 3, 4, 10**12])
@pytest.mark.parametrize("settings", [None, -1, 0, 1, 2])
def test_limits_mean_what_they_mean_to_the_sessions_of_the_sdk(limit: int | None, settings: int | None) -> None:
    found = []
    for kind in (RolloutSession, SQLiteSession):
        session: Any = kind("s", session_settings=SessionSettings(limit=settings))
        run(session.add_items(says("a", "b", "c")))
        found.append(run(session.get_items(limit)))
        session.close()
    assert found[0] == found[1]


def test_the_newest_items_are_read_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = RolloutSession("s", tmp_path)
    for begin in range(0, 3000, 100):
        run(session.add_items(says(*map(str, range(begin, begin + 100)))))
    other = RolloutSession("s", tmp_path)
    assert run(other.get_items(1)) == says("2999")
    read = 0
    real = os.pread

    def counting(fd: int, n: int, offset: int) -> bytes:
        nonlocal read
        found = real(fd, n, offset)
        read += len(found)
        return found

    monkeypatch.setattr(os, "pread", counting)
    for one in (session, other):
        read = 0
        assert run(one.get_items(20)) == says(*map(str, range(2980, 3000)))
        assert read < 30_000 < file_of(tmp_path).stat().st_size // 10
    read = 0
    for n in range(2999, 2899, -1):
        assert run(session.pop_item()) == say(str(n))
    assert read < 250_000  # not a hundred times what lies behind the oldest of them


def test_a_closed_session_refuses_every_call_and_closing_twice_is_fine(tmp_path: Path) -> None:
    class Named(RolloutSession):
        """Its own name is told."""

    for session in (RolloutSession("s", tmp_path), Named("s")):
        run(session.add_items(says("a")))
        session.close()
        session.close()
        for call in (session.get_items, session.pop_item, session.clear_session):
            with pytest.raises(SessionClosed, match=f"{type(session).__name__} is closed"):
                run(call())
        for items in (says("b"), []):
            with pytest.raises(RuntimeError, match="closed"):
                run(session.add_items(items))
    assert run(RolloutSession("s", tmp_path).get_items()) == says("a")


class Pause:
    """Holds the next sync until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        commit = SharedWriter.commit

        def paused(writer: SharedWriter) -> int:
            self.reached.set()
            assert self.go_on.wait(20)
            return commit(writer)

        monkeypatch.setattr(SharedWriter, "commit", paused)


@pytest.mark.parametrize("method", ["add_items", "pop_item", "clear_session", "_atomic_replace_items"])
def test_a_cancelled_change_ends_when_its_outcome_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    pause = Pause(monkeypatch)

    async def cancel() -> None:
        call = getattr(session, method)
        changing = asyncio.create_task(call(says("b")) if method.endswith("_items") else call())
        assert await asyncio.to_thread(pause.reached.wait, 20)
        for _ in range(3):
            changing.cancel()
            await asyncio.sleep(0.01)
            assert not changing.done()
        pause.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await changing
        expected = {"add_items": says("a", "b"), "_atomic_replace_items": says("b")}
        assert await session.get_items() == expected.get(method, [])

    run(cancel())


def test_a_call_under_way_outlives_the_end_of_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    pause = Pause(monkeypatch)

    async def close() -> None:
        adding = asyncio.create_task(session.add_items(says("b")))
        assert await asyncio.to_thread(pause.reached.wait, 20)
        session.close()  # does not wait
        with pytest.raises(SessionClosed):
            await session.get_items()
        pause.go_on.set()
        await adding

    run(close())
    assert run(RolloutSession("s", tmp_path).get_items()) == says("a", "b")


def test_tasks_loops_threads_and_objects_lose_and_double_nothing(tmp_path: Path) -> None:
    sessions = [RolloutSession("s", tmp_path) for _ in range(2)]
    popped: list[Any] = []

    async def work(session: RolloutSession, name: str) -> None:
        for n in range(5):
            await session.add_items(says(*(f"{name}.{n}.{k}" for k in range(3))))
        popped.append(await session.pop_item())

    async def tasks(name: str) -> None:
        await asyncio.gather(*(work(session, f"{name}{i}") for i, session in enumerate(sessions * 2)))

    threads = [threading.Thread(target=lambda name=name: run(tasks(name))) for name in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [item["content"] for item in run(sessions[0].get_items())]
    gone = [item["content"] for item in popped]
    names = {f"{name}{i}" for name in "xy" for i in range(4)}
    assert sorted([*kept, *gone]) == sorted(f"{name}.{n}.{k}" for name in names for n in range(5) for k in range(3))
    for name in names:  # in the order in which they were added
        own = [text for text in kept if text.startswith(f"{name}.")]
        assert own == sorted(own)


def _add_in_a_process(home: str, name: str) -> None:
    session = RolloutSession("s", home)
    for n in range(20):
        run(session.add_items(says(f"{name}.{n:02}", f"{name}.{n:02}!")))
        if n % 5 == 4:
            run(session.pop_item())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes_lose_and_double_nothing_from_the_first_item_on(tmp_path: Path) -> None:
    start = multiprocessing.get_context("fork")  # importing the SDK anew takes seconds
    others = [start.Process(target=_add_in_a_process, args=(str(tmp_path), name)) for name in "abc"]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    found = [item["content"] for item in run(RolloutSession("s", tmp_path).get_items())]
    assert len(found) == len(set(found)) == 3 * (40 - 4)
    (path,) = files_of(tmp_path)
    assert rollout.verify(path).damaged_lines == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_session_goes_on_in_a_forked_process(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    child = os.fork()
    if not child:
        run(session.add_items(says("b")))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    run(session.add_items(says("c")))
    assert run(session.get_items()) == says("a", "b", "c")


def test_a_file_that_another_program_writes_is_locked_and_stays_as_it_is(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path, lock_timeout_s=0.05)
    run(session.add_items(says("a")))
    path = file_of(tmp_path)
    with Store(tmp_path).open(path):
        before = path.read_bytes()
        for change in (session.add_items(says("b")), session.pop_item(), session.clear_session()):
            with pytest.raises(Locked):
                run(change)
        assert path.read_bytes() == before
        assert run(session.get_items()) == says("a")
    run(session.add_items(says("b")))
    assert run(session.get_items()) == says("a", "b")


def test_a_log_is_found_again_wherever_the_command_line_has_put_it(tmp_path: Path) -> None:
    store, session = Store(tmp_path), RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    (path,) = files_of(tmp_path)
    thread = Path(path).name.removesuffix(".jsonl")[-36:]
    expected = says("a")
    moves: tuple[Callable[[], object], ...] = (
        lambda: store.seal(thread),
        lambda: store.archive(thread),
        lambda: store.seal(thread),
        lambda: store.unarchive(thread),
        lambda: store.unseal(thread),
        lambda: path.write_bytes(path.read_bytes()),
    )
    for n, move in enumerate(moves):
        move()
        fresh = RolloutSession("s", tmp_path)
        assert run(session.get_items()) == run(fresh.get_items()) == expected
        for one in (session, fresh):
            move_again = say(f"{n}")
            run(one.add_items([move_again]))
            expected.append(move_again)
        assert run(session.pop_item()) == expected.pop()
        assert run(fresh.get_items(2)) == run(session.get_items(2)) == expected[-2:]
    assert len(files_of(tmp_path)) == 1


def test_a_deleted_rollout_is_missed_until_the_session_is_cleared(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    Store(tmp_path).delete(file_of(tmp_path))
    for call in (session.get_items(), session.add_items(says("b")), session.pop_item()):
        with pytest.raises(NotFound):
            run(call)
    run(session.clear_session())
    assert run(session.get_items()) == []
    run(session.add_items(says("c")))
    assert run(RolloutSession("s", tmp_path).get_items()) == says("c")


def test_a_home_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(RolloutSession("s", tmp_path).add_items(says("a")))

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    for method in ("open_append", "mkdir", "unlink", "rename", "write_new"):
        monkeypatch.setattr(RealFileSystem, method, refuse)
    for session_id, expected in (("s", says("a")), ("another", [])):
        session = RolloutSession(session_id, tmp_path)
        assert run(session.get_items()) == expected
        with pytest.raises(WriteError):
            run(session.add_items(says("b")))
        assert run(session.get_items()) == expected


def test_the_constructor_touches_no_file(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path / "home")
    assert run(session.get_items()) == []
    assert run(session.pop_item()) is None
    run(session.clear_session())
    run(session.add_items([]))
    assert not (tmp_path / "home").exists()


def test_any_text_is_a_session_id_of_its_own(tmp_path: Path) -> None:
    ids = [
        "a:b",
        "a_b",
        "A",
        "a",
        "..",
        ".",
        "",
        "/",
        "a/b",
        "con",
        "NUL",
        "\0",
        "\u00e9",
        "e\u0301",
        "a" * 300,
        "a" * 301,
    ]
    assert len({escape(session_id).casefold() for session_id in ids}) == len(ids)
    for session_id in ids:
        run(RolloutSession(session_id, tmp_path).add_items(says(session_id)))
    for session_id in ids:
        assert run(RolloutSession(session_id, tmp_path).get_items()) == says(session_id)
    for path in (tmp_path / "agent_sessions").iterdir():
        assert len(path.name) < 255
        assert path.name.isascii()


def test_the_session_is_a_rollout_that_everything_else_reads(tmp_path: Path) -> None:
    session = RolloutSession("my-session", tmp_path)
    run(add_all(session, say("a"), say("b", "assistant"), say("c"), say("oops")))
    run(session.pop_item())
    store = Store(tmp_path)
    (row,) = store.list()
    assert (row.name, row.session_ids) == ("my-session", ("my-session",))
    path = store.resolve("my-session")
    state = rollout.reconstruct(path)
    assert [item["content"][0]["text"] for item in state.history] == ["a", "b", "c"]
    assert all(item["type"] == "message" for item in state.history)
    assert rollout.verify(path).damaged_lines == 0
    assert [turn.status for turn in rollout.turns(path)] == ["completed"] * 3
    assert {state.history.label(n).session_id for n in range(3)} == {"my-session"}
    with rollout.open_log("my-session", mode="read", home=tmp_path) as log, log.fork() as child:
        assert list(child.resume_state().history) == list(state.history)
    run(session.clear_session())
    assert list(rollout.reconstruct(path).history) == []
    assert len(list(rollout.explain(path))) == len(path.read_bytes().splitlines())


def test_what_a_label_block_says_stands_in_the_lines(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path)
    with rollout.label(tags={"run": "7"}):
        run(session.add_items(says("a")))
    line = json.loads(file_of(tmp_path).read_bytes().splitlines()[-1])
    assert (line["session_id"], line["tags"]) == ("s", {"run": "7"})


def test_a_rollback_by_another_program_counts(tmp_path: Path) -> None:
    session = RolloutSession("s", tmp_path)
    run(add_all(session, *says("a", "b", "c")))
    with Store(tmp_path).open(file_of(tmp_path)) as log:
        log.rollback(2)
    assert run(session.get_items()) == run(session.get_items(5)) == says("a")
    assert run(session.pop_item()) == say("a")
    assert run(session.pop_item()) is None


def test_a_full_disk_loses_nothing_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = RolloutSession("s", tmp_path)
    run(session.add_items(says("a")))
    real = os.write

    def short(fd: int, data: bytes) -> int:
        return real(fd, data[:20]) if data.startswith(b'{"timestamp"') else real(fd, data)

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(RolloutError):
        run(session.add_items(says("b", "c")))
    monkeypatch.setattr(os, "write", real)
    assert run(session.get_items()) == says("a")
    run(session.add_items(says("d")))
    assert run(session.get_items()) == says("a", "d")


def test_a_session_in_memory_is_its_own_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = RolloutSession("s"), RolloutSession("s")
    run(one.add_items(says("a")))
    assert run(one.get_items()) == says("a")
    assert run(other.get_items()) == []
    assert not list(tmp_path.iterdir())
