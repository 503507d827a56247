"""What expires loses its words and nothing else: the structure of a log outlives them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import Cipher, Limits
from rollout.files.disk import REAL
from rollout.files.encrypted.keyed_disk import with_keys
from rollout.files.encrypted.lines import encrypt_line
from rollout.files.source import Origin
from rollout.fold.expiry import left_of
from rollout.fold.newest_items import recent_entries
from rollout.limits import DEFAULT
from tests import builders as b
from tests import strategies
from tests.enciphering import a_cipher, enciphered
from tests.reference import fold
from tests.sessions import START

TTL_S = 1000.0
NEVER = 10_000_000
CUT = (b.started("t2"), b.user("q2"), b.assistant("a2"), b.completed("t2"))

limits = st.builds(Limits, first_chunk_bytes=st.integers(1, 700), chunk_bytes=st.integers(1, 700))
logs = st.one_of(strategies.well_formed_lines(5), strategies.any_lines(14)).map(
    lambda lines: [b.session_meta(), *(line for line in lines if b'"payload"' in line)]
)


def lasting(lines: list[bytes], expire_at: list[int]) -> bytes:
    """An encrypted log; each line but the first expires so many seconds after START."""
    made = [enciphered(lines[:1])]
    for i, line in enumerate(lines[1:], 1):
        at = expire_at[i % len(expire_at)]
        cipher = a_cipher(ttl_s=TTL_S) if at < NEVER else a_cipher()
        made.append(encrypt_line(line + b"\n", cipher, b.THREAD, ordinal=i, now=START + at - TTL_S))
    return b"".join(made)


def at(seconds: float) -> Cipher:
    return a_cipher(clock=lambda: START + seconds)


def texts_at(seconds: float, data: bytes) -> list[str]:
    history = rollout.reconstruct(data, cipher=at(seconds)).history
    return [item["content"][0]["text"] for item in history]


def check(lines: list[bytes], expire_at: list[int], now: int, small: Limits) -> None:
    """The history is that of the log without times to live, without what has expired; the same turns stand."""
    gone = {i for i in range(1, len(lines)) if expire_at[i % len(expire_at)] <= now}
    whole = fold(b.log(*lines))
    data = lasting(lines, expire_at)
    state = rollout.reconstruct(data, limits=small, cipher=at(now))
    assert list(state.history) == [
        item for item, of in zip(whole.history, whole.origins, strict=True) if of not in gone
    ]
    standing = [(turn.id, turn.status) for turn in whole.standing_turns]
    assert [(None if turn.derived else turn.id, turn.status) for turn in state.turns] == standing
    opened = b"".join(record.raw for record in rollout.records(data, cipher=at(now)))
    rules = fold(opened)
    assert (state.previous_model, state.reference_context) == (rules.previous_model, rules.reference_context)
    assert (state.world_state, state.token_usage) == (rules.world_state, rules.token_usage)
    assert [(line.offset, line.status) for line in rollout.explain(data, limits=small, cipher=at(now))] == [
        (line.offset, line.status) for line in rules.parts
    ]
    assert rollout.verify(data, cipher=at(now)).damaged_lines == 0


@settings(max_examples=60)
@given(logs, st.integers(0, 30), limits)
def test_at_any_time_the_history_is_that_of_the_whole_log_without_what_has_expired(
    lines: list[bytes], now: int, small: Limits
) -> None:
    check(lines, list(range(max(len(lines), 1))), now, small)


@settings(max_examples=60)
@given(logs, st.lists(st.sampled_from([0, 1, NEVER]), min_size=1, max_size=9), limits)
def test_so_it_is_where_newer_lines_expire_before_older_ones(
    lines: list[bytes], expire_at: list[int], small: Limits
) -> None:
    check(lines, expire_at, 0, small)


@given(logs)
def test_what_is_left_of_what_is_left_is_the_same_and_little_longer(lines: list[bytes]) -> None:
    for record in rollout.records(b.log(*lines[1:])):
        type, payload = b.dump(record.type), b.dump(record.payload)
        left = left_of(type, payload)
        assert left_of(*left) == left
        assert len(left[1]) <= len(payload) + 48


@pytest.mark.parametrize("then", [b.rolled_back(1), b.rolled_back(2)])
def test_a_rollback_that_outlives_the_message_it_took_back_takes_back_no_other_turn(then: bytes) -> None:
    lines = [b.session_meta(), b.user("q1"), b.assistant("a1"), *CUT, then, b.user("q3")]
    data = lasting(lines, [0, 90, 90, 90, 10, 90, 90, 90, 90])
    assert texts_at(20, data) == texts_at(0, data)
    assert ("q1" in texts_at(20, data)) is (then == b.rolled_back(1))


def test_an_expired_compaction_does_not_bring_back_what_it_replaced() -> None:
    lines = [b.session_meta(), b.user("q1"), b.compacted([b.user_item("short")]), b.user("q2")]
    data = lasting(lines, [0, NEVER, 10, NEVER])
    assert (texts_at(0, data), texts_at(20, data)) == (["short", "q2"], ["q2"])


def test_an_expired_summary_of_the_old_kind_is_not_shown_and_no_other_stands_for_it() -> None:
    lines = [b.session_meta(), b.user("q1"), b.assistant("a1"), b.legacy_compacted("S")]
    assert texts_at(20, lasting(lines, [0, NEVER, NEVER, 10])) == ["q1"]
    assert texts_at(20, lasting([*lines, b.items_removed(1)], [0, NEVER, NEVER, 10, NEVER])) == ["q1"]


@pytest.mark.parametrize(("said", "left"), [(b.user("q2"), ["q1"]), (b.inter_agent("do"), [])])
def test_of_what_an_old_compaction_keeps_an_expired_user_message_counts_and_nothing_else(
    said: bytes, left: list[str]
) -> None:
    lines = [b.session_meta(), b.user("q1"), said, b.legacy_compacted("S"), b.items_removed(2)]
    assert texts_at(0, lasting(lines, [NEVER])) == left
    assert texts_at(20, lasting(lines, [0, NEVER, 10, NEVER, NEVER])) == left


def test_an_expired_item_is_one_of_those_that_items_removed_takes() -> None:
    lines = [b.session_meta(), b.user("q1"), b.assistant("a1"), b.assistant("a2"), b.items_removed(1)]
    for count, left in enumerate([["q1", "a1"], ["q1"], []], 1):
        data = lasting([*lines[:-1], b.items_removed(count)], [0, NEVER, NEVER, 10, NEVER])
        assert texts_at(20, data) == left


def test_an_expired_contextual_message_goes_with_the_cut_below_it_and_opens_no_turn() -> None:
    context = b.user("<environment_context>e</environment_context>")
    lines = [b.session_meta(), b.user("q1"), context, b.user("q2"), b.rolled_back(1)]
    data = lasting(lines, [0, NEVER, 10, NEVER, NEVER])
    assert len(rollout.reconstruct(data, cipher=at(20)).turns) == 1
    statuses = [line.status for line in rollout.explain(data, cipher=at(20))]
    assert statuses == ["metadata", "visible", "rolled_back", "rolled_back", "event"]


def test_expired_settings_make_the_next_turn_give_the_whole_context_and_older_ones_do_not_count_instead() -> None:
    lines = [b.session_meta()]
    for turn in ("t1", "t2"):
        lines += [b.started(turn), b.context(turn, turn), b.user("q"), b.completed(turn)]
    state = rollout.reconstruct(lasting(lines, [*[NEVER] * 6, 10, NEVER, NEVER]), cipher=at(20))
    assert (state.previous_model, state.reference) == (None, rollout.ContextCleared())
    assert [turn.model for turn in state.turns] == ["t1", None]


def test_the_newest_items_are_told_without_the_expired_ones(tmp_path: Path) -> None:
    lines = [b.session_meta(), *(b.assistant(f"a{i}") for i in range(6)), b.items_removed(2)]
    data = lasting(lines, [0, *[NEVER] * 4, 10, NEVER, NEVER])
    path = tmp_path / f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
    path.write_bytes(data)
    for count in itertools.chain(range(7), [None]):
        with Origin(None, path, tmp_path, fs=with_keys(REAL, at(20))).opened() as lineage:
            found = recent_entries(lineage, count, DEFAULT)
        assert found is not None
        expected = texts_at(20, data)
        assert len(found) == (len(expected) if count is None else min(count, len(expected)))
