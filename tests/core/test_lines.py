"""Lines from either end: the same ones, whole, each byte read once, whatever the chunks and limits are."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollout.format.lines import Batch, BytesSource, Gap, Oversize, backward, forward, is_nul
from rollout.limits import Limits


class Line(NamedTuple):
    """A line without its line end, if it has one; `data` is None where it was not kept."""

    offset: int
    data: bytes | None
    ended: bool


class Watched:
    """A source that notes what was read of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, n: int, /) -> bytes:
        found = self.data[offset : offset + n]
        self.reads.append((offset, offset + len(found)))
        return found


Blocks = Iterable[Batch | Oversize | Gap]


def limits_of(first: int, later: int, line_bytes: int = 1 << 20) -> Limits:
    return Limits(first_chunk_bytes=first, chunk_bytes=later, line_bytes=line_bytes)


def flatten(blocks: Blocks) -> list[Line]:
    """The lines, and the pieces of lines beside gaps, of blocks in the order of the file."""
    found = []
    for block in blocks:
        if isinstance(block, Oversize):
            found.append(Line(block.offset, None, block.ended))
        elif isinstance(block, Batch):
            offset = block.offset
            for i, line in enumerate(block.lines):
                ended = i < len(block.lines) - 1
                if line or ended:
                    found.append(Line(offset, line, ended))
                offset += len(line) + ended
            assert offset == block.end
    return found


def expected_lines(data: bytes, line_bytes: int = 1 << 20) -> list[Line]:
    """Every line of the file, the slow way."""
    parts = data.split(b"\n")
    offsets = itertools.accumulate((len(part) + 1 for part in parts), initial=0)
    found = [
        Line(offset, part if len(part) <= line_bytes else None, i < len(parts) - 1)
        for i, (offset, part) in enumerate(zip(offsets, parts, strict=False))
    ]
    return found if parts[-1] else found[:-1]


def refill(blocks: Blocks, data: bytes) -> bytes:
    """The blocks joined; what was only counted is taken from `data`."""
    joined = b""
    for block in blocks:
        assert block.offset == len(joined)
        joined += b"\n".join(block.lines) if isinstance(block, Batch) else data[block.offset : block.offset + block.n]
    return joined


def in_order(blocks: Blocks) -> list[Batch | Oversize | Gap]:
    return list(blocks)[::-1]


crumbs = st.lists(st.sampled_from([b"\n", b"a", b"bc" * 9, b"\r", b"\x0b\x0c\x1c\x85", "\u2028é".encode(), b"\xff"]))
nul_crumbs = st.lists(st.sampled_from([b"\n", b"a", b"b" * 30, b"\0", b"\0" * 25, b"\0" * 60]))
plain_bytes = crumbs.map(b"".join)
holed_bytes = st.one_of(nul_crumbs.map(b"".join), st.binary(max_size=60))
chunk_sizes = st.integers(1, 40)
limits = st.builds(limits_of, chunk_sizes, chunk_sizes)
strict_limits = st.builds(limits_of, chunk_sizes, chunk_sizes, st.integers(0, 40))


@settings(max_examples=300)
@given(plain_bytes, limits)
@example(b"", limits_of(1, 1))
@example(b"\n", limits_of(1, 1))
@example(b"\n\na", limits_of(1, 1))
def test_lines_are_the_same_from_either_end_in_any_chunk_size(data: bytes, limits: Limits) -> None:
    assert flatten(forward(BytesSource(data), limits=limits)) == expected_lines(data)
    assert flatten(in_order(backward(BytesSource(data), limits=limits))) == expected_lines(data)


@settings(max_examples=300)
@given(plain_bytes, strict_limits)
def test_a_line_is_counted_and_not_kept_if_and_only_if_it_is_longer_than_the_limit(data: bytes, limits: Limits) -> None:
    assert flatten(forward(BytesSource(data), limits=limits)) == expected_lines(data, limits.line_bytes)
    assert flatten(in_order(backward(BytesSource(data), limits=limits))) == expected_lines(data, limits.line_bytes)


@settings(max_examples=300)
@given(st.one_of(plain_bytes, holed_bytes), strict_limits)
def test_joining_all_blocks_gives_the_bytes_back(data: bytes, limits: Limits) -> None:
    assert refill(forward(BytesSource(data), limits=limits), data) == data
    assert refill(in_order(backward(BytesSource(data), limits=limits)), data) == data


@settings(max_examples=300)
@given(holed_bytes, strict_limits)
def test_a_gap_is_nothing_but_nul_bytes_and_no_kept_line_is_longer_than_the_limit(data: bytes, limits: Limits) -> None:
    for blocks in (list(forward(BytesSource(data), limits=limits)), list(backward(BytesSource(data), limits=limits))):
        for block in blocks:
            if isinstance(block, Gap):
                assert is_nul(data[block.offset : block.offset + block.n])
            elif isinstance(block, Oversize):
                lost = data[block.offset : block.offset + block.n]
                assert b"\n" not in lost[:-1]
                assert lost.endswith(b"\n") == block.ended
                assert len(lost) - block.ended > limits.line_bytes
            else:
                assert max(len(line.strip(b"\0")) for line in block.lines) <= limits.line_bytes


