"""Sealing and unsealing: the same bytes, whoever unpacks them, the same answers, and nothing given up too early."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import stat
import struct
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout import SealResult
from rollout.errors import NotARollout, NotFound, SourceError, UsageError, WriteError
from rollout.files.disk import REAL
from rollout.files.plain import FileSource
from rollout.files.recovery import mark_batch
from rollout.files.sealed import seal as sealing
from rollout.files.sealed.reader import Frames
from rollout.limits import KIB, MIB
from rollout.testing.disk import SimulatedDisk
from tests import builders as b
from tests import strategies as logs
from tests.sessions import a_store
from tests.storage import ME
from tests.storage.test_sealed import pack, skippable

NAME = f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
LOG = b.log(b.session_meta(), *(line for n in range(9) for line in (b.started(f"t{n}"), b.user(f"q{n}" * 9))))
HOSTILE = [
    b"",
    b"\n",
    b"x",
    b"\n\n\n",
    LOG[:-1],
    LOG + b'{"torn',
    LOG + bytes(5000),
    LOG.replace(b"\n", b"\r\n"),
    b"\xef\xbb\xbf" + LOG,
    bytes(range(256)) * 9,
    b"\x28\xb5\x2f" + LOG,
    LOG + b"".join(mark_batch([b.user("1") + b"\n", b.user("2") + b"\n", b.user("3") + b"\n"])[:2]),
]


def unpack(path: Path) -> bytes:
    """As any zstd tool does."""
    packed = io.BytesIO(path.read_bytes())
    return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()


def frames_of(path: Path) -> list[bytes]:
    """The text of each frame."""
    with contextlib.closing(REAL.open_read(path)) as file:
        frames, at, found = Frames(FileSource(file)), 0, []
        while at < file.size():
            frame = frames.at(at)
            if frame.text_size:
                head = zstandard.get_frame_parameters(file.read_at(at, 18))
                assert (head.content_size, head.has_checksum) == (frame.text_size, True)
                found.append(b"".join(frames.stream(frame)))
            at += frame.size
    return found


def seal(path: Path, data: bytes, frame_bytes: int = MIB) -> Path:
    path.write_bytes(data)
    return sealing.seal(REAL, path, held_by=ME, frame_bytes=frame_bytes).path


def a_turn(n: int) -> bytes:
    text = "".join(chr(35 + (i * i * n + 7 * i) % 50) for i in range(300))
    return b.log(b.started(f"t{n}"), b.context(f"t{n}"), b.user(f"q{n} {text}"), b.assistant("a"), b.completed(f"t{n}"))


LONG = b.log(b.session_meta()) + b"".join(map(a_turn, range(3000)))


# The same bytes


@given(
    st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=500), logs.damaged_logs(6), logs.well_formed_logs(4)),
    st.integers(1, 300),
)
def test_any_bytes_are_sealed_and_unsealed_as_they_are(data: bytes, frame_bytes: int) -> None:
    data = b"#" + data if data[:4] == b"\x28\xb5\x2f\xfd" else data
    disk = SimulatedDisk({f"/{NAME}": data})
    done = sealing.seal(disk, Path("/", NAME), held_by=ME, frame_bytes=frame_bytes)
    packed = disk.tree().pop(f"/{NAME}.zst") or b""
    assert list(disk.tree()) == [f"/{NAME}.zst"]
    assert done == SealResult(Path("/", f"{NAME}.zst"), len(data), len(packed))
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True).read() == data
    assert sealing.unseal(disk, done.path, held_by=ME) == Path("/", NAME)
    assert disk.tree() == {f"/{NAME}": data}


@pytest.mark.parametrize("data", HOSTILE)
def test_a_sealed_file_reads_as_the_plain_one_does(data: bytes, tmp_path: Path) -> None:
    plain = tmp_path / "plain" / NAME
    plain.parent.mkdir()
    plain.write_bytes(data)
    sealed = seal(tmp_path / NAME, data, 100)
    found, expected = ([*rollout.explain(path.read_bytes())] for path in (sealed, plain))
    assert found == expected
    assert list(rollout.reconstruct(sealed).history) == list(rollout.reconstruct(plain).history)
    assert [damage.kind for damage in rollout.verify(sealed).damage] == [d.kind for d in rollout.verify(plain).damage]


@pytest.mark.parametrize("data", [b"", LOG, LONG + b'{"torn', bytes(3 * MIB)])
def test_the_command_line_tool_unpacks_it(data: bytes, tmp_path: Path) -> None:
    tool = shutil.which("zstd")
    if tool is None:
        pytest.skip("there is no zstd here; the library of the same project reads it all the same")
    sealed = seal(tmp_path / NAME, data)
    assert subprocess.run([tool, "-dc", sealed], capture_output=True, check=True).stdout == data
    assert subprocess.run([tool, "-tq", sealed], check=True).returncode == 0


def test_frames_are_of_about_the_given_size_and_end_at_line_ends(tmp_path: Path) -> None:
    sealed = seal(tmp_path / NAME, LONG + b"tail")
    assert unpack(sealed) == LONG + b"tail"
    *whole, last = frames_of(sealed)
    assert all(text.endswith(b"\n") and MIB - 2 * KIB < len(text) <= MIB for text in whole)
    assert last.endswith(b"\ntail")
    assert len(whole) == len(LONG) // MIB


def test_a_longer_line_makes_a_longer_frame_and_one_that_is_too_long_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LONGEST_FRAME_BYTES", 100)
    data = b"%s\n%s\nb\nc\n%s\nd\n%s" % (b"a" * 5, b"x" * 98, b"y" * 250, b"z" * 30)
    sealed = seal(tmp_path / NAME, data, 20)
    assert frames_of(sealed) == [
        *(b"aaaaa\n", b"x" * 98 + b"\n", b"b\nc\n"),
        *(b"y" * 100, b"y" * 100, b"y" * 50 + b"\n"),
        *(b"d\n", b"z" * 30),
    ]
    assert sealing.unseal(REAL, sealed, held_by=ME).read_bytes() == data


def test_a_run_of_many_megabytes_of_the_same_byte_is_sealed_too(tmp_path: Path) -> None:
    data = LOG + bytes(20 * MIB)
    sealed = seal(tmp_path / NAME, data)
    assert sealed.stat().st_size < 10 * KIB
    assert len(rollout.reconstruct(sealed).history) == 9
    assert sealing.unseal(REAL, sealed, held_by=ME).read_bytes() == data


def test_an_empty_file_is_one_empty_frame(tmp_path: Path) -> None:
    sealed = seal(tmp_path / NAME, b"")
    assert sealed.read_bytes()[:4] == zstandard.FRAME_HEADER
    assert list(rollout.reconstruct(sealed).history) == []
    assert not rollout.verify(sealed).damage


def test_the_time_and_the_rights_of_the_file_are_kept_both_ways(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(LOG)
    when = 1_774_000_000_123_456_789
    os.utime(path, ns=(when, when))
    sealed = sealing.seal(REAL, path, held_by=ME).path
    assert sealed.stat().st_mtime_ns == when
    assert stat.S_IMODE(sealed.stat().st_mode) == 0o600
    plain = sealing.unseal(REAL, sealed, held_by=ME)
    assert plain.stat().st_mtime_ns == when
    assert [name.name for name in tmp_path.iterdir()] == [NAME]


def test_a_file_that_is_named_or_kept_as_no_rollout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(LOG)
    with pytest.raises(UsageError, match=r"does not end in \.jsonl"):
        sealing.seal(REAL, tmp_path / "a.txt", held_by=ME)
    with pytest.raises(NotFound):
        sealing.seal(REAL, tmp_path / NAME, held_by=ME)
    with pytest.raises(NotARollout):
        sealing.seal(REAL, tmp_path, held_by=ME)
    (tmp_path / NAME).symlink_to(tmp_path / "a.txt")
    with pytest.raises(NotARollout, match="symbolic link"):
        sealing.seal(REAL, tmp_path / NAME, held_by=ME)
    (tmp_path / "b.jsonl.zst").write_bytes(LOG)
    with pytest.raises(NotARollout, match="no Zstandard frame"):
        rollout.open_log(tmp_path / "b.jsonl.zst")
    assert (tmp_path / "b.jsonl.zst").read_bytes() == (tmp_path / "a.txt").read_bytes() == LOG


def test_progress_goes_up_to_all_of_it(tmp_path: Path) -> None:
    for work in (sealing.seal, sealing.unseal):
        path = tmp_path / NAME
        path.write_bytes(LONG) if work is sealing.seal else None
        steps: list[tuple[int, ...]] = []

        def tell(*step: int, to: list[tuple[int, ...]] = steps) -> None:
            to.append(step)

        work(REAL, path, held_by=ME, progress=tell)
        assert len(steps) > 3
        assert all(before[0] <= after[0] for before, after in itertools.pairwise(steps))
        assert {total for _, total in steps} == {steps[-1][0]}


def test_neither_way_holds_more_than_some_frames_in_memory(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with path.open("wb") as file:
        for _ in range(12):
            file.write(LONG)
    assert path.stat().st_size > 20 * MIB
    tracemalloc.start()
    sealing.seal(REAL, path, held_by=ME)
    sealing.unseal(REAL, path, held_by=ME)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB


# Both files there


@pytest.mark.parametrize("grown", [b"", b.log(b.user("more"))])
def test_a_sealed_file_that_a_crash_left_beside_the_plain_one_goes(grown: bytes, tmp_path: Path) -> None:
    for finish in (
        lambda: sealing.unseal(REAL, tmp_path / NAME, held_by=ME),
        lambda: sealing.unseal(REAL, tmp_path / f"{NAME}.zst", held_by=ME),
        lambda: a_store(tmp_path).open(tmp_path / f"{NAME}.zst").close(),
    ):
        sealed = seal(tmp_path / NAME, LOG)
        (tmp_path / NAME).write_bytes(LOG + grown)
        finish()
        assert not sealed.exists()
        assert (tmp_path / NAME).read_bytes().startswith(LOG + grown)
    sealed = seal(tmp_path / NAME, LOG)
    (tmp_path / NAME).write_bytes(LOG + grown)
    sealing.seal(REAL, sealed, held_by=ME)
    assert unpack(sealed) == LOG + grown
    assert not (tmp_path / NAME).exists()


def test_a_sealed_file_with_another_text_beside_the_plain_one_is_neither_read_nor_lost(tmp_path: Path) -> None:
    sealed = seal(tmp_path / NAME, LOG + b.log(b.user("elsewhere")))
    packed = sealed.read_bytes()
    (tmp_path / NAME).write_bytes(LOG)
    with pytest.raises(WriteError, match="holds another text"):
        sealing.seal(REAL, tmp_path / NAME, held_by=ME)
    assert sealing.unseal(REAL, sealed, held_by=ME) == tmp_path / NAME
    assert (sealed.read_bytes(), (tmp_path / NAME).read_bytes()) == (packed, LOG)


# Files of other programs, and damaged ones


@pytest.mark.parametrize(
    "packed",
    [
        zstandard.ZstdCompressor(level=19).compress(LONG),
        pack(LONG, sized=False),
        pack(LONG, checksum=False),
        skippable(b"first") + pack(LONG[:1000]) + skippable(b"between") + pack(LONG[1000:], sized=False) + pack(b""),
    ],
)
def test_what_another_program_has_sealed_is_read_and_unsealed(packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.zst"
    path.write_bytes(packed)
    assert len(rollout.reconstruct(path).history) == 6000
    assert sealing.seal(REAL, path, held_by=ME) == SealResult(path, len(LONG), len(packed))
    assert sealing.unseal(REAL, path, held_by=ME).read_bytes() == LONG


@pytest.mark.parametrize("where", ["in the text", "in the checksum", "cut off", "behind the end"])
def test_a_damaged_one_is_not_unsealed_and_the_place_is_told(where: str, tmp_path: Path) -> None:
    sealed = seal(tmp_path / NAME, LONG)
    packed = bytearray(sealed.read_bytes())
    with contextlib.closing(REAL.open_read(sealed)) as file:
        frames = Frames(FileSource(file))
        second = frames.at(frames.at(0).size)
    if where == "behind the end":
        packed += b"more"
        offset = len(packed) - 4
    elif where == "cut off":
        del packed[second.offset + 100 :]
        offset = second.offset
    else:
        packed[second.offset + (second.size - 1 if where == "in the checksum" else 999)] ^= 0x10
        offset = second.offset
    sealed.write_bytes(packed)
    with pytest.raises(WriteError, match=r"cannot be unsealed: .* \(at byte \d+\); read it as it is") as error:
        a_store(tmp_path).open(sealed)
    assert error.value.offset == offset
    assert [found.name for found in tmp_path.iterdir()] == [sealed.name]
    assert sealed.read_bytes() == packed


def test_a_disk_without_room_for_the_text_of_a_foreign_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{NAME}.zst"
    path.write_bytes(pack(LONG, sized=False))

    def no_room() -> io.FileIO:
        return io.FileIO("/dev/full", "r+")

    monkeypatch.setattr("tempfile.TemporaryFile", no_room)
    with pytest.raises(SourceError, match=r"temporary file: No space left on device; set TMPDIR") as error:
        rollout.reconstruct(path)
    assert error.value.path == str(path)


def seek_table_of(packed: bytes) -> Iterator[tuple[int, int]]:
    count, _, magic = struct.unpack("<IBI", packed[-9:])
    assert magic == 0x8F92EAB1
    yield from struct.iter_unpack("<II", packed[-9 - 8 * count : -9])


def test_the_seek_table_names_each_frame(tmp_path: Path) -> None:
    sealed = seal(tmp_path / NAME, LONG)
    packed = sealed.read_bytes()
    entries = [*seek_table_of(packed)]
    assert [text for _, text in entries] == [*map(len, frames_of(sealed))]
    size = sum(size for size, _ in entries)
    assert packed[size : size + 8] == struct.pack("<II", 0x184D2A5E, len(packed) - size - 8)
