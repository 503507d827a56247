"""Sealed files: the same answer as the plain one, however they were packed, and what damage does to them."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.files.sealed.reader import SealedSource
from rollout.format.lines import BytesSource
from rollout.limits import KIB, MIB, Limits
from tests import builders as b
from tests import strategies as logs
from tests.answers import assert_same_answer
from tests.reference import fold

SKIPPABLE = 0x184D2A50


class Packed(BytesSource):
    """Packed bytes that note what was read of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.read_bytes = 0
        self.places: set[int] = set()

    def read_at(self, offset: int, n: int, /) -> bytes:
        found = super().read_at(offset, n)
        self.read_bytes += len(found)
        self.places |= set(range(offset, offset + len(found)))
        return found


def pack(text: bytes, *, sized: bool = True, checksum: bool = True) -> bytes:
    """One frame."""
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=checksum, write_content_size=sized)
    if sized:
        return compressor.compress(text)
    stream = compressor.compressobj()
    return stream.compress(text) + stream.flush()


def skippable(content: bytes, kind: int = 0) -> bytes:
    return struct.pack("<II", SKIPPABLE + kind, len(content)) + content


def seek_table(frames: Sequence[tuple[bytes, bytes]], *, checksums: bool = False) -> bytes:
    """The seekable format's table of frames, each given as (packed, text)."""
    more = b"\0\0\0\0" if checksums else b""
    entries = b"".join(struct.pack("<II", len(packed), len(text)) + more for packed, text in frames)
    return skippable(entries + struct.pack("<IBI", len(frames), 0x80 * checksums, 0x8F92EAB1), 14)


def seal(texts: Iterable[bytes], *, table: bool = False, sized: bool = True) -> bytes:
    frames = [(pack(text, sized=sized), text) for text in texts]
    return b"".join(packed for packed, _ in frames) + (seek_table(frames) if table else b"")


def cut(data: bytes, frame_bytes: int, *, at_lines: bool = False) -> list[bytes]:
    """The text in pieces of about this size."""
    if not at_lines:
        return [data[at : at + frame_bytes] for at in range(0, len(data), frame_bytes)]
    pieces: list[bytes] = []
    for line in data.splitlines(keepends=True):
        if pieces and len(pieces[-1]) < frame_bytes:
            pieces[-1] += line
        else:
            pieces.append(line)
    return pieces


def read_all(source: SealedSource) -> bytes:
    return source.read_at(0, source.size)


def assert_same_state(sealed: bytes, plain: bytes, limits: Limits) -> None:
    state, expected = rollout.reconstruct(sealed, limits=limits), rollout.reconstruct(plain, limits=limits)
    assert_same_answer(state, expected)
    assert state.history == expected.history
    assert state.turns == expected.turns
    assert [damage.kind for damage in state.damage] == [damage.kind for damage in expected.damage]
    assert [*rollout.explain(sealed, limits=limits)] == [*rollout.explain(plain, limits=limits)]


LOG = b.log(b.session_meta(), *(line for n in range(9) for line in (b.started(f"t{n}"), b.user(f"q{n}" * 9))))
small = st.builds(
    lambda first, later, frame: Limits(first_chunk_bytes=first, chunk_bytes=later, frame_bytes=frame),
    st.integers(1, 400),
    st.integers(1, 400),
    st.sampled_from([1, 50, 8 * MIB]),  # the small ones unpack into a temporary file
)


# The same answer as plain


