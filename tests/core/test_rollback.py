"""S2: what a rollback takes back, one classic case a test.

Each log is told in single letters: questions `q1`, answers `a1`, of turns `t1`, `t2` and so on.
"""

from __future__ import annotations

import pytest

import rollout
from rollout import ContextCleared, ContextNeverSet
from tests import builders as b


def turn(number: int, *more: bytes, model: str | None = None) -> list[bytes]:
    """A regular turn, told from its start to its end; `more` comes behind its answer."""
    id = f"t{number}"
    front = [b.started(id), b.context(id, model or f"m{number}"), b.user(f"q{number}"), b.user_message(f"q{number}")]
    return [*front, b.assistant(f"a{number}"), *more, b.completed(id)]


def compaction(number: int) -> list[bytes]:
    """A turn of its own that leaves `s<number>` of the history."""
    return [b.started(f"c{number}"), b.compacted([b.user_item(f"s{number}")]), b.completed(f"c{number}")]


def read(*parts: bytes | list[bytes]) -> rollout.State:
    return rollout.reconstruct(
        b.log(*(line for part in parts for line in ([part] if isinstance(part, bytes) else part)))
    )


def texts(state: rollout.State) -> list[str]:
    return [" ".join(part["text"] for part in item["content"]) for item in state.history]


def ids(state: rollout.State) -> list[str]:
    return [turn.id for turn in state.turns]


def test_all_older_history_survives_when_a_compaction_lies_in_the_rolled_back_span() -> None:
    """Codex issue 32851: 0.117.0 lost everything older than the compaction."""
    state = read(b.session_meta(), turn(1), turn(2), turn(3, b.compacted([b.user_item("s")])), b.rolled_back(1))
    assert texts(state) == ["q1", "a1", "q2", "a2"]
    assert state.previous_model == "m2"
    assert state.reference_context == {"turn_id": "t2", "model": "m2"}


def test_a_compaction_in_a_turn_of_its_own_goes_with_the_turn_before_it() -> None:
    state = read(turn(1), turn(2), compaction(1), b.rolled_back(1))
    assert texts(state) == ["q1", "a1"]
    assert ids(state) == ["t1"]


def test_a_compaction_before_the_cut_stands() -> None:
    state = read(turn(1), compaction(1), turn(2), turn(3), b.rolled_back(2))
    assert texts(state) == ["s1"]
    assert state.previous_model == "m1"
    assert isinstance(state.reference, ContextCleared)


def test_a_rollback_over_a_compaction_that_stands_counts_the_boundaries_behind_and_before_it() -> None:
    assert texts(read(turn(1), turn(2), compaction(1), turn(3), b.rolled_back(2))) == ["q1", "a1"]


def test_two_compactions_in_the_rolled_back_span_are_both_undone() -> None:
    assert texts(read(turn(1), turn(2), compaction(1), turn(3), compaction(2), b.rolled_back(2))) == ["q1", "a1"]


def test_a_compaction_of_the_old_kind_is_undone_too() -> None:
    state = read(turn(1), turn(2), b.legacy_compacted("S"), b.rolled_back(1))
    assert texts(state) == ["q1", "a1"]
    assert state.reference_context == {"turn_id": "t1", "model": "m1"}


def test_a_compaction_ahead_of_the_message_of_a_rolled_back_turn_goes_with_it() -> None:
    late = [b.started("t2"), b.compacted([b.user_item("s")]), b.context("t2"), b.user("q2"), b.completed("t2")]
    assert texts(read(turn(1), late, b.rolled_back(1))) == ["q1", "a1"]


def test_where_only_a_second_message_is_taken_back_what_came_before_it_in_the_turn_stays() -> None:
    steered = turn(2, b.compacted([b.user_item("s")]), b.context("t2", "m9"), b.assistant("a2b"), b.user("again"))
    state = read(turn(1), steered, b.rolled_back(1))
    assert texts(state) == ["s", "a2b"]
    assert state.reference_context == {"turn_id": "t2", "model": "m9"}
    assert ids(state) == ["t1", "t2"]


