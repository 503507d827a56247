"""`explain` tells of each line, in the one pass over the log, what its record calls itself."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import Limits
from rollout.fold.collector import Names
from tests import builders as b
from tests import strategies as logs
from tests.test_cases import CASES, NAMES

chunks = st.sampled_from([1, 7, 300, 1 << 20]).map(lambda n: Limits(chunk_bytes=n, first_chunk_bytes=n))


def names(data: bytes) -> list[tuple[str | None, str | None]]:
    return [(line.type, line.kind) for line in rollout.explain(data)]


@settings(max_examples=60)
@given(st.one_of(logs.well_formed_logs(), logs.any_logs(), logs.damaged_logs(), logs.hostile_bytes), chunks)
def test_a_line_is_named_as_its_record_is(data: bytes, limits: Limits) -> None:
    try:
        records = {record.offset: record for record in rollout.records(data) if record.data}
        told = list(rollout.explain(data, limits=limits))
    except rollout.RolloutError:
        return
    named = {line.offset: (line.type, line.kind) for line in told if line.type is not None}
    assert named == {offset: (record.type, record.kind) for offset, record in records.items()}
    assert all(line.status in {"damaged", "blank"} and line.kind is None for line in told if line.type is None)


@pytest.mark.parametrize("name", [name for name in NAMES if (CASES / name / "sessions").is_dir()])
def test_the_lines_of_a_base_are_named_as_its_records_are(name: str) -> None:
    home = CASES / name
    path = home / json.loads((home / "expected.json").read_text())["rollout"]
    told = list(rollout.explain(path, home=home))
    for file in {line.path for line in told if line.path is not None}:
        own = [line for line in told if line.path == file and line.type is not None]
        records = {record.offset: record for record in rollout.records(file)}
        assert [(line.type, line.kind) for line in own] == [
            (records[line.offset].type, records[line.offset].kind) for line in own
        ]


def test_what_is_no_record_has_no_name_and_what_is_malformed_has_one() -> None:
    data = b.log(b.session_meta(), b"garbage", b"", b.rolled_back(-1), b.line("new", {"type": 1}), b.user("q"))
    assert names(data) == [
        ("session_meta", None),
        (None, None),
        (None, None),
        ("event_msg", "thread_rolled_back"),
        ("new", None),
        ("response_item", "message"),
    ]


def test_a_bare_item_is_a_response_item_and_what_nobody_knows_is_what_it_says() -> None:
    data = b.log(b.bare_meta(), b.bare_item(b.user_item("q")), b.bare_state(), b.line("new", {"type": "x" * 300}))
    assert names(data) == [
        ("session_meta", None),
        ("response_item", "message"),
        ("record_type", None),
        ("new", "x" * 200),
    ]


def test_of_long_names_no_more_is_held_than_is_told() -> None:
    found = Names()

    def note(long: str) -> None:
        found.note(long, long)
        found.note("event_msg", long)

    tracemalloc.start()
    for i in range(3):
        note(f"{i}" * 1_000_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
    assert found.named[-2:] == [("2" * 200, "2" * 200), ("event_msg", "2" * 200)]


@settings(max_examples=60)
@given(st.one_of(logs.well_formed_logs(), logs.any_logs(), logs.damaged_logs(), logs.hostile_bytes), chunks)
def test_the_turns_of_one_pass_are_those_that_are_read_alone_and_each_line_knows_its_own(
    data: bytes, limits: Limits
) -> None:
    try:
        turns = rollout.turns(data, limits=limits)
        explanation = rollout.explain(data, with_turns=True, limits=limits)
    except rollout.RolloutError:
        return
    assert explanation.turns == turns == rollout.explain(data, limits=limits).turns
    assert [turn.items for turn in explanation.turns] == [turn.items for turn in turns]
    numbers = [line.turn for line in explanation if line.turn is not None]
    assert numbers == sorted(numbers)
    for line in explanation:
        if line.turn_id is not None:
            assert line.turn is not None
            assert turns[line.turn].id == line.turn_id
    begins = {number: next(line for line in explanation if line.turn == number) for number in set(numbers)}
    assert {number: line.offset for number, line in begins.items()} == {i: turn.offset for i, turn in enumerate(turns)}


@pytest.mark.parametrize("odd", [b"  ", b"\0\0", b"\xef\xbb\xbf"])
def test_odd_bytes_around_lines_do_not_move_the_end_of_a_turn(odd: bytes) -> None:
    said, event = b.assistant("a"), b.line("event_msg", {"type": "new"})
    for lines in (
        [said, odd + event],
        [said + odd, event],
        [odd + said, odd + event],
        [said, event, said + odd, event],
    ):
        data = b.log(b.session_meta(), b.user("q"), *lines)
        assert rollout.explain(data, with_turns=True).turns == rollout.turns(data)
