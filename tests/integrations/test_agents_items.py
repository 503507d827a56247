"""Items of any shape: equal when they come back, refused before the first byte, readable for everybody else."""

from __future__ import annotations

import datetime
import enum
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rollout
from rollout.adapters.agents import RolloutSession
from rollout.adapters.agents.opaque import item_of, items_of, parts_of
from rollout.dialects.codex import encoder
from rollout.errors import RecordError
from rollout.files.lineage import holds_record
from rollout.files.recovery import mark_batch
from rollout.format import strict_json
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from rollout.limits import DEFAULT, Limits
from rollout.session.newest_items import recent_entries
from tests import builders as b
from tests import strategies as logs
from tests.integrations.agent_sessions import files_of, history_of, items, odd_items, run, say, says


def spelled(items: list[Any]) -> str:
    """Tells 1 from 1.0 from True, and 0.0 from -0.0; tuples are lists."""
    return json.dumps(items)


def line_of(item: Any) -> bytes:
    """Its line."""
    (line,) = encoder.lines(parts_of([item]), 1.0, None)
    return line


def nested(depth: int) -> Any:
    """Lists in lists, so many."""
    made: Any = []
    for _ in range(depth - 1):
        made = [made]
    return made


@given(st.lists(items, max_size=6))
def test_what_goes_in_comes_back_equal_and_in_order(added: list[Any]) -> None:
    lines = encoder.lines(parts_of(added), 1.0, None)
    for written in (lines, mark_batch(lines) if lines else []):
        assert spelled([item_of(line.rstrip(b"\n")) for line in written]) == spelled(added)
        assert spelled(items_of([line.rstrip(b"\n") for line in written])) == spelled(added)


@given(items, st.data())
@example({"timestamp": "t", "type": "response_item", "payload": {"type": "message", "role": "user"}}, None)
def test_no_part_of_a_line_is_taken_for_a_record_wherever_a_crash_cuts_it(
    item: Any, data: st.DataObject | None
) -> None:
    line = line_of(item)
    cuts = range(len(line) - 1) if data is None else [data.draw(st.integers(0, len(line) - 2))]
    assert not any(holds_record(line[:cut]) for cut in cuts)
    assert holds_record(line[:-1])


@given(items)
def test_every_item_is_shown_by_whoever_reads_the_log(item: Any) -> None:
    (shown,) = rollout.reconstruct(line_of(item)).history
    assert isinstance(shown["type"], str)
    assert rollout.verify(line_of(item)).damaged_lines == 0
    is_message = isinstance(item, dict) and item.get("role") == "user" and item.get("type", "message") == "message"
    if is_message and isinstance(item["content"], str):
        content = [{"type": "input_text", "text": item["content"]}]
        assert shown == {"type": "message", **item, "content": content}
    elif shown["type"] == "session_item" and shown != item:
        assert spelled([shown["item"]]) == spelled([item])
    else:
        assert shown == item


class Color(enum.StrEnum):
    """Text by inheritance, but no plain text."""

    RED = "red"


NO_JSON: list[Any] = [
    math.nan,
    math.inf,
    b"{}",
    bytearray(b"1"),
    {"a": b""},
    {1: 2},
    {None: 1},
    {"a": {("b",): 1}},
    {1, 2},
    object(),
    datetime.date(2026, 1, 1),
    [Color.RED],
    range(3),
    nested(DEFAULT.depth + 1),
    msgspec.Raw(b'{"a":'),
    msgspec.Raw(b"1\n"),
    msgspec.Raw(b'"\xff"'),
]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: repr(value)[:20])
def test_what_is_no_json_is_refused_before_anything_is_made(tmp_path: Path, value: Any) -> None:
    session = RolloutSession("s", tmp_path / "home")
    for bad in (value, {"role": "user", "content": value}, {"type": "message", "role": "user", "content": [value]}):
        with pytest.raises(RecordError):
            run(session.add_items([say("good"), bad, say("good")]))
    assert not (tmp_path / "home").exists()
    run(session.add_items(says("kept")))
    (path,) = files_of(tmp_path / "home")
    before = path.read_bytes()
    with pytest.raises(RecordError):
        run(session.add_items([say("good"), value]))
    assert path.read_bytes() == before
    assert run(session.get_items()) == says("kept")