def test_taking_back_both_messages_of_a_turn_takes_its_start_and_its_context() -> None:
    state = read(turn(1), turn(2, b.user("again"), b.assistant("a2b")), b.rolled_back(2))
    assert texts(state) == ["q1", "a1"]
    assert state.previous_model == "m1"
    assert ids(state) == ["t1"]


def test_a_compaction_between_two_messages_of_a_turn_is_undone_with_the_second() -> None:
    steered = turn(1, b.user("again"), b.compacted([b.user_item("s")]))
    assert texts(read(steered, b.rolled_back(1))) == ["q1", "a1"]


def test_a_rollback_of_none_does_nothing() -> None:
    assert texts(read(turn(1), b.rolled_back(0))) == ["q1", "a1"]


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", None])
def test_a_marker_without_an_unsigned_integer_has_no_effect(count: object) -> None:
    assert texts(read(turn(1), b.rolled_back(count))) == ["q1", "a1"]


@pytest.mark.parametrize("count", [3, 4, 2**32, 2**70])
def test_fewer_turns_than_the_count_are_all_undone_but_the_prefix(count: int) -> None:
    state = read(b.session_meta(), b.permissions(), b.assistant("hello"), turn(1), turn(2), b.rolled_back(count))
    assert texts(state) == ["<permissions instructions>p</permissions instructions>", "hello"]
    assert isinstance(state.reference, ContextNeverSet)
    assert state.previous_model is None
    assert state.session is not None


def test_the_prefix_is_what_stands_before_the_first_boundary_also_one_that_was_taken_back() -> None:
    state = read(b.assistant("prefix"), turn(1), b.rolled_back(1), b.assistant("later"), turn(2), b.rolled_back(5))
    assert texts(state) == ["prefix"]


def test_a_log_without_a_boundary_is_all_prefix() -> None:
    assert texts(read(b.contextual(), b.assistant("a"), b.rolled_back(3))) == [
        "<environment_context>x</environment_context>",
        "a",
    ]


def test_contextual_messages_right_above_the_cut_go_too() -> None:
    behind = [b.contextual(), b.permissions()]
    assert texts(read(turn(1), behind, turn(2), b.rolled_back(1))) == ["q1", "a1"]
    assert len(texts(read(turn(1), behind, b.assistant("between"), turn(2), b.rolled_back(1)))) == 5


def test_the_message_of_an_interrupted_turn_goes_with_the_turn_behind_it() -> None:
    interrupted = [b.started("t1"), b.user("q1"), b.contextual("turn_aborted"), b.aborted("t1")]
    assert texts(read(interrupted, turn(2), b.rolled_back(1))) == ["q1"]


def test_contextual_messages_above_a_message_that_steers_a_turn_go_with_it() -> None:
    assert texts(read(turn(1, b.contextual(), b.user("again")), b.rolled_back(1))) == ["q1", "a1"]


def test_rollbacks_stack_and_each_sees_what_stood_when_it_was_written() -> None:
    assert texts(read(turn(1), turn(2), turn(3), b.rolled_back(1), b.rolled_back(1))) == ["q1", "a1"]
    again = read(turn(1), turn(2), b.rolled_back(1), turn(3), b.rolled_back(2), turn(4))
    assert texts(again) == ["q4", "a4"]
    assert ids(again) == ["t4"]


def test_what_comes_behind_a_marker_is_untouched_by_it_even_in_the_turn_that_it_stands_in() -> None:
    spanning = [b.started("t2"), b.user("q2"), b.rolled_back(1), b.assistant("behind"), b.completed("t2")]
    state = read(turn(1), spanning)
    assert texts(state) == ["q1", "a1", "behind"]
    assert ids(state) == ["t1", "t2"]


def test_a_turn_that_is_only_announced_does_not_count() -> None:
    announced = [b.started("t2"), b.user_message("q2"), b.assistant("a2"), b.completed("t2")]
    assert texts(read(turn(1), announced, b.rolled_back(1))) == []
    assert texts(read(turn(1), turn(2), announced, b.rolled_back(1))) == ["q1", "a1"]