@settings(max_examples=300)
@given(holed_bytes, limits)
def test_a_line_that_gaps_run_through_is_the_same_from_either_end_but_for_its_nul_bytes(
    data: bytes, limits: Limits
) -> None:
    wanted = [piece for line in data.split(b"\n") for piece in line.split(b"\0") if piece]
    for blocks in (forward(BytesSource(data), limits=limits), in_order(backward(BytesSource(data), limits=limits))):
        lines = flatten(blocks)
        assert [piece for line in lines for piece in (line.data or b"").split(b"\0") if piece] == wanted
        assert sum(line.ended for line in lines) == data.count(b"\n")


@settings(max_examples=200)
@given(holed_bytes, limits)
def test_a_batch_says_whether_it_begins_with_a_line_or_behind_a_gap(data: bytes, limits: Limits) -> None:
    for block in backward(BytesSource(data), limits=limits):
        if isinstance(block, Batch) and block.begins:
            assert block.offset == 0 or data[block.offset - 1 : block.offset] == b"\n"
        elif isinstance(block, Batch):
            assert data[block.offset - 1 : block.offset] == b"\0"


@settings(max_examples=300)
@given(st.one_of(plain_bytes, holed_bytes), strict_limits, st.booleans())
def test_each_byte_is_read_once_and_in_no_larger_chunks_than_allowed(data: bytes, limits: Limits, back: bool) -> None:
    source = Watched(data)
    list(backward(source, limits=limits) if back else forward(source, limits=limits))
    assert sorted(source.reads) == (source.reads[::-1] if back else source.reads)
    edges = [0, *itertools.chain(*sorted(source.reads)), len(data)]
    assert edges[::2] == edges[1::2]  # each read begins where the one before it ends, none is missing
    most = max(limits.first_chunk_bytes, limits.chunk_bytes) if back else limits.chunk_bytes
    assert all(end - begin <= most for begin, end in source.reads)


@settings(max_examples=100)
@given(plain_bytes, limits, st.data())
def test_reading_a_part_gives_the_lines_of_that_part(data: bytes, limits: Limits, draw: st.DataObject) -> None:
    end = draw.draw(st.integers(0, len(data)))
    start = draw.draw(st.sampled_from([0, *(line.offset for line in expected_lines(data[:end]))]))
    part = [line._replace(offset=line.offset + start) for line in expected_lines(data[start:end])]
    assert flatten(forward(BytesSource(data), start, end, limits)) == part
    assert flatten(in_order(backward(BytesSource(data), end, limits))) == expected_lines(data[:end])


@pytest.mark.parametrize("other", ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\0"])
def test_nothing_but_a_newline_ends_a_line(other: str) -> None:
    line = f"one{other}two".encode()
    (batch,) = backward(BytesSource(line + b"\n"))
    assert isinstance(batch, Batch)
    assert batch.lines == [line, b""]


def test_reading_backward_looks_at_nothing_that_is_not_asked_for() -> None:
    source = Watched(b"old\n" * 1000 + b"new\n")
    blocks = backward(source, limits=limits_of(8, 16))
    assert next(blocks) == Batch(len(source.data) - 4, len(source.data), [b"new", b""])
    assert source.reads == [(len(source.data) - 8, len(source.data))]


def test_chunks_grow_from_the_first_to_the_largest_and_no_further() -> None:
    source = Watched(b"x\n" * 50)
    list(backward(source, limits=limits_of(8, 20)))
    assert [end - begin for begin, end in source.reads] == [8, 16, 20, 20, 20, 16]


@pytest.mark.parametrize("back", [True, False])
def test_a_line_of_many_chunks_beyond_the_limit_is_one_block_of_its_length(back: bool) -> None:
    data = b"a\n" + b"x" * 1000 + b"\nb\n" + b"y" * 500
    read = backward if back else forward
    found = [block for block in read(BytesSource(data), limits=limits_of(7, 7, 100)) if isinstance(block, Oversize)]
    assert sorted(found, key=lambda block: block.offset) == [Oversize(2, 1001, True), Oversize(1005, 500, False)]


@pytest.mark.parametrize("back", [True, False])
def test_a_hole_in_a_line_leaves_the_pieces_on_both_sides(back: bool) -> None:
    data = b"a" * 5 + b"\0" * 64 + b"b" * 5 + b"\n"
    blocks = list((backward if back else forward)(BytesSource(data), limits=limits_of(8, 8)))
    ordered = blocks[::-1] if back else blocks
    assert [piece for line in flatten(ordered) for piece in (line.data or b"").split(b"\0") if piece] == [
        b"aaaaa",
        b"bbbbb",
    ]
    assert sum(block.n for block in ordered if isinstance(block, Gap)) >= 64 - 2 * 8


def test_a_source_that_shrinks_while_it_is_read_forward_ends_early() -> None:
    source = Watched(b"one\ntwo\n")
    source.size = 100
    assert flatten(forward(source, limits=limits_of(4, 4))) == expected_lines(b"one\ntwo\n")


def test_bytes_in_memory_count_what_was_read_of_them() -> None:
    source = BytesSource(memoryview(b"0123456789"))
    assert (source.size, source.read_at(8, 5), source.bytes_read) == (10, b"89", 2)