def test_an_item_may_be_nested_to_the_limit_of_a_line() -> None:
    bare = nested(DEFAULT.depth - 2)  # in an item that wraps it, in the envelope
    assert item_of(line_of(bare)) == bare
    shown = {"type": "reasoning", "summary": [], "deep": nested(DEFAULT.depth - 2)}
    assert item_of(line_of(shown)) == shown
    with pytest.raises(RecordError, match="nested deeper"):
        line_of(nested(DEFAULT.depth - 1))


def test_odd_items_survive_a_session_on_disk_and_in_memory(tmp_path: Path) -> None:
    for session in (RolloutSession("s", tmp_path), RolloutSession("s")):
        run(session.add_items(odd_items))
        run(session.add_items(odd_items[:1]))
        assert spelled(run(session.get_items())) == spelled([*odd_items, odd_items[0]])
        assert spelled([run(session.pop_item()) for _ in odd_items]) == spelled([odd_items[0], *odd_items[:0:-1]])
        assert run(session.get_items()) == odd_items[:1]
    assert len(history_of(tmp_path)) == 1


def newest(data: bytes, count: int | None, limits: Limits) -> list[Any] | None:
    entries = recent_entries([Segment(BytesSource(data), len(data))], count, limits)
    return None if entries is None else items_of(entries)


def assert_same_in_one_decoding(data: bytes, count: int | None, limits: Limits) -> None:
    entries = recent_entries([Segment(BytesSource(data), len(data))], count, limits)
    expected = None if entries is None else [item_of(entry) for entry in entries]
    assert spelled(newest(data, count, limits) or []) == spelled(expected or [])


counts = st.none() | st.integers(1, 12)
limits = st.integers(1, 3000).map(lambda size: Limits(first_chunk_bytes=size, chunk_bytes=size))


@given(logs.any_logs() | logs.damaged_logs() | logs.well_formed_logs(), counts, limits)
def test_one_decoding_a_line_gives_what_two_give_of_any_log(data: bytes, count: int | None, cut: Limits) -> None:
    assert_same_in_one_decoding(data, count, cut)


def test_two_values_in_a_line_beside_a_line_with_none_are_not_taken_for_one_each() -> None:
    twice = b.user("a")[:-1] * 2 + b"\n"
    data = b.log(b.user("b"), twice, b" \n", b.user("c"))
    assert_same_in_one_decoding(data, None, DEFAULT)
    assert [item["content"][0]["text"] for item in newest(data, None, DEFAULT) or []] == ["b", "c"]


def test_a_line_that_is_nested_too_deep_is_damage_in_one_decoding_too() -> None:
    deep = b'{"type":"response_item","payload":{"type":"message","role":"user","content":' + b"[" * 128 + b"]" * 128
    data = b.log(b.user("a"), deep + b"}}\n", b.user("c"))
    assert strict_json.is_too_deep(deep + b"}}", DEFAULT.depth)
    assert_same_in_one_decoding(data, None, DEFAULT)
    assert len(newest(data, None, DEFAULT) or []) == 2


def test_short_messages_of_sessions_that_were_begun_by_an_earlier_version_are_still_there(tmp_path: Path) -> None:
    added = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    run(RolloutSession("s", tmp_path).add_items(added))
    (path,) = files_of(tmp_path)
    data = path.read_bytes()
    for text, kind in (("a", "input_text"), ("b", "output_text"), ("c", "input_text")):
        now = b'[{"type":"%b","text":"%b"}]' % (kind.encode(), text.encode())
        assert now in data
        data = data.replace(now, b'"%b"' % text.encode())
    path.write_bytes(data.replace(b'"item":"typeless text"', b'"item":"typeless"'))
    session = RolloutSession("s", tmp_path)
    assert run(session.get_items()) == run(RolloutSession("s", tmp_path).get_items(3)) == added
    assert len(rollout.reconstruct(path).history) == len(rollout.turns(path)) + 1 == 3
    assert rollout.verify(path).ok
    assert run(session.pop_item()) == added[2]
    assert run(RolloutSession("s", tmp_path).get_items(2)) == added[:2]
