"""A home: what is made in it, what may be deleted."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.errors import InUse, Locked, NotFound, RecordError, UsageError, WriteError
from rollout.store import VERSION
from tests.builders import user_item
from tests.sessions import a_log, a_store, context, lines_of, take_turn, texts

ROOT = Path(__file__).parent.parent


def test_the_home_is_the_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path / "here"))
    with a_log(Store()) as log:
        take_turn(log, "q")
        assert log.path.is_relative_to(tmp_path / "here" / "sessions")
    with rollout.open_log(log.id) as again:
        assert texts(again.resume_state()) == ["q", "answer to q"]
    assert texts(rollout.reconstruct(-1)) == ["q", "answer to q"]


def test_an_open_log_is_a_source_for_everything_that_reads(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        assert texts(rollout.reconstruct(log)) == ["q", "answer to q"]
        assert [turn.status for turn in rollout.turns(log)] == ["completed"]
        assert rollout.verify(log).ok


def test_real_time_and_chance_make_ids_of_their_own(tmp_path: Path) -> None:
    ids = set()
    for _ in range(20):
        with a_log(Store(tmp_path)) as log:
            ids.add(log.id)
    assert len(ids) == 20


def test_what_a_log_says_of_itself_is_any_json_but_for_what_it_must_say_itself(store: Store) -> None:
    with store.create(cwd=Path("/p"), model_provider="m", source={"subagent": "x"}, cli_version="9", custom=[1]) as log:
        meta = lines_of(log.path)[0]["payload"]
        assert (meta["cwd"], meta["source"], meta["cli_version"], meta["custom"]) == ("/p", {"subagent": "x"}, "9", [1])
    for reserved in ("id", "timestamp", "forked_from_id", "history_base", "history_mode"):
        with pytest.raises(UsageError, match=reserved):
            store.create(**{"cwd": "/p", "model_provider": "m", reserved: "../../x"})  # type: ignore[arg-type]  # any key
    with pytest.raises(RecordError):
        store.create(cwd="/p", model_provider="m", custom={1, 2})
    assert len(list(store.home.rglob("*.jsonl"))) == 1


def test_the_version_that_is_written_is_the_one_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_no_link_leads_a_new_log_out_of_its_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / "sessions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WriteError, match="no link may lead out of the home"):
        a_log(a_store(tmp_path / "home"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_log_that_nothing_refers_to_is_deleted(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    assert store.delete(log.id) == log.path
    assert list(store.home.rglob("*.*")) == []
    with pytest.raises(NotFound):
        store.delete(log.id)


def test_a_log_that_is_being_written_is_not_deleted(store: Store) -> None:
    with a_log(store) as log, pytest.raises(Locked):
        store.delete(log.id)
    assert log.path.exists()


def test_a_log_is_not_deleted_while_a_fork_refers_to_it(store: Store) -> None:
    with a_log(store) as log:
        first = take_turn(log, "q1")
        take_turn(log, "q2")
        with log.fork() as child, child.fork(at=first) as other, child.fork(copy=True) as copy:
            pass
    with pytest.raises(InUse, match=r"forks refer to it: rollout-.*; detach them first") as refused:
        store.delete(log.id)
    assert child.path.name in str(refused.value)
    assert other.path.name in str(refused.value)
    assert copy.path.name not in str(refused.value)
    assert store.forks_of(log.id) == sorted([child.path, other.path])
    assert store.forks_of(child.id) == []
    for fork in (child, other, copy):
        store.delete(fork.id)
    store.delete(log.id)
    assert list(store.home.rglob("*.*")) == []


def test_forks_that_are_made_to_stand_alone_say_what_they_said(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q1")
        with log.turn(context("m2")) as turn:
            turn.append_all([user_item("q2"), user_item("q3")])
        with log.fork() as child:
            take_turn(child, "q4")
            with child.fork() as grandchild:
                take_turn(grandchild, "q5")
    wanted = {path: rollout.reconstruct(path) for path in (child.path, grandchild.path)}
    keys = [list(line["payload"]) for line in lines_of(child.path)[:1]]
    store.delete(log.id, detach_forks=True)
    assert not log.path.exists()
    for path, before in wanted.items():
        after = rollout.reconstruct(path)
        assert list(after.history) == list(before.history)
        assert (after.previous_model, after.reference) == (before.previous_model, before.reference)
        assert rollout.verify(path, home=store.home).damage == ()
        assert "history_base" not in lines_of(path)[0]["payload"]
        assert path.stat().st_mode & 0o777 == 0o600
    assert [[*list(line["payload"]), "history_base"] for line in lines_of(child.path)[:1]] == keys
    with store.open(child.id) as again:
        take_turn(again, "q6")
    store.delete(child.id)
    assert texts(rollout.reconstruct(grandchild.path))[-2:] == ["q5", "answer to q5"]


def test_detaching_what_stands_alone_changes_nothing(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    before = log.path.read_bytes()
    assert store.detach(log.id) == log.path
    assert log.path.read_bytes() == before


def test_a_fork_that_is_being_written_is_not_detached_and_nothing_is_deleted(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        child = log.fork()
    before = child.path.read_bytes()
    with child, pytest.raises(Locked):
        store.delete(log.id, detach_forks=True)
    assert log.path.exists()
    assert child.path.read_bytes() == before


def test_a_fork_that_is_made_while_its_source_is_deleted_keeps_it_or_is_not_made(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    reader = store.open(log.id, "read")
    made: list[Path] = []
    rename = type(store.fs).rename

    def fork_first(fs: object, source: Path, target: Path) -> None:
        if not made and target.name.endswith(".deleted"):
            made.append(reader.path)
            with reader.fork() as child:
                made.append(child.path)
        rename(fs, source, target)  # type: ignore[arg-type]  # a file system it is

    monkeypatch.setattr(type(store.fs), "rename", fork_first)
    with pytest.raises(InUse):
        store.delete(log.id)
    assert texts(rollout.reconstruct(made[1])) == ["q", "answer to q"]
    store.delete(made[1])
    store.delete(log.id)
    with pytest.raises(NotFound):
        reader.fork()