def test_a_turn_with_a_message_and_its_event_counts_once() -> None:
    assert texts(read(turn(1), turn(2), b.rolled_back(1))) == ["q1", "a1"]


def test_the_walk_over_contextual_messages_goes_on_over_a_turn_that_is_only_announced() -> None:
    announced = [b.started("t2"), b.contextual("skill"), b.user_message("q2")]
    state = read(turn(1), announced, b.started("t3"), b.contextual(), b.user("q3"), b.rolled_back(1))
    assert texts(state) == ["q1", "a1"]


@pytest.mark.parametrize("agent", [b.agent_message("do"), b.inter_agent("do")])
def test_an_instruction_from_another_agent_counts_as_a_user_message(agent: bytes) -> None:
    turn_of_agent = [b.started("t2"), agent, b.assistant("a2"), b.completed("t2")]
    assert texts(read(turn(1), turn_of_agent, b.rolled_back(1))) == ["q1", "a1"]


def test_without_lifecycle_events_every_user_message_is_a_turn() -> None:
    log = [b.user("q1"), b.assistant("a1"), b.context(None, "m2"), b.contextual(), b.user("q2"), b.assistant("a2")]
    state = read(log, b.rolled_back(1))
    assert texts(state) == ["q1", "a1"]
    assert state.previous_model is None


def test_settings_and_world_go_back_with_a_rollback_and_spent_tokens_do_not() -> None:
    first = turn(1, b.world_state({"a": 1}), b.token_count(10))
    state = read(first, turn(2, b.world_state({"a": 2}), b.token_count(20)), b.rolled_back(1))
    assert state.world_state == {"a": 1}
    assert state.previous_model == "m1"
    assert state.token_usage == {"total_tokens": 20}


def test_a_rollback_of_everything_behind_a_compaction_leaves_its_replacement() -> None:
    state = read(turn(1), compaction(1), turn(2), b.rolled_back(1), turn(3), b.rolled_back(1))
    assert texts(state) == ["s1"]


def test_items_removed_in_the_rolled_back_span_come_back() -> None:
    assert texts(read(turn(1), turn(2, b.items_removed(3)), b.rolled_back(1))) == ["q1", "a1"]
    assert texts(read(turn(1), b.items_removed(1), turn(2), b.rolled_back(1))) == ["q1"]


def test_a_turn_that_goes_on_behind_the_marker_with_an_event_alone_is_listed() -> None:
    state = read(turn(1), turn(2), b.rolled_back(1), b.token_count(5))
    assert texts(state) == ["q1", "a1"]
    assert ids(state) == ["t1", "t2"]


@pytest.mark.parametrize("mute", [b.session_meta(), b.line("turn_context", {}), b.rolled_back(-1)])
def test_a_turn_behind_whose_marker_stands_nothing_of_its_own_is_not_listed(mute: bytes) -> None:
    assert ids(read(turn(1), turn(2), b.rolled_back(1), mute)) == ["t1"]
    assert ids(read(turn(1), turn(2), b.rolled_back(1), mute, b.event("x"), mute)) == ["t1", "t2"]


def test_explain_names_the_marker_that_rolled_a_line_back() -> None:
    data = b.log(b.user("q1"), b.user("q2"), b.assistant("a2"), b.rolled_back(1), b.user("q3"))
    assert [(line.line, line.status, line.by) for line in rollout.explain(data)] == [
        (1, "visible", None),
        (2, "rolled_back", 4),
        (3, "rolled_back", 4),
        (4, "event", None),
        (5, "visible", None),
    ]


@pytest.mark.parametrize("first_chunk_bytes", [1, 100, 1000])
def test_a_rollback_reaches_over_any_number_of_chunks(first_chunk_bytes: int) -> None:
    lines = [line for number in range(1, 40) for line in turn(number)]
    data = b.log(*lines, *compaction(1), b.rolled_back(38))
    limits = rollout.Limits(first_chunk_bytes=first_chunk_bytes, chunk_bytes=100)
    assert texts(rollout.reconstruct(data, limits=limits)) == ["q1", "a1"]
