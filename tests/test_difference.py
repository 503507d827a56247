"""Differences of states: moments of one session, forks and what they come from, sessions that share nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rollout
from rollout import Diff, Item, State, Store, ValueChange, at_line
from rollout.limits import Limits
from tests import builders as b
from tests import strategies as logs
from tests.sessions import a_log, context, take_turn
from tests.test_moments import SESSION, line_ends, turn

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


def at(data: bytes, moment: str | int | None = None) -> State:
    return rollout.reconstruct(data, at=moment)


def said(items: rollout.History) -> list[str]:
    return [part["text"] for item in items for part in item["content"]]


def between(one: str | int | None, other: str | int | None) -> Diff:
    return rollout.diff(at(SESSION, one), at(SESSION, other))


def test_a_later_turn_adds_its_items_and_tells_its_model() -> None:
    data = b.log(*turn("t1", b.user("q1"), b.token_count(5)), *turn("t2", b.user("q2"), b.token_count(12)))
    found = rollout.diff(at(data, "t1"), at(data))
    assert (said(found.added), said(found.gone), found.kept_count) == (["q2"], [], 1)
    assert found.settings == (ValueChange("model", "model of t1", "model of t2"),)
    assert found.context == (ValueChange("turn_id", "t1", "t2"), ValueChange("model", "model of t1", "model of t2"))
    assert found.tokens == (ValueChange("total_tokens", 5, 12),)
    assert found.relation == "later"
    assert found.shared is not None
    assert (found.shared.line, found.shared.end) == (5, at(data, "t1").end)


def test_a_rollback_gives_back_what_a_compaction_took() -> None:
    assert said(between("first-1", "second-2").gone) == ["q1", "a1"]
    assert said(between("first-1", "second-2").added) == ["summary", "a2"]
    back = between("second-2", at_line(13))
    assert (said(back.gone), said(back.added)) == (["summary", "a2"], [])
    assert ValueChange("reference", "cleared", "never") in back.settings


def test_the_same_moment_differs_in_nothing() -> None:
    for moment in ("first-1", "second-2", at_line(3), None):
        found = between(moment, moment)
        assert found.is_empty
        assert found.relation == "same"
        assert found.kept_count == len(found.before.history)


def test_what_only_programs_read_of_an_item_is_no_difference() -> None:
    item = {**b.user_item("q"), "id": "msg_1", "status": "completed", "metadata": {"turn": 1}, "phase": None}
    data = b.log(b.line("response_item", item), b.assistant("a"), b.compacted([b.user_item("q"), b.user_item("sum")]))
    found = rollout.diff(at(data, at_line(2)), at(data))
    assert (said(found.gone), said(found.added), found.kept_count) == (["a"], ["sum"], 1)


def test_the_world_and_the_instructions_are_compared_key_by_key() -> None:
    old = b.log(b.session_meta(base_instructions={"text": "one"}), b.world_state({"a": 1, "b": 2}))
    new = b.log(b.session_meta(base_instructions={"text": "two"}), b.world_state({"b": 3, "c": None}))
    found = rollout.diff(at(old), at(new))
    assert found.world == (ValueChange("a", 1, None), ValueChange("b", 2, 3))
    assert found.settings == (ValueChange("base_instructions", "one", "two"),)
    assert not found.is_empty


def seen_of(item: Item) -> dict[str, Any]:
    """What a model sees of an item: not what only the program writes there, nor what is empty."""
    hidden = {"metadata", "internal_chat_message_metadata_passthrough", "id", "status", "phase"}
    return {key: value for key, value in item.items() if key not in hidden and value not in (None, [])}


@settings(max_examples=40)
@given(logs.well_formed_logs(4), st.data())
def test_what_is_kept_and_what_came_are_the_new_history_and_the_other_way_round(
    data: bytes, drawn: st.DataObject
) -> None:
    ends = line_ends(data)
    assume(ends)
    one, other = (at(data, drawn.draw(st.sampled_from(ends))) for _ in range(2))
    there, back = rollout.diff(one, other), rollout.diff(other, one)
    assert len(there.added) + there.kept_count == len(other.history)
    assert len(there.gone) + there.kept_count == len(one.history)
    rebuilt = []
    for run in there.runs:
        source, first = (other, run.after) if run.change == "added" else (one, run.before)
        rebuilt += [] if run.change == "gone" else list(source.history[first : first + run.count])
    assert [*map(seen_of, rebuilt)] == [*map(seen_of, other.history)]
    words = {"same": "same", "later": "earlier", "earlier": "later"}
    assert back.relation == words[there.relation]
    assert there.relation == ("same" if one.end == other.end else "later" if one.end < other.end else "earlier")
    assert there.shared is not None
    assert there.shared.end == min(one.end, other.end)


def test_what_went_tells_the_line_that_took_it_away() -> None:
    replaced = between(at_line(9), "second-2")
    assert said(replaced.gone) == ["q1", "a1", "q2"]
    assert [(fate.status, fate.by) for fate in replaced.fates() if fate] == [("replaced", 10)] * 3
    taken_back = between("second-2", None)
    assert [fate and (fate.status, fate.by) for fate in taken_back.fates()] == [None, ("rolled_back", 13)]
    other = rollout.diff(at(SESSION), at(b.log(b.user("x"))))
    assert other.fates() == (None, None)


@settings(max_examples=30)
@given(logs.well_formed_logs(4), st.data())
def test_an_item_that_went_in_the_course_of_a_log_is_explained_as_no_longer_visible(
    data: bytes, drawn: st.DataObject
) -> None:
    ends = line_ends(data)
    assume(ends)
    found = rollout.diff(at(data, drawn.draw(st.sampled_from(ends))), at(data))
    fates = found.fates()
    assert len(fates) == len(found.gone)
    whole = {(line.offset, line.status) for line in rollout.explain(data)}
    assert all((fate.offset, fate.status) in whole for fate in fates if fate is not None)


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_and_its_source_part_where_it_was_taken(store: Store, copy: bool) -> None:
    with a_log(store) as log:
        first = take_turn(log, "q1")
        log.compact([b.user_item("summary")], "summary")
        end = log.end
        take_turn(log, "only there")
        with log.fork(at=end, copy=copy) as child:
            assert rollout.diff(rollout.reconstruct(log), rollout.reconstruct(child)).relation == "earlier"
            take_turn(child, "only here", context("m2"))
            found = rollout.diff(rollout.reconstruct(log), rollout.reconstruct(child))
            assert (said(found.gone), said(found.added), found.kept_count) == (
                ["only there", "answer to only there"],
                ["only here", "answer to only here"],
                1,
            )
            assert found.relation == "parted"
            assert found.shared is not None
            assert (found.shared.thread_id, found.shared.path, found.shared.end) == (log.id, str(log.path), end)
            assert found.shared.line == log.path.read_bytes()[:end].count(b"\n")
            assert rollout.diff(rollout.reconstruct(log, at=first), rollout.reconstruct(child)).relation == "later"
            with child.fork(copy=copy) as grandchild:
                take_turn(grandchild, "q3")
                again = rollout.diff(rollout.reconstruct(log), rollout.reconstruct(grandchild))
                assert (again.relation, again.shared) == ("parted", found.shared)


def test_two_forks_of_one_session_share_what_both_took_of_it(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q1")
        early, end = log.fork(), log.end
        take_turn(log, "q2")
        with early, log.fork() as late:
            take_turn(early, "e")
            found = rollout.diff(rollout.reconstruct(early), rollout.reconstruct(late))
            assert found.shared is not None
            assert (found.relation, found.shared.path, found.shared.end) == ("parted", str(log.path), end)


def test_a_sealed_copy_of_a_log_shares_all_of_its_lines(store: Store, tmp_path: Path) -> None:
    with a_log(store) as log:
        take_turn(log, "q1")
    plain = shutil.copy(log.path, tmp_path / "plain.jsonl")
    found = rollout.diff(rollout.reconstruct(plain), rollout.reconstruct(store.seal(log.id).path))
    assert (found.relation, found.is_empty) == ("same", True)


def test_sessions_that_share_no_line_are_unrelated() -> None:
    other = b.log(b.session_meta("019d0000-0000-7000-8000-000000000002"), *turn("first-1", b.user("q1")))
    found = rollout.diff(at(SESSION), at(other))
    assert (found.relation, found.shared) == ("unrelated", None)
    assert (said(found.gone), said(found.added)) == (["q3", "a3"], ["q1"])


def test_a_fork_that_a_real_program_copied_parts_behind_the_lines_that_it_copied() -> None:
    state = rollout.reconstruct(CASES / "o117_fork_of_fork" / "rollout.jsonl")
    data = (CASES / "o117_fork_of_fork" / "rollout.jsonl").read_bytes()
    metas = [line for line in data.splitlines(keepends=True) if b'"type":"session_meta"' in line]
    assert len(metas) > 1
    own = metas[0]
    source = data[len(own) :]
    found = rollout.diff(rollout.reconstruct(source[: line_ends(source)[20]]), state)
    assert found.relation == "later"


def test_a_bounded_reader_sees_the_same_difference() -> None:
    small = Limits(first_chunk_bytes=7, chunk_bytes=5)
    states = [rollout.reconstruct(SESSION, at=moment, limits=small) for moment in ("first-1", "third-3")]
    assert rollout.diff(*states).runs == between("first-1", "third-3").runs
