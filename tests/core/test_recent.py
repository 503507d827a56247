"""The newest items, read backward and no further than they need."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.dialects.codex.dialect import CODEX
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from rollout.items.history import History
from rollout.limits import Limits
from rollout.session.newest_items import recent_entries
from tests import builders as b
from tests import strategies as logs


def newest(data: bytes, count: int | None, limits: Limits | None = None) -> list[object] | None:
    segment = Segment(BytesSource(data), len(data))
    found = recent_entries([segment], count, limits or Limits())
    return None if found is None else list(History(found, CODEX))


def assert_newest_of_history(data: bytes, count: int | None, limits: Limits) -> None:
    found = newest(data, count, limits)
    history = list(rollout.reconstruct(data, limits=limits).history)
    if found is None:
        assert b"thread_rolled_back" in data or b"compacted" in data
    else:
        assert found == (history if count is None else history[max(0, len(history) - count) :])


counts = st.one_of(st.none(), st.integers(0, 12))
limits = st.builds(lambda size: Limits(first_chunk_bytes=size, chunk_bytes=size), st.integers(1, 3000))


@given(logs.any_logs(), counts, limits)
def test_the_newest_items_of_any_log_are_the_end_of_its_history(data: bytes, count: int | None, cut: Limits) -> None:
    assert_newest_of_history(data, count, cut)


@given(logs.well_formed_logs(), counts, limits)
def test_the_newest_items_of_a_session_are_the_end_of_its_history(data: bytes, count: int | None, cut: Limits) -> None:
    assert_newest_of_history(data, count, cut)


@given(logs.damaged_logs(), counts, limits)
def test_the_newest_items_of_a_damaged_log_are_the_end_of_its_history(
    data: bytes, count: int | None, cut: Limits
) -> None:
    assert_newest_of_history(data, count, cut)


@settings(max_examples=50)
@given(st.one_of(logs.any_logs(), logs.well_formed_logs()), st.integers(1, 5), limits)
def test_taking_out_the_newest_items_leaves_the_others(data: bytes, count: int, cut: Limits) -> None:
    data += b"" if data.endswith(b"\n") else b"\n"
    history = list(rollout.reconstruct(data).history)
    segment = Segment(BytesSource(data), len(data))
    found = recent_entries([segment], count, cut)
    assert found is None or list(History(found, CODEX)) == history[-count:]
    assert list(rollout.reconstruct(data + b.log(b.items_removed(count))).history) == history[:-count]


def test_reading_stops_at_the_last_item_that_is_asked_for() -> None:
    data = b.log(*(b.user(f"q{n}") for n in range(5000)))
    source = BytesSource(data)
    found = recent_entries([Segment(source, len(data))], 3, Limits(first_chunk_bytes=512))
    assert found is not None
    assert [item["content"][0]["text"] for item in History(found, CODEX)] == ["q4997", "q4998", "q4999"]
    assert source.bytes_read <= 1024


def test_what_was_removed_behind_a_rollback_is_left_to_the_whole_fold() -> None:
    data = b.log(b.user("a"), b.user("b"), b.rolled_back(1), b.user("c"))
    assert newest(data, 1) == [rollout.reconstruct(data).history[-1]]
    assert newest(data, 2) is None
