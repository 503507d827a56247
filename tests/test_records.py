"""All records of a file, forward: nothing is lost, whatever the bytes are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import Limits
from rollout.files.recovery import mark_batch
from tests import builders as b
from tests import strategies as logs
from tests.reference import decode_line, fold, split_lines

limits = st.builds(
    lambda chunk, line: Limits(chunk_bytes=chunk, first_chunk_bytes=chunk, line_bytes=line),
    st.integers(1, 400),
    st.one_of(st.integers(0, 200), st.just(1 << 20)),
)
any_log = st.one_of(logs.hostile_bytes, logs.damaged_logs(8), logs.any_logs(8)).filter(
    lambda data: not data.startswith(b"\x28\xb5\x2f\xfd")
)


def kinds(data: bytes) -> list[tuple[int, str, str | None]]:
    return [(record.line, record.type, record.kind) for record in rollout.records(data)]


# Lossless


@settings(max_examples=150)
@given(any_log, limits)
def test_copying_all_records_gives_back_the_bytes_whatever_they_are(data: bytes, limits: Limits) -> None:
    assert b"".join(record.raw for record in rollout.records(data, limits=limits)) == data


@settings(max_examples=200)
@given(any_log, st.integers(1, 400))
def test_the_records_of_any_bytes_are_those_that_the_rules_find(data: bytes, chunk_bytes: int) -> None:
    expected = [
        (number, offset + at, value is None)
        for number, (offset, line) in enumerate(split_lines(data), 1)
        for at, value in decode_line(line)
    ]
    found = [r for r in rollout.records(data, limits=Limits(chunk_bytes=chunk_bytes)) if r.type != "blank"]
    assert [(record.line, record.offset, record.is_damaged) for record in found] == expected
    assert all((record.reason is not None) == record.is_damaged for record in found)


@settings(max_examples=150)
@given(any_log, limits)
def test_an_explanation_gives_each_line_its_own_record_and_passes_over_those_not_wanted(
    data: bytes, limits: Limits
) -> None:
    explanation = rollout.explain(data, limits=limits)
    own = {record.offset: record for record in rollout.records(data, limits=limits) if record.data}
    expected = [(line, own[line.offset] if line.type is not None else None) for line in explanation]
    assert [*explanation.records()] == expected
    some = [(line, record if line.line % 3 == 0 else None) for line, record in expected]
    assert [*explanation.records(lambda line: line.line % 3 == 0)] == some


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 12)), min_size=1, max_size=3),
    st.integers(-5, 45),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
)
def test_nul_bytes_beside_a_line_near_the_limit_are_no_part_of_its_length_wherever_the_chunks_begin(
    parts: list[tuple[int, int, int]], spare: int, chunks: tuple[int, int]
) -> None:
    data = b"".join(bytes(ahead) + b.user("x" * text) + bytes(behind) + b"\n" for ahead, text, behind in parts)
    most = len(b.user("")) + spare
    limits = Limits(chunk_bytes=chunks[0], first_chunk_bytes=chunks[1], line_bytes=most)
    forward = [len(record.data) for record in rollout.records(data, limits=limits) if record.data]
    assert forward == [len(b.user("x" * text)) for _, text, _ in parts if len(b.user("x" * text)) <= most]
    assert len([line for line in rollout.explain(data, limits=limits) if line.type is not None]) == len(forward)


@given(logs.damaged_logs(8))
def test_a_copy_of_the_good_records_means_what_the_file_means(data: bytes) -> None:
    good = [record.data for record in rollout.records(data) if record.data]
    assert fold(b.log(*good)).history == fold(data).history


def test_unknown_kinds_and_keys_survive_with_their_order_and_their_numbers() -> None:
    lines = [
        b'{"z":1.0e2,"timestamp":"t","type":"not_known_yet","payload":[1,{"b":null,"a":12345678901234567890123}],"a":0}',
        b'{ "type" : "event_msg" , "payload" : { "type" : "not_known_yet" , "x" : "\\u00e9" } , "extra" : { } }',
        b'{"type":"not_known_yet_either","payload":null}',
    ]
    first, second, third = rollout.records(b.log(*lines))
    assert [first.data, second.data, third.data] == lines
    assert (first.type, first.kind) == ("not_known_yet", None)
    assert first.payload == [1, {"b": None, "a": 12345678901234567890123}]
    assert list(first.value) == ["z", "timestamp", "type", "payload", "a"]
    assert (second.type, second.kind, second.payload["x"]) == ("event_msg", "not_known_yet", "é")
    assert (third.type, third.payload) == ("not_known_yet_either", None)


def test_a_record_says_what_it_is_and_where_it_lies() -> None:
    lines = [b.session_meta(), b.user("q"), b.bare_item(b.user_item("q")), b.bare_state(), b.bare_meta(), b"", b"%%"]
    assert kinds(b.log(*lines)) == [
        (1, "session_meta", None),
        (2, "response_item", "message"),
        (3, "response_item", "message"),
        (4, "record_type", None),
        (5, "session_meta", None),
        (6, "blank", None),
        (7, "damaged", "json"),
    ]
    offsets = [record.offset for record in rollout.records(b.log(*lines))]
    assert offsets == [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]


@pytest.mark.parametrize("kind", ["", "damaged", "blank", "record_type"])
def test_a_record_whose_own_type_is_a_word_of_ours_is_still_a_record(kind: str) -> None:
    (record,) = rollout.records(b.log(b.line(kind, {"a": 1})))
    assert (record.type, record.is_damaged, record.payload) == (kind, False, {"a": 1})
    assert rollout.verify(b.log(b.line(kind, {"a": 1}))).records == 1
    assert rollout.verify(b.log(b.line(kind, {"a": 1}))).ok


def test_what_a_record_says_is_told_in_no_agents_words() -> None:
    kept = b.user_item("kept")
    lines = [
        b.started("t"),
        b.user("q"),
        b.aborted(reason="enough"),
        b.rolled_back(2),
        b.compacted([kept]),
        b.event("x"),
    ]
    told = [rollout.tell(record.type, record.kind, record.payload) for record in rollout.records(b.log(*lines))]
    assert [each.kind for each in told] == ["start", "item", "abort", "rollback", "compaction", "other"]
    assert [told[0].text, told[2].text, told[3].text, told[4].items] == ["t", "enough", "2", [kept]]
    assert rollout.tell("event_msg", "error", ["no object"]) == rollout.Told("error")


def test_several_records_in_one_line_share_its_number_and_part_its_bytes() -> None:
    torn, whole = b.user("lost")[:-5], b.user("q")
    first, second, third = rollout.records(torn + whole + b"\0\r\n" + whole)
    assert (first.is_damaged, first.raw) == (True, torn)
    assert (second.data, second.raw) == (whole, whole + b"\0\r\n")
    assert [record.line for record in (first, second, third)] == [1, 1, 2]
    assert (third.raw, third.is_damaged) == (whole, False)


def test_a_line_beyond_the_limit_comes_in_chunks_of_damage() -> None:
    long = b.user("x" * 1000)
    found = list(rollout.records(b.log(long, b.user("q")), limits=Limits(line_bytes=500, chunk_bytes=300)))
    assert [record.is_damaged for record in found] == [True] * 4 + [False]
    assert [record.line for record in found] == [1] * 4 + [2]
    assert max(len(record.raw) for record in found) <= 300
    assert {record.reason for record in found[:4]} == {"longer than the limit of 500 bytes"}


def test_records_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(b.log(b.user("q")) * 10_000)
    records = rollout.records(path)
    assert next(records).line == 1
    assert sum(1 for _ in records) == 9_999


def test_the_bases_of_a_file_are_not_among_its_records(tmp_path: Path) -> None:
    name = f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
    source = b.log(b.session_meta(), b.user("q1"))
    (tmp_path / name).write_bytes(source)
    base = {"thread_id": b.THREAD, "end_byte_offset": len(source)}
    child = tmp_path / "child.jsonl"
    child.write_bytes(b.log(b.session_meta("child", history_base=base), b.user("q2")))
    assert [record.line for record in rollout.records(child)] == [1, 2]
    assert len(rollout.reconstruct(child).history) == 2


# Where a line beyond the limit lies


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 16])
def test_the_lines_behind_one_that_is_too_long_have_their_numbers(chunk_bytes: int) -> None:
    data = b.log(b"x" * 900, b"%%", b.user("q")) + b"y" * 900
    limits = Limits(line_bytes=500, chunk_bytes=chunk_bytes, first_chunk_bytes=chunk_bytes)
    kinds = [(1, "oversize"), (2, "json"), (4, "oversize")]
    assert [(found.line, found.kind) for found in rollout.reconstruct(data, limits=limits).damage] == kinds
    lines = [(line.line, line.status) for line in rollout.explain(data, limits=limits)]
    assert lines == [(1, "damaged"), (2, "damaged"), (3, "visible"), (4, "damaged")]
    assert {record.line for record in rollout.records(data, limits=limits)} == {1, 2, 3, 4}
    assert rollout.verify(data, limits=limits).damaged_lines == 3


def test_a_hole_inside_a_line_that_is_too_long_ends_no_line() -> None:
    data = b"x" * 900 + b"\0" * 900 + b"y\n" + b"%%\n"
    limits = Limits(line_bytes=500, chunk_bytes=64, first_chunk_bytes=64)
    found = rollout.reconstruct(data, limits=limits).damage
    assert [(damage.line, damage.kind) for damage in found] == [(1, "oversize"), (1, "json"), (2, "json")]
    assert [record.line for record in rollout.records(data, limits=limits)][-2:] == [1, 2]
    assert rollout.verify(data, limits=limits).damaged_lines == 2


# Batches that a crash has cut short


BATCH = mark_batch([line + b"\n" for line in (b.user("q2"), b.assistant("a2"), b.call("c"), b.output("c"))])
BEFORE = b.log(b.session_meta(), b.user("q1"))


def texts(state: rollout.State) -> list[str]:
    return [json.dumps(item) for item in state.history]


def test_a_whole_batch_is_like_its_lines_alone() -> None:
    state = rollout.reconstruct(BEFORE + b"".join(BATCH))
    assert len(state.history) == 5
    assert state.damage == ()
    assert state.history[1] == b.user_item("q2")


def test_a_batch_that_is_cut_at_any_byte_is_not_visible_and_kept_by_records() -> None:
    whole = BEFORE + b"".join(BATCH)
    before = texts(rollout.reconstruct(BEFORE))
    for end in range(len(BEFORE) + 1, len(whole) - 1):
        data = whole[:end]
        assert texts(rollout.reconstruct(data)) == before, end
        assert b"".join(record.raw for record in rollout.records(data)) == data
        lines = list(rollout.explain(data))
        assert [line.status for line in lines[:2]] == ["metadata", "visible"]
        assert {line.status for line in lines[2:]} == {"damaged"}
        assert [line.line for line in lines] == list(range(1, len(lines) + 1))
        assert len(lines) == 2 + len(split_lines(data[len(BEFORE) :]))
        assert not rollout.verify(data).ok


def test_a_batch_without_its_last_newline_is_whole() -> None:
    data = (BEFORE + b"".join(BATCH))[:-1]
    assert len(rollout.reconstruct(data).history) == 5
    assert b"".join(record.raw for record in rollout.records(data)) == data


@pytest.mark.parametrize("lost", range(4))
def test_a_batch_that_lacks_any_one_of_its_lines_is_not_visible(lost: int) -> None:
    lines = [line for n, line in enumerate(BATCH) if n != lost]
    data = BEFORE + b"".join(lines)
    assert texts(rollout.reconstruct(data)) == texts(rollout.reconstruct(BEFORE))
    assert [damage.kind for damage in rollout.reconstruct(data).damage] == ["batch"]
    assert len(list(rollout.records(data))) == 5
    assert [line.status for line in rollout.explain(data)] == ["metadata", "visible", *["damaged"] * 3]


def test_a_batch_in_the_middle_of_a_file_is_visible_line_by_line() -> None:
    data = BEFORE + b"".join(BATCH[:2]) + b.log(b.user("q3"))
    assert len(rollout.reconstruct(data).history) == 4
