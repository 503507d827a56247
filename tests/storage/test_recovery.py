"""The end of a file after a crash: what is decided, what is done."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.files import recovery
from rollout.files.lineage import visible_end
from rollout.files.recovery import (
    RecoveryPlan,
    batch_mark,
    ends_in_whole_batch,
    incomplete_batch_start,
    mark_batch,
    unmark,
)
from rollout.format.lines import BytesSource
from rollout.limits import Limits
from rollout.testing.disk import SimulatedDisk
from tests.storage import holds_record, line, read

ONE, TWO = line(1), line(2)
BATCH = mark_batch([line(3), line(4), line(5)])
RECORD = line(9)[:-1]


def plan_for(data: bytes, chunk_bytes: int = 1 << 20) -> RecoveryPlan:
    file = SimulatedDisk({"/a": data}).open_read("/a")
    return recovery.inspect(file, file.size(), holds_record, chunk_bytes=chunk_bytes)


def mend(data: bytes, beside: dict[str, bytes | None] | None = None) -> dict[str, bytes | None]:
    disk = SimulatedDisk({"/a": data, **(beside or {})})
    file = disk.open_append("/a")
    recovery.apply(disk, file, "/a", recovery.inspect(file, file.size(), holds_record))
    return disk.tree()


def test_a_file_that_ends_in_a_line_needs_nothing() -> None:
    for data in (b"", ONE, ONE + TWO, ONE + b"".join(BATCH), b"garbage\n", ONE + b"\0\0\n", ONE + b"\n\n"):
        assert not plan_for(data).needed
        assert mend(data) == {"/a": data}


def test_a_record_without_its_newline_gets_it() -> None:
    assert mend(ONE + RECORD) == {"/a": ONE + RECORD + b"\n"}
    assert mend(RECORD) == {"/a": RECORD + b"\n"}
    assert mend(ONE + RECORD + b"\0\0\0") == {"/a": ONE + RECORD + b"\n"}


def test_a_torn_tail_that_a_reader_finds_a_record_in_stays_whole() -> None:
    assert mend(ONE + b'{"n":1,"pa\0' + RECORD) == {"/a": ONE + b'{"n":1,"pa\0' + RECORD + b"\n"}


def test_any_other_tail_is_kept_beside_and_then_cut() -> None:
    assert mend(ONE + b'{"n":') == {"/a": ONE, "/a.torn-1": b'{"n":'}
    assert mend(b"\0\0x\0") == {"/a": b"", "/a.torn-1": b"\0\0x"}


def test_nul_bytes_at_the_end_are_cut_and_not_kept() -> None:
    assert mend(ONE + bytes(50)) == {"/a": ONE}
    assert mend(bytes(50)) == {"/a": b""}


def test_an_incomplete_batch_is_kept_beside_and_cut_with_what_is_behind_it() -> None:
    first, second, third = BATCH
    for left in (first, first + second, first + second + third[:9], first + second[:-1], first + second + bytes(7)):
        assert mend(ONE + left) == {"/a": ONE, "/a.torn-1": left.rstrip(b"\0")}


def test_a_batch_that_lacks_only_its_last_newline_is_complete() -> None:
    whole = b"".join(BATCH)
    assert mend(ONE + whole[:-1]) == {"/a": ONE + whole}
    assert mend(ONE + whole[:-1] + b"\0\0") == {"/a": ONE + whole}


def test_a_torn_tail_behind_a_complete_batch_leaves_the_batch() -> None:
    whole = b"".join(BATCH)
    assert mend(ONE + whole + b"{") == {"/a": ONE + whole, "/a.torn-1": b"{"}


def test_a_batch_with_a_hole_in_it_is_incomplete() -> None:
    whole = b"".join(BATCH)
    for start, stop in itertools.combinations(range(len(whole) + 1), 2):
        holed = whole[:start] + bytes(stop - start) + whole[stop:]
        intact = all(found[:-1] in holed for found in BATCH)
        assert read(ONE + holed) == ([1, 3, 4, 5] if intact else [1]), (start, stop)
        mended = mend(ONE + holed)["/a"]
        assert mended is not None
        assert read(mended) == read(ONE + holed)
        assert not plan_for(mended).needed


def test_where_a_file_with_a_hole_ends_for_a_reader_does_not_depend_on_the_size_of_its_reads() -> None:
    whole = ONE + b"".join(BATCH)
    holed = [whole[:a] + bytes(b - a) + whole[b:] for a, b in itertools.combinations(range(0, len(whole) + 1, 3), 2)]
    torn = [whole[:cut] + bytes(50) for cut in range(len(whole) + 1)]
    for data in holed + torn:
        end = visible_end(BytesSource(data))
        for chunk_bytes in (1, 5, 16):
            limits = Limits(first_chunk_bytes=chunk_bytes, chunk_bytes=chunk_bytes)
            assert visible_end(BytesSource(data), limits) == end, (data, chunk_bytes)


def test_every_cut_of_a_file_is_mended_to_what_a_reader_saw_in_any_chunk_size() -> None:
    data = ONE + TWO + b"".join(BATCH) + line(6)
    for cut in range(len(data) + 1):
        plan = plan_for(data[:cut])
        assert all(plan_for(data[:cut], chunk_bytes) == plan for chunk_bytes in (1, 2, 7, 64))
        once = mend(data[:cut])["/a"]
        assert once is not None
        assert read(once) == read(data[:cut])
        assert mend(once) == {"/a": once}


def test_a_file_beside_of_an_earlier_try_is_used_again_and_no_other_is_touched() -> None:
    torn = ONE + b"{torn"
    assert mend(torn, {"/a.torn-1": b"{torn"}) == {"/a": ONE, "/a.torn-1": b"{torn"}
    others: dict[str, bytes | None] = {"/a.torn-1": b"{to", "/a.torn-2": None}
    assert mend(torn, others) == {"/a": ONE, **others, "/a.torn-3": b"{torn"}


def test_a_line_that_is_written_alone_has_no_extra_bytes() -> None:
    assert mark_batch([ONE]) == [ONE]
    assert mark_batch([]) == []


def test_marks_come_off_without_a_trace() -> None:
    assert [batch_mark(found) for found in BATCH] == [(1, 3), (2, 3), (3, 3)]
    assert [unmark(found) for found in BATCH] == [line(3), line(4), line(5)]
    assert mark_batch(BATCH[:2]) == mark_batch([line(3), line(4)])
    assert unmark(ONE) == ONE


@pytest.mark.parametrize(
    "body",
    [
        b'{"n":1,"batch":[0,2]}',
        b'{"n":1,"batch":[3,2]}',
        b'{"n":1,"batch":[1,1]}',
        b'{"n":1,"batch":[1,2,3]}',
        b'{"n":1,"batch":"[1,2]"}',
        b'{"n":1,"payload":{"a":0,"batch":[1,2]}}',
        b'{"n":1,"payload":",\\"batch\\":[1,2]}"}',
    ],
)
def test_what_only_looks_like_a_mark_is_none(body: bytes) -> None:
    assert batch_mark(body + b"\n") is None


def test_only_the_last_line_is_looked_at_where_it_is_of_no_batch() -> None:
    lines = iter([(len(ONE), TWO), (0, ONE)])
    assert incomplete_batch_start(lines, holds_record) is None
    assert list(lines) == [(0, ONE)]


def test_a_complete_batch_behind_another_of_the_same_size_hides_nothing() -> None:
    data = b"".join(mark_batch([line(1), line(2)]) + mark_batch([line(3), line(4)]))
    assert read(data) == [1, 2, 3, 4]
    assert read(data[: data.rindex(b'{"n"')]) == [1, 2]


WHOLE = b"".join(mark_batch([line(n, "x" * (n % 50)) for n in range(100)]))
cuts = st.integers(1, 9000).map(lambda size: Limits(first_chunk_bytes=size, chunk_bytes=3 * size))


@given(st.lists(st.sampled_from([ONE, b"\n", BATCH[0], *mark_batch([ONE, TWO]), WHOLE])), cuts)
def test_a_quick_look_at_a_whole_batch_finds_it_whatever_lies_before(before: list[bytes], cut: Limits) -> None:
    source = BytesSource(b"".join(before) + WHOLE)
    assert visible_end(source, cut) == source.size
    if cut.first_chunk_bytes > 100:  # else a line is longer than what is read at once
        assert ends_in_whole_batch(source, source.size, 0, cut)
        assert source.bytes_read <= 4 * len(WHOLE) + 2 * cut.chunk_bytes


@given(st.data(), cuts)
def test_a_quick_look_takes_nothing_for_whole_that_is_not(data: st.DataObject, cut: Limits) -> None:
    lines = [ONE, *WHOLE.splitlines(keepends=True)]
    at = data.draw(st.integers(1, len(lines) - 1))
    damage = data.draw(st.sampled_from(["leave out", "double", "zero", "tear", "exchange", "blank", "another"]))
    lines[at : at + 1] = {
        "leave out": [],
        "double": [lines[at]] * 2,
        "zero": [bytes(len(lines[at]))],
        "tear": [lines[at][:-1]],
        "exchange": [*lines[at : at + 1], ONE],
        "blank": [lines[at], b"\n"],
        "another": [lines[at].replace(b",100]}", b",101]}")],
    }[damage]
    torn = b"".join(lines)
    ends = list(itertools.accumulate(map(len, torn.splitlines(keepends=True)), initial=0))
    newest_first = list(zip(ends[:-1], torn.split(b"\n"), strict=False))[::-1]
    slow = incomplete_batch_start(newest_first, holds_record)
    assert slow is None or not ends_in_whole_batch(BytesSource(torn), len(torn), 0, cut)


def test_a_mark_that_lies_costs_no_more_than_what_is_there() -> None:
    source = BytesSource(ONE * 1000 + b'{"n":1,"batch":[999999999,999999999]}\n')
    assert not ends_in_whole_batch(source, source.size, 0, Limits())
    assert source.bytes_read <= 3 * source.size


def test_any_number_of_incomplete_batches_is_cut_in_one_go() -> None:
    first_of_two = mark_batch([ONE, TWO])[0]
    data = ONE + first_of_two * 5000
    assert plan_for(data, 1 << 18) == RecoveryPlan(len(data), len(ONE), len(data), newline=False)