@settings(max_examples=60)
@given(
    st.one_of(logs.well_formed_logs(4), logs.damaged_logs(8)).filter(bool),
    st.integers(1, 700),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    small,
)
def test_a_log_sealed_in_any_frames_gives_the_answer_of_the_plain_one(
    data: bytes, frame_bytes: int, how: tuple[bool, bool, bool, bool], limits: Limits
) -> None:
    at_lines, table, sized, skips = how
    texts = cut(data, max(frame_bytes, len(data) // 50), at_lines=at_lines)
    frames = [(pack(text, sized=sized, checksum=not skips), text) for text in texts]
    between = skippable(b"anything") if skips else b""
    if skips:
        frames = [*itertools.chain.from_iterable((frame, (between, b"")) for frame in frames)]
    sealed = b"".join(packed for packed, _ in frames) + (seek_table(frames, checksums=skips) if table else b"")
    assert_same_state(sealed, data, limits)


@given(st.binary(max_size=300), st.integers(1, 40), st.booleans(), st.booleans(), st.data())
def test_any_part_of_the_text_can_be_read_in_any_order(
    text: bytes, frame_bytes: int, sized: bool, table: bool, draw: st.DataObject
) -> None:
    source = SealedSource(Packed(seal(cut(text, frame_bytes), sized=sized, table=table)))
    assert source.size == len(text)
    for _ in range(5):
        offset, n = draw.draw(st.integers(0, len(text))), draw.draw(st.integers(0, 350))
        assert source.read_at(offset, n) == text[offset : offset + n]
    assert source.damage == []
    source.close()


@pytest.mark.parametrize("level", [-5, 1, 19])
def test_one_frame_of_another_program_is_read(level: int) -> None:
    assert_same_state(zstandard.ZstdCompressor(level=level).compress(LOG), LOG, Limits())


def test_a_frame_without_its_size_or_larger_than_the_limit_goes_through_a_temporary_file() -> None:
    for sealed in (pack(LOG, sized=False), pack(LOG)):
        source = SealedSource(Packed(sealed), Limits(frame_bytes=100))
        assert read_all(source) == LOG
        assert source.damage == []
        source.close()


def test_empty_frames_and_skippable_ones_hold_no_text() -> None:
    sealed = pack(b"") + skippable(b"x" * 99) + pack(LOG) + skippable(b"", 15) + pack(b"", sized=False)
    source = SealedSource(Packed(sealed))
    assert read_all(source) == LOG
    assert SealedSource(Packed(pack(b""))).size == 0
    source.close()


def test_a_sealed_file_in_a_home_is_read_as_its_plain_twin(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "2026" / "03" / "20"
    folder.mkdir(parents=True)
    sealed = folder / f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl.zst"
    sealed.write_bytes(seal(cut(LOG, 300)))
    state = rollout.reconstruct("-1", home=tmp_path)
    assert state.path == sealed
    assert list(state.history) == fold(LOG).history
    assert b"".join(record.raw for record in rollout.records(sealed)) == LOG


# Only the frames that are needed


def noise(n: int) -> bytes:
    """A line that does not pack well."""
    text = "".join(chr(33 + (i * i * n + 7 * i) % 90) for i in range(500))
    return b.log(b.event("noise", n=n, text=text.replace('"', "").replace("\\", "")))


@pytest.mark.parametrize("table", [True, False])
def test_reading_the_end_unpacks_the_last_frame_alone(table: bool) -> None:
    texts = [b"".join(noise(100 * k + n) for n in range(100)) for k in range(20)]
    sealed = seal(texts, table=table)
    packed = Packed(sealed)
    source = SealedSource(packed)
    before = packed.read_bytes
    assert source.read_at(source.size - 10, 10) == texts[-1][-10:]
    assert packed.read_bytes - before == len(pack(texts[-1]))
    assert before < 20 * 12 + 30 if table else before < 20 * 30
    assert source.bytes_read == len(packed.places)  # a header that is looked at again counts once


@pytest.mark.parametrize("table", [True, False])
def test_frames_before_a_compaction_are_not_unpacked(table: bool) -> None:
    old = b.log(b.session_meta()) + b"".join(map(noise, range(2000)))
    new = b.log(b.started("t1"), b.context("t1"), b.compacted([b.user_item("s")]), b.context("t1"), b.user("q"))
    sealed = seal([*cut(old, 64 * KIB), new], table=table)
    state = rollout.reconstruct(sealed, limits=Limits(first_chunk_bytes=KIB, chunk_bytes=4 * KIB))
    assert list(state.history) == [b.user_item("s"), b.user_item("q")]
    assert state.bytes_read < len(sealed) // 8


# Damage


def good_lines(source: SealedSource) -> set[bytes]:
    lines = read_all(source).replace(b"\0", b"\n").split(b"\n")
    return {line for line in lines if line.startswith(b'{"timestamp"') and line.endswith(b"}")}


@pytest.mark.parametrize("sized", [True, False])
def test_a_sealed_file_that_is_cut_at_any_byte_gives_what_lies_before_the_cut(sized: bool) -> None:
    texts = cut(LOG, 400, at_lines=True)
    packed = [pack(text, sized=sized) for text in texts]
    sealed = b"".join(packed)
    ends = [*itertools.accumulate(map(len, packed))]
    for end in range(4, len(sealed)):
        whole = sum(done <= end for done in ends)
        source = SealedSource(Packed(sealed[:end]))
        text = read_all(source)
        assert LOG.startswith(text)
        assert len(text) >= sum(map(len, texts[:whole]))
        assert bool(source.damage) == (end not in ends)
        source.close()
        state = rollout.reconstruct(sealed[:end])
        assert list(state.history) == fold(text).history
        assert ("sealed" in {damage.kind for damage in state.damage}) == (end not in ends)


def test_a_seek_table_that_is_cut_off_costs_nothing_but_is_told() -> None:
    sealed = seal(cut(LOG, 400), table=True)
    size = len(sealed) - len(seal(cut(LOG, 400)))
    for lost in range(1, size):
        source = SealedSource(Packed(sealed[:-lost]))
        assert read_all(source) == LOG
        assert len(source.damage) == 1
        source.close()


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("broken", range(4))
def test_of_a_frame_that_is_damaged_inside_only_its_own_text_is_lost(table: bool, broken: int) -> None:
    texts = [b"".join(noise(10 * k + n) for n in range(10)) for k in range(4)]
    frames = [(pack(text), text) for text in texts]
    packed = [bytearray(frame) for frame, _ in frames]
    packed[broken][len(packed[broken]) // 2] ^= 0x10
    sealed = b"".join(packed) + (seek_table(frames) if table else b"")
    source = SealedSource(Packed(sealed))
    expected = {line for i, text in enumerate(texts) if i != broken for line in text.split(b"\n") if line}
    assert good_lines(source) == expected
    assert [offset for offset, _ in source.damage] == [sum(map(len, packed[:broken]))]
    (damage,) = rollout.reconstruct(sealed).damage
    assert damage.kind == "sealed"


@pytest.mark.parametrize("broken", range(4))
@pytest.mark.parametrize("at", [0, 5, 7])
def test_frames_behind_one_that_does_not_begin_as_a_frame_are_read_without_a_seek_table(broken: int, at: int) -> None:
    texts = [b"".join(noise(10 * k + n) for n in range(10)) for k in range(4)]
    packed = [bytearray(pack(text)) for text in texts]
    packed[broken][at] ^= 0xFF  # the magic number, the content size, the first block
    if broken == 0:
        packed.insert(0, bytearray(pack(b"")))
    source = SealedSource(Packed(b"".join(packed)))
    expected = {line for i, text in enumerate(texts) if i != broken for line in text.split(b"\n") if line}
    assert good_lines(source) >= expected
    assert len(good_lines(source) - expected) <= 10
    assert [offset for offset, _ in source.damage] == [sum(map(len, packed[: broken + (broken == 0)]))]
    source.close()


def test_a_magic_number_that_is_no_beginning_of_a_frame_is_not_taken_for_one() -> None:
    last = pack(b.log(b.user("last")))
    source = SealedSource(Packed(pack(LOG) + b"?" + b"\x28\xb5\x2f\xfd" * 50 + last[:9] + last))
    assert read_all(source) == LOG + b"\0" + b.log(b.user("last"))
    assert [offset for offset, _ in source.damage] == [len(pack(LOG))]
    source.close()


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("limits", [Limits(), Limits(frame_bytes=10)])
def test_frames_around_a_damaged_one_are_read_through_the_temporary_file_too(sized: bool, limits: Limits) -> None:
    texts = [b"".join(noise(10 * k + n) for n in range(10)) for k in range(3)]
    packed = [bytearray(pack(text, sized=sized)) for text in texts]
    packed[1][-1] ^= 0x10  # of the checksum
    source = SealedSource(Packed(b"".join(packed)), limits)
    expected = {line for text in (texts[0], texts[2]) for line in text.split(b"\n") if line}
    assert good_lines(source) >= expected
    assert len(source.damage) == 1
    source.close()


@settings(max_examples=100)
@given(st.data(), st.booleans(), st.booleans(), small)
def test_flipped_bytes_anywhere_are_no_exception_and_never_pass_for_good(
    draw: st.DataObject, table: bool, sized: bool, limits: Limits
) -> None:
    sealed = bytearray(seal(cut(LOG, 500, at_lines=True), table=table, sized=sized))
    at = draw.draw(st.integers(4, len(sealed) - 1))
    sealed[at] ^= draw.draw(st.integers(1, 255))
    try:
        state = rollout.reconstruct(bytes(sealed), limits=limits)
    except rollout.RolloutError:
        return
    assert state.damage or list(state.history) == fold(LOG).history


@given(st.binary(max_size=200), st.sampled_from([b"", pack(LOG), seek_table([])]), small)
def test_any_bytes_behind_the_magic_number_are_no_exception(noise: bytes, end: bytes, limits: Limits) -> None:
    data = b"\x28\xb5\x2f\xfd" + noise + end
    try:
        [*rollout.reconstruct(data, limits=limits).history]
        rollout.verify(data, limits=limits)
    except rollout.RolloutError as error:
        pytest.fail(f"an error for damage in data: {error}")


# Bombs


@pytest.mark.parametrize(("frame_bytes", "frames"), [(64 * MIB, 1), (MIB, 40)])
def test_frames_that_unpack_to_more_than_they_may_are_cut_short_and_told(frame_bytes: int, frames: int) -> None:
    bomb = pack(b"\n" * frame_bytes, sized=False) * frames
    source = SealedSource(Packed(bomb), Limits(expansion=10))
    assert source.size <= len(bomb) * 10 + MIB
    assert ["more than it may" in reason for _, reason in source.damage] == [True]
    source.close()


def test_a_header_that_promises_less_than_the_frame_holds_does_not_unpack_it() -> None:
    bomb = bytearray(pack(b"\n" * (64 * MIB)))
    assert bomb[6:10] == struct.pack("<I", 64 * MIB)
    bomb[6:10] = struct.pack("<I", 1000)
    source = SealedSource(Packed(bytes(bomb)))
    assert (source.size, source.read_at(0, 2000)) == (1000, bytes(1000))
    assert len(source.damage) == 1


def test_a_header_that_promises_more_than_the_frame_holds_gives_no_more_than_it_holds() -> None:
    huge = bytearray(pack(b"x" * 1000 + b"\n" * 70_000))
    assert huge[5:9] == struct.pack("<I", 71_000)
    huge[5:9] = struct.pack("<I", 2**32 - 1)
    source = SealedSource(Packed(bytes(huge)))
    assert source.size <= 71_000
    assert source.damage
    source.close()


@pytest.mark.parametrize(
    "entries",
    [
        [(100, 100)],
        [(2**32 - 1, 2**32 - 1)],
        [(0, 5)],
        [],
    ],
)
def test_a_seek_table_that_does_not_add_up_is_not_followed(entries: list[tuple[int, int]]) -> None:
    rows = b"".join(struct.pack("<II", *entry) for entry in entries)
    table = skippable(rows + struct.pack("<IBI", len(entries), 0, 0x8F92EAB1), 14)
    source = SealedSource(Packed(pack(LOG) + table))
    assert read_all(source) == LOG
    assert source.damage == []


def test_a_seek_table_that_promises_another_size_is_damage() -> None:
    packed = pack(LOG)
    source = SealedSource(Packed(packed + seek_table([(packed, LOG + b"more")])))
    assert read_all(source) == bytes(len(LOG) + 4)
    assert source.damage == [(0, "a sealed frame does not hold what its header says")]
