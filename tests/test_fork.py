"""Forks: at every kind of point, of forks, by reference and as copies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import SessionLog, State, Store, at_ordinal
from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.errors import NotFound, UsageError
from rollout.files.port import Durability
from rollout.files.recovery import unmark
from rollout.testing.disk import OpKind, SimulatedDisk
from tests.builders import assistant_item, user_item
from tests.sessions import DAY, a_log, a_store, context, interrupt, kinds, lines_of, take_turn, texts

CASES = Path(__file__).parent.parent / "fixtures" / "cases"

by_reference_and_as_copy = pytest.mark.parametrize("copy", [False, True])


def said(state: State) -> tuple[Any, ...]:
    """What a fork must have in common with its source."""
    return (
        list(state.history),
        state.previous_model,
        state.reference,
        state.world_state,
        state.token_usage,
        [(turn.id, turn.status, turn.stands) for turn in state.all_turns if not turn.derived],
        state.damage,
    )


def prefix_state(log: SessionLog, end: int, tmp_path: Path) -> State:
    """What the first bytes of a log say, cut off and looked at by themselves (a batch was whole in the log)."""
    path = tmp_path / "prefix.jsonl"
    path.write_bytes(b"".join(map(unmark, log.path.read_bytes()[:end].splitlines(keepends=True))))
    return rollout.reconstruct(path)


def a_long_log(store: Store) -> tuple[SessionLog, list[str]]:
    log = a_log(store)
    turns = [take_turn(log, "q1"), take_turn(log, "q2", context("m2"))]
    log.record("world_state", {"full": True, "state": {"a": 1}})
    log.event("token_count", info={"total_token_usage": {"total_tokens": 7}})
    with pytest.raises(ValueError, match="-") as interrupted:
        interrupt(log, "q3", assistant_item("half"), assistant_item("of it"), settings=context("m3"))
    log.compact([user_item("summary")], "summary")
    return log, [*turns, str(interrupted.value), take_turn(log, "q4", context("m4"))]


@by_reference_and_as_copy
def test_a_fork_says_at_birth_what_its_source_says(store: Store, copy: bool) -> None:
    log, _ = a_long_log(store)
    with log, log.fork(copy=copy) as child:
        assert said(child.resume_state()) == said(log.resume_state())
        assert child.id != log.id
        assert child.path.parent == store.home / DAY
        meta = lines_of(child.path)[0]["payload"]
        theirs = lines_of(log.path)[0]["payload"]
        assert list(meta)[:3] == ["id", "forked_from_id", "timestamp"]
        assert (meta["id"], meta["forked_from_id"]) == (child.id, log.id)
        assert {key: meta[key] for key in theirs if key not in ("id", "timestamp")} == {
            key: theirs[key] for key in theirs if key not in ("id", "timestamp")
        }
        assert rollout.verify(child.path, home=store.home).damage == ()
        take_turn(child, "only here")
        assert texts(child.resume_state()) == [*texts(log.resume_state()), "only here", "answer to only here"]
        again = child.path
    assert texts(rollout.reconstruct(again))[-1] == "answer to only here"


def test_a_reference_is_to_the_end_of_the_source_and_holds_no_line_of_it(store: Store) -> None:
    log, _ = a_long_log(store)
    with log, log.fork() as child:
        (line,) = lines_of(child.path)
        assert line["payload"]["history_base"] == {"thread_id": log.id, "end_byte_offset": log.end}
        take_turn(log, "not in the fork")
        assert "not in the fork" not in texts(child.resume_state())


def test_a_copy_holds_the_lines_of_its_source_byte_for_byte_but_for_the_marks_of_batches(store: Store) -> None:
    log, _ = a_long_log(store)
    with log, log.fork(copy=True) as child:
        copied = child.path.read_bytes().split(b"\n")[1:]
        given = log.path.read_bytes().split(b"\n")
        assert any(b'"batch"' in line for line in given)
        assert [json.loads(line) for line in copied[:-1]] == [
            {key: value for key, value in json.loads(line).items() if key != "batch"} for line in given[:-1]
        ]
        assert [a for a, b in zip(copied, given, strict=True) if a != b and b'"batch"' not in b] == []
        assert [path.name for path in child.path.parent.iterdir() if path.suffix not in (".jsonl", ".lock")] == []
        assert child.durable_end == child.end


@by_reference_and_as_copy
def test_a_log_can_be_forked_behind_every_line(store: Store, tmp_path: Path, copy: bool) -> None:
    log, _ = a_long_log(store)
    end = 0
    with log:
        for line in log.path.read_bytes().splitlines(keepends=True):
            end += len(line)
            with log.fork(at=end, copy=copy) as child:
                assert said(child.resume_state()) == said(prefix_state(log, end, tmp_path))
        for wrong in (0, 1, end - 1, end + 1, -5):
            with pytest.raises(UsageError, match="no line ends there"):
                log.fork(at=wrong, copy=copy)


@by_reference_and_as_copy
def test_a_fork_at_a_turn_has_the_state_behind_it_or_before_it(store: Store, copy: bool) -> None:
    log, turns = a_long_log(store)
    after = [["q1", "answer to q1"]]
    after.append([*after[0], "q2", "answer to q2"])
    after.append([*after[1], "q3", "half", "of it", ABORTED_TEXT])
    after.append(["summary", "q4", "answer to q4"])
    before = [[], after[0], after[1], ["summary"]]
    with log:
        log.rollback(1)  # a turn that was taken back can be gone back to
        for i, turn in enumerate(turns):
            with log.fork(at=turn, copy=copy) as child:
                assert texts(child.resume_state()) == after[i]
                assert [found.id for found in child.resume_state().all_turns if found.id in turns] == turns[: i + 1]
                assert child.resume_state().previous_model == f"m{i + 1}"
            with log.fork(at=turn, before=True, copy=copy) as child:
                assert texts(child.resume_state()) == before[i]
        with pytest.raises(NotFound, match="no turn"):
            log.fork(at="no such turn")
        with pytest.raises(UsageError, match="only a turn"):
            log.fork(before=True)


def test_a_fork_at_a_turn_without_an_end_stops_before_a_rollback(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-03-20T10-00-00-019d0000-0000-7000-8000-000000000001.jsonl"
    shutil.copy(CASES / "h_no_lifecycle" / "rollout.jsonl", path)
    with rollout.open_log(path) as log:
        turns = log.resume_state().turns
        assert all(turn.derived for turn in turns)
        log.rollback(1)
        whole = [texts(rollout.reconstruct(path.parent / path.name))]
        with log.fork(at=turns[-1].id) as child:
            assert texts(child.resume_state()) == texts(rollout.reconstruct(CASES / "h_no_lifecycle" / "rollout.jsonl"))
        with log.fork(at=turns[-2].id) as child:
            assert [texts(child.resume_state())] == whole


@by_reference_and_as_copy
def test_a_fork_of_a_fork_of_a_fork_has_all_of_them(store: Store, copy: bool) -> None:
    with a_log(store) as log:
        names = [take_turn(log, "q0")]
        logs = [log]
        for n in range(1, 4):
            logs.append(logs[-1].fork(copy=copy))
            names.append(take_turn(logs[-1], f"q{n}"))
        wanted = [text for n in range(4) for text in (f"q{n}", f"answer to q{n}")]
        assert texts(logs[-1].resume_state()) == wanted
        assert [turn.id for turn in logs[-1].resume_state().turns] == names
        for child in logs[1:]:
            child.close()
        with store.open(logs[-1].id) as again:
            again.rollback(3)
            assert texts(again.resume_state()) == ["q0", "answer to q0"]


def test_a_fork_of_a_fork_at_a_point_in_the_base_refers_to_the_base_itself(store: Store) -> None:
    with a_log(store) as log:
        first = take_turn(log, "q1")
        take_turn(log, "q2")
        with log.fork() as child:
            take_turn(child, "q3")
            with child.fork(at=first) as grandchild:
                base = lines_of(grandchild.path)[0]["payload"]["history_base"]
                assert base["thread_id"] == log.id
                assert lines_of(grandchild.path)[0]["payload"]["forked_from_id"] == child.id
                assert texts(grandchild.resume_state()) == ["q1", "answer to q1"]
            with child.fork(at=first, copy=True) as grandchild:
                assert texts(grandchild.resume_state()) == ["q1", "answer to q1"]


@by_reference_and_as_copy
def test_a_fork_in_the_middle_of_a_turn_closes_it_before_it_writes_anything(store: Store, copy: bool) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        turn.user("q")
        with log.fork(copy=copy) as child:
            assert texts(child.resume_state()) == ["q"]
            end = child.end
            with pytest.raises(rollout.errors.Conflict):
                child.record("x", 1, expected_end=end - 1)
            child.record("x", 1, expected_end=end)
            assert texts(child.resume_state()) == ["q", ABORTED_TEXT]
            assert kinds(child.path)[-3:-1] == ["response_item", "turn_aborted"]
        with log.fork(copy=copy) as untouched:
            pass
        with store.open(untouched.id) as again:
            assert texts(again.resume_state()) == ["q", ABORTED_TEXT]
        turn.append(assistant_item("a"))
    assert texts(rollout.reconstruct(log.path)) == ["q", "a"]


def test_a_log_of_ordinals_is_forked_at_one_and_goes_on_counting(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(CASES / "p169_fork_of_fork", home)
    store = a_store(home)
    newest = json.loads((home / "expected.json").read_text())["rollout"]
    with store.open(home / newest, "read") as log:
        whole = log.resume_state()
        last = lines_of(log.path)[-1]["ordinal"]
        with log.fork(at=at_ordinal(last)) as child:
            assert list(child.resume_state().history) == list(whole.history)
            meta = lines_of(child.path)[0]
            assert meta["payload"]["history_base"]["end_ordinal_exclusive"] == last + 1 == meta["ordinal"]
            take_turn(child, "more")
            assert [line["ordinal"] for line in lines_of(child.path)] == list(range(last + 1, last + 9))
        with log.fork(at=at_ordinal(20)) as child:  # in the base of the base
            assert len(child.resume_state().history) < len(whole.history)
            assert lines_of(child.path)[0]["payload"]["history_base"]["end_ordinal_exclusive"] == 21
        with log.fork(copy=True) as child:
            assert list(child.resume_state().history) == list(whole.history)
            assert lines_of(child.path)[0]["payload"]["history_mode"] == "paginated"  # its lines are of that kind
        with pytest.raises(NotFound, match="no line has ordinal"):
            log.fork(at=at_ordinal(10_000))


def test_a_log_that_is_read_is_forked_as_far_as_a_reader_sees(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        with log.turn(context()) as turn:
            turn.append_all([user_item("one"), user_item("two")])
            data = log.path.read_bytes()
    for cut in (b"half a line", data.splitlines(keepends=True)[-3]):
        log.path.write_bytes(data[: data.rindex(b'{"timestamp"', 0, data.index(b'"one"'))] + cut)
        with store.open(log.path, "read") as reader:
            for copy in (False, True):
                with reader.fork(copy=copy) as child:
                    assert texts(child.resume_state())[:2] == ["q", "answer to q"]
                    assert child.resume_state().damage == ()
    log.path.write_bytes(data[:-1])
    with store.open(log.path, "read") as reader:
        with pytest.raises(UsageError, match="its last line has no end"):
            reader.fork()
        with reader.fork(copy=True) as child:
            assert texts(child.resume_state()) == ["q", "answer to q", "one", "two"]


def test_a_sealed_log_is_forked_by_reference_and_as_a_copy(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(CASES / "hp_zst", home)
    with a_store(home).open(next(home.rglob("*.zst")), "read") as log:
        for copy in (False, True):
            with log.fork(copy=copy) as child:
                assert list(child.resume_state().history) == list(log.resume_state().history)


def test_a_log_outside_of_any_home_is_forked_beside_itself_if_its_name_can_be_found(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-03-20T10-00-00-019d0000-0000-7000-8000-000000000001.jsonl"
    for place in (path, tmp_path / "any.jsonl"):
        shutil.copy(CASES / "o117_plain3" / "rollout.jsonl", place)
    with rollout.open_log(path) as log, log.fork() as child:
        assert child.path.parent == tmp_path
        assert list(child.resume_state().history) == list(log.resume_state().history)
    with rollout.open_log(tmp_path / "any.jsonl") as log:
        with pytest.raises(UsageError, match="does not tell a thread id; fork it with copy=True"):
            log.fork()
        with log.fork(copy=True) as child:
            assert child.path.parent == tmp_path


def test_a_fork_needs_its_source_on_the_disk_and_waits_for_no_more(store: Store) -> None:
    with a_log(store, Durability.NONE) as log:
        log.record("x", 1)
        assert log.durable_end == 0
        with log.fork() as child:
            assert log.durable_end == log.end
            assert child.durable_end == 0
            child.commit()
            assert child.durable_end == child.end


def test_a_fork_costs_the_same_whatever_the_size_of_its_source() -> None:
    costs = []
    for size in (1, 5_000_000):
        disk = SimulatedDisk({"/h": None})
        with a_log(a_store("/h", fs=disk)) as log:
            take_turn(log, "q")
            with log.turn(context()) as turn:
                turn.append({"type": "custom", "text": "x" * size})
            done, written = len(disk.attempts), len(disk.ops)
            with log.fork():
                asked = disk.attempts[done:]
                costs.append(asked)
                assert sum(len(op.data) for op in disk.ops[written:]) < 1000
    assert costs[0] == costs[1]
    assert (costs[0].count(OpKind.SYNC), costs[0].count(OpKind.SYNC_DIR)) == (1, 0)


def test_a_copy_whose_base_is_missing_is_refused(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        child = log.fork()
    log.path.unlink()
    with child, pytest.raises(NotFound, match="base that this file continues is missing"):
        child.fork(copy=True)
    assert len(list(store.home.rglob("*.jsonl"))) == 1
