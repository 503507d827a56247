"""Where the label of a record comes from, what lies in what, and what is refused."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

import rollout
from rollout import Label, Store, UsageError
from rollout.format.labels import UNLABELLED
from tests.builders import assistant_item, user_item
from tests.labelled import CALL, PLAN, fill, ids, in_a_task, make, tags
from tests.sessions import context, kinds, lines_of

# Where a label is set


def test_the_keys_stand_between_the_timestamp_and_the_type(store: Store) -> None:
    with make(store, session_id="s", tags={"b": "2", "a": "é\n"}) as log:
        assert [*lines_of(log.path)[0]] == ["timestamp", "session_id", "tags", "type", "payload"]
        assert (
            log.path.read_bytes()
            .partition(b',"type"')[0]
            .endswith(b'"session_id":"s","tags":{"a":"\xc3\xa9\\n","b":"2"}')
        )
        assert "session_id" not in lines_of(log.path)[0]["payload"]


def test_without_a_label_a_line_is_what_it_always_was(store: Store) -> None:
    with make(store) as log, log.turn(context()) as turn:
        turn.user("q")
        turn.append(assistant_item("a"))
    assert {*map(tuple, lines_of(log.path))} == {("timestamp", "type", "payload")}
    assert {*ids(log)} == {None}
    assert [record.tags for record in rollout.records(log.path)] == [{}] * len(lines_of(log.path))


def test_the_label_of_a_log_is_that_of_everything_in_it(store: Store) -> None:
    with make(store, session_id="s", tags={"a": "1"}) as log:
        fill(log)
        log.rollback(1)
        log.compact([user_item("c")])
        log.event("custom")
        log.record("unheard_of", 1)
    assert {*ids(log)} == {"s"}
    assert all(found == {"a": "1"} for found in tags(log))


def test_the_label_of_a_turn_is_that_of_everything_in_it(store: Store) -> None:
    with make(store) as log:
        fill(log, session_id="t")
        log.event("custom")
        assert {*kinds(log.path)} >= {"task_started", "turn_context", "item_completed", "task_complete", "turn_aborted"}
        assert ids(log) == [None, *["t"] * (len(ids(log)) - 2), None]


def test_what_a_turn_aborts_has_its_label_from_whatever_place(store: Store) -> None:
    log = make(store)
    with log.turn(session_id="t") as turn:
        thread = threading.Thread(target=turn.abort)
        thread.start()
        thread.join()
    again = log.turn(session_id="u")
    again.__enter__()
    contextvars.Context().run(log.close)
    assert ids(log) == [None, "t", "t", "t", "u", "u", "u"]


# What lies in what


def test_what_is_said_nearer_to_a_turn_counts(store: Store) -> None:
    with make(store, session_id="log", tags={"at": "log", "l": "1"}) as log:
        with rollout.label("out", tags={"at": "out", "o": "1"}):
            with rollout.label(session_id="in", tags={"at": "in"}) as found, log.turn(tags={"at": "turn", "t": "1"}):
                assert (found.session_id, found.tags) == ("in", {"at": "in", "o": "1"})
            log.event("x")
        log.event("x")
    assert ids(log, 1) == ["in", "in", "out", "log"]
    assert tags(log)[2] == {"at": "turn", "l": "1", "o": "1", "t": "1"}
    assert tags(log)[3] == {"at": "out", "l": "1", "o": "1"}
    assert tags(log)[-1] == {"at": "log", "l": "1"}


def test_a_turn_that_goes_on_keeps_its_label_whatever_a_block_says(store: Store) -> None:
    with make(store) as log:
        turn = log.turn(session_id="t")
        with rollout.label("a"):
            turn.__enter__()
        with rollout.label("b", {"b": "1"}):
            turn.append(assistant_item(PLAN))
            turn.append_all([CALL])
            turn.event("x", session_id="of the payload")
            log.event("x")
            turn.__exit__(None, None, None)
        assert {*ids(log, 1)} == {"t"}
        assert not any(tags(log, 1))
        assert lines_of(log.path)[5]["payload"] == {"type": "x", "session_id": "of the payload"}


def test_what_stands_in_a_turn_has_its_label_whoever_writes_it(store: Store) -> None:
    with make(store) as log, make(store) as other:
        with log.turn(session_id="t"):
            log.event("x")
            other.event("x")
            contextvars.Context().run(log.event, "apart")
            asyncio.run(in_a_task(log))
            fork = log.fork()
        log.event("x")
        fork.close()
        assert ids(log, 1) == ["t", "t", "t", "t", "t", None]
        assert ids(other, 1) == [None]
        assert ids(fork)[0] is None


def test_an_aborted_turn_labels_nothing_more(store: Store) -> None:
    with make(store) as log, log.turn(session_id="t") as turn:
        turn.abort()
        log.event("x")
        assert ids(log)[-1] is None


def test_a_rollback_and_a_compaction_by_hand_have_the_label_in_force(store: Store) -> None:
    with make(store) as log, rollout.label("x"):
        log.compact([user_item("c")])
        log.rollback(1)
    assert ids(log) == [None, *["x"] * 5]


def test_a_log_that_is_made_in_a_block_has_the_label_of_it_for_good(store: Store) -> None:
    with rollout.label("x", {"a": "1"}):
        log = make(store, tags={"b": "2"})
    log.event("x")
    log.close()
    assert ids(log) == ["x", "x"]
    assert tags(log)[1] == {"a": "1", "b": "2"}


def test_turns_of_two_logs_in_one_block_do_not_mix(store: Store) -> None:
    with make(store) as one, make(store) as two:
        with one.turn(session_id="a") as first, two.turn(session_id="b") as second:
            for turn, log in ((first, one), (second, two), (first, one)):
                turn.append(CALL)
                log.event("x")
        assert {*ids(one, 1)} == {"a"}
        assert {*ids(two, 1)} == {"b"}


def test_turns_that_overlap_each_keep_their_label_and_leave_none_behind(store: Store) -> None:
    with make(store) as one, make(store) as two:
        first, second = one.turn(session_id="a"), two.turn(session_id="b")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.append(CALL)
        two.event("x")
        one.event("x")
        second.__exit__(None, None, None)
        one.event("x")
        assert ids(one, 1) == ["a", "a", None, None]
        assert {*ids(two, 1)} == {"b"}
        with rollout.label(tags={"a": "1"}) as found:
            assert found == Label(None, {"a": "1"})


def test_a_label_block_that_is_left_late_takes_what_lies_in_it_along() -> None:
    outer, inner = rollout.label("a"), rollout.label("b")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    with rollout.label() as found:
        assert found == UNLABELLED


# What is refused


@pytest.mark.parametrize(
    "say",
    [
        lambda log, **label: rollout.label(**label),
        lambda log, **label: log.turn(**label),
        lambda log, **label: log.fork(**label),
        lambda log, **label: log.fork(copy=True, **label),
        lambda log, **label: rollout.open_log(log.path, "read", **label),
        lambda log, **label: make(Store(log.path.parents[4]), **label),
    ],
)
@pytest.mark.parametrize(
    "label",
    [{"session_id": "a\n"}, {"session_id": ""}, {"tags": {"a": 1}}, {"session_id": "a", "tags": {"session_id": "b"}}],
)
def test_what_is_no_label_is_refused_everywhere_and_nothing_is_written(
    store: Store, say: Callable[..., object], label: dict[str, Any]
) -> None:
    with make(store) as log:
        with pytest.raises(UsageError):
            say(log, **label)
        assert kinds(log.path) == ["session_meta"]
        assert [*log.path.parent.glob("rollout-*")] == [log.path]


def test_a_tag_that_disagrees_with_the_session_id_in_force_is_refused_before_anything_is_written(store: Store) -> None:
    with make(store, session_id="s") as log:
        before = log.end
        with rollout.label(tags={"session_id": "b"}):
            for write in (lambda: log.event("x"), lambda: log.compact([]), log.turn().begin, log.fork):
                with pytest.raises(UsageError, match="the tag session_id is b, but the session_id here is s"):
                    write()
        assert log.end == before
        with rollout.label(tags={"session_id": "s"}):
            log.event("x")


def test_a_turn_whose_label_disagrees_does_not_begin(store: Store) -> None:
    with make(store, session_id="s") as log:
        with pytest.raises(UsageError), log.turn(tags={"session_id": "t"}):
            pass
        assert kinds(log.path) == ["session_meta"]
        with rollout.label("x"), pytest.raises(UsageError), rollout.label(tags={"session_id": "y"}):
            pass
        with log.turn():
            pass
        assert {*ids(log)} == {"s"}
