"""The engine against the slow reference, on random logs; and the random logs against what they are meant to reach."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.limits import Limits
from tests import builders as b
from tests import strategies as logs
from tests.answers import assert_same_answer
from tests.reference import Record, Reference, Turn, fold
from tests.strategy_items import INVISIBLE, ODD_ITEMS

chunks = st.builds(
    lambda first, later: Limits(first_chunk_bytes=first, chunk_bytes=later),
    st.one_of(st.integers(1, 40), st.integers(1, 3000)),
    st.one_of(st.integers(1, 40), st.integers(1, 3000)),
)
SEALED = b"\x28\xb5\x2f\xfd"  # how a Zstandard frame begins


def assert_same(data: bytes, limits: Limits) -> None:
    """The engine's whole answer is the reference's."""
    expected, state = fold(data), rollout.reconstruct(data, limits=limits)
    assert_same_answer(state, expected)
    assert state.base_instructions == expected.base_instructions
    assert [(None if turn.derived else turn.id, turn.status) for turn in state.turns] == [
        (turn.id, turn.status) for turn in expected.standing_turns
    ]
    assert state.records_decoded <= len(expected.records)


# The engine equals the reference


@settings(max_examples=150)
@given(logs.well_formed_logs(), chunks)
def test_a_session_in_any_chunk_size_is_read_as_the_rules_say(data: bytes, limits: Limits) -> None:
    assert_same(data, limits)


@settings(max_examples=150)
@given(logs.any_logs(), chunks)
def test_any_record_in_any_place_is_read_as_the_rules_say(data: bytes, limits: Limits) -> None:
    assert_same(data, limits)


@settings(max_examples=150)
@given(logs.damaged_logs(), chunks)
def test_a_damaged_log_is_read_as_the_rules_say(data: bytes, limits: Limits) -> None:
    assert_same(data, limits)


@settings(max_examples=100)
@given(st.one_of(logs.well_formed_logs(), logs.any_logs()), chunks)
def test_a_turn_lies_where_its_first_record_lies(data: bytes, limits: Limits) -> None:
    turns = fold(data).standing_turns
    assert [turn.offset for turn in rollout.reconstruct(data, limits=limits).turns] == [
        turn.place.offset for turn in turns
    ]


BEHIND = [
    [],
    [b.rolled_back(0)],
    [b.rolled_back(1)],
    [b.items_removed(1)],
    [b.legacy_compacted("S")],
    [b.aborted("t1")],
]


@pytest.mark.parametrize("item", [*ODD_ITEMS, *INVISIBLE], ids=b.dump)
def test_an_item_is_the_same_however_the_reading_comes_by_it(item: object) -> None:
    """In an envelope or bare, first in the log or behind others, with markers behind it that make it read on."""
    for line, ahead, behind in itertools.product(
        [b.line("response_item", item), b.bare_item(item)], [[], [b.user("q")], [b.started("t1"), b.user("q")]], BEHIND
    ):
        assert_same(b.log(*ahead, line, *behind), Limits())


@settings(max_examples=20)
@given(logs.long_logs())
def test_an_old_compaction_of_long_texts_keeps_what_its_budget_allows(data: bytes) -> None:
    assert_same(data, Limits())


@settings(max_examples=4)
@given(st.one_of(logs.any_logs(8), logs.well_formed_logs(2), logs.damaged_logs(6)), chunks)
def test_a_log_that_is_cut_at_any_byte_is_read_as_the_rules_say(data: bytes, limits: Limits) -> None:
    for end in range(len(data)):
        assert_same(data[:end], limits)


@settings(max_examples=120)
@given(logs.hostile_bytes, chunks)
def test_any_bytes_give_an_answer_or_an_error_of_our_own(data: bytes, limits: Limits) -> None:
    try:
        state = rollout.reconstruct(data, limits=limits)
        answer = [*state.history], state.turns, state.damage, state.for_prompt()
        entries = list(rollout.explain(data, limits=limits))
        report = rollout.verify(data, limits=limits)
    except rollout.RolloutError:
        return
    if data.startswith(SEALED):  # the reference reads plain files only
        return
    expected = fold(data)
    assert answer[0] == expected.history
    assert len(entries) == len(expected.parts)
    assert report.damaged_lines == expected.damaged_lines


# Damage


@settings(max_examples=120)
@given(logs.damaged_logs(), chunks)
def test_verify_counts_the_damaged_lines_that_the_reference_counts(data: bytes, limits: Limits) -> None:
    assert rollout.verify(data, limits=limits).damaged_lines == fold(data).damaged_lines


@settings(max_examples=120)
@given(logs.damaged_logs(), chunks)
def test_damage_that_is_met_on_the_way_is_damage_that_verify_lists(data: bytes, limits: Limits) -> None:
    listed = {found.offset for found in rollout.verify(data).damage}
    assert {found.offset for found in rollout.reconstruct(data, limits=limits).damage} <= listed


# Why


@settings(max_examples=150)
@given(st.one_of(logs.well_formed_logs(), logs.any_logs(), logs.damaged_logs()), chunks)
def test_every_part_of_a_line_is_explained_as_the_rules_say(data: bytes, limits: Limits) -> None:
    expected = [(line.offset, line.status, line.by and line.by.offset) for line in fold(data).parts]
    entries = rollout.explain(data, limits=limits)
    assert [(entry.offset, entry.status, entry.by_offset) for entry in entries] == expected


@settings(max_examples=120)
@given(st.one_of(logs.well_formed_logs(), logs.any_logs()), chunks)
def test_the_visible_lines_are_the_end_of_the_history(data: bytes, limits: Limits) -> None:
    """Only a replacement history can stand ahead of them, and it stands in a line of its own."""
    entries = [entry for entry in rollout.explain(data, limits=limits) if entry.status == "visible"]
    shown = [record.item for record in fold(data).records if record.place.offset in {entry.offset for entry in entries}]
    history = list(rollout.reconstruct(data, limits=limits).history)
    assert history[len(history) - len(shown) :] == shown


# The random logs reach what they are meant to reach


def ups(answer: Reference) -> list[Record]:
    return [record for record in answer.records if record.event == "thread_rolled_back"]


def undone(answer: Reference) -> list[Record]:
    return [record for record in answer.records if record.undone_by is not None]


def standing(answer: Reference) -> list[Record]:
    return [record for record in answer.records if record.undone_by is None]


def asked(marker: Record) -> int:
    count: int = marker.payload["num_turns"]
    return count


def spanned(answer: Reference) -> list[Turn]:
    """Turns of which something is undone and something that was said stands."""
    return [
        turn
        for turn in answer.turns
        if any(record.turn is turn for record in undone(answer))
        and any(record.turn is turn and record.boundary for record in standing(answer))
    ]


def prefix_above_a_cut(answer: Reference) -> bool:
    first = next((record for record in answer.records if record.boundary), None)
    if first is None or first.undone_by is None:
        return False
    return any(record.contextual and record.undone_by is None for record in answer.records[: first.index])


def run_above_a_cut(answer: Reference, event: str | None) -> bool:
    """A contextual message that went with the turn behind it; `event`: over the end of its own turn."""
    for record in undone(answer):
        if (
            record.contextual
            and record.turn
            and any(one.turn is record.turn and one.boundary for one in standing(answer))
        ):
            later = [one for one in undone(answer) if one.index > record.index and one.undone_by == record.undone_by]
            between = answer.records[record.index : later[0].index] if later else []
            if event is None or any(one.event == event for one in between):
                return True
    return False


def removal_in_a_base(answer: Reference) -> bool:
    since = None
    for record in standing(answer):
        if record.compacts and record.payload.get("replacement_history"):
            since = 0
        elif record.item is not None and since is not None:
            since += 1
        elif record.event == "items_removed" and since is not None and record.payload["num_items"] > since:
            return True
    return False


def announced_turn_undone(answer: Reference) -> bool:
    said = {record.turn for record in answer.records if record.boundary}
    return any(
        record.event == "user_message" and record.while_open and record.turn not in said for record in undone(answer)
    )


SITUATIONS: dict[str, Callable[[Reference], Any]] = {
    "rollback over a compaction": lambda a: any(r.compacts and not r.legacy for r in undone(a)),
    "rollback over a compaction of the old kind": lambda a: any(r.legacy for r in undone(a)),
    "rollback into a turn with steering": lambda a: any(t.explicit for t in spanned(a)),
    "rollback of more than stand": lambda a: any(asked(m) > sum(r.boundary for r in a.records) for m in ups(a)),
    "rollback that stops in a stack of rollbacks": lambda a: len({r.undone_by for r in undone(a)}) > 1,
    "rollback of a rollback's own line": lambda a: any(asked(m) for m in ups(a) if m.undone_by is not None),
    "rollback in a running turn": lambda a: any(m.while_open and asked(m) for m in ups(a)),
    "rollback of none": lambda a: any(asked(m) == 0 for m in ups(a)),
    "turn that spans a rollback of its start": lambda a: any(
        t.stands and t.explicit and a.records[t.first].undone_by is not None for t in a.turns
    ),
    "prefix with contextual messages above a cut": prefix_above_a_cut,
    "contextual messages of an older turn above a cut": lambda a: run_above_a_cut(a, None),
    "contextual messages above a cut, over the end of their turn": lambda a: run_above_a_cut(a, "turn_aborted"),
    "announced turn rolled back": announced_turn_undone,
    "removal that reaches into a replacement history": removal_in_a_base,
    "removal rolled back": lambda a: any(r.event == "items_removed" and r.payload["num_items"] for r in undone(a)),
    "item removed": lambda a: any(line.status == "removed" for line in a.lines),
    "item replaced": lambda a: any(line.status == "replaced" for line in a.lines),
    "implicit turn beside an explicit one": lambda a: len({t.explicit for t in a.standing_turns}) == 2,
    "implicit turn with a run above it": lambda a: any(
        not t.explicit and not a.records[t.first].boundary for t in a.turns
    ),
    "implicit turn interrupted": lambda a: any(not t.explicit and t.status == "interrupted" for t in a.turns),
    "one id for two turns": lambda a: len({t.id for t in a.turns if t.id}) < len([t for t in a.turns if t.id]),
    "context of another turn": lambda a: any(
        r.kind == "turn_context" and r.turn and r.turn.id and r.payload.get("turn_id") == "another" for r in a.records
    ),
    "reference never set": lambda a: a.reference_state == "never" and len(a.turns) > 1,
    "reference cleared": lambda a: a.reference_state == "cleared",
    "reference set in mid-turn after a compaction": lambda a: (
        a.reference_state == "set" and any(r.compacts and r.turn is a.standing_turns[-1] for r in standing(a))
    ),
    "previous model without a reference": lambda a: a.previous_model and a.reference_context is None,
    "previous model and reference of different models": lambda a: (
        a.reference_context and a.previous_model != a.reference_context["model"]
    ),
    "world state": lambda a: a.world_state is not None,
    "world state lost to a compaction": lambda a: (
        a.world_state is None and any(r.kind == "world_state" and r.payload["full"] for r in standing(a))
    ),
    "totals that are older than the base": lambda a: (
        a.token_usage is None and any(r.event == "token_count" and r.payload["info"] for r in a.records)
    ),
    "malformed item in a replacement history": lambda a: any(
        r.compacts and any(i in logs.NO_ITEMS for i in r.payload.get("replacement_history") or []) for r in standing(a)
    ),
    "items of the old compaction out of a replacement history": lambda a: (
        [r.legacy for r in standing(a) if r.compacts][-2:] == [False, True] and len(a.history) > 2
    ),
    "turn that only a line behind a rollback keeps": lambda a: any(
        t.stands and not any(r.turn is t and (r.item or r.event == "task_started") for r in standing(a))
        for t in a.turns
    ),
}


def test_the_random_sessions_reach_every_situation() -> None:
    missing = set(SITUATIONS)

    def is_the_last(data: bytes) -> bool:
        answer = fold(data)
        missing.difference_update([name for name in missing if SITUATIONS[name](answer)])
        return not missing

    with contextlib.suppress(hypothesis.errors.NoSuchExample):
        once = settings(max_examples=3000, phases=[hypothesis.Phase.generate], database=None)
        hypothesis.find(logs.well_formed_logs(), is_the_last, settings=once)
    assert not missing


@pytest.mark.parametrize("name", logs.DAMAGES)
def test_each_damage_breaks_or_leaves_a_log_that_still_has_an_answer(name: str) -> None:
    lines = [b.session_meta(), b.started("t1"), b.context("t1"), b.user("q1"), b.assistant("a1"), b.completed("t1")]
    for at in range(len(lines)):
        for n in range(0, 200, 7):
            assert_same(logs.damaged(lines, [(name, at, n)], "", 0), Limits(first_chunk_bytes=50, chunk_bytes=7))
