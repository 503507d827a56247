"""What one file may cost a list, a search and the doctor: it is limited, said in its row, remembered."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import rollout
from rollout.errors import TooLarge
from rollout.home.index.entry import TOO_LARGE
from rollout.home.index.scan import scan
from rollout.limits import KIB, LISTED, MIB
from rollout.store import Store
from tests import builders as b
from tests import homes
from tests.cli import run
from tests.steps import count_steps

HEAD = b.log(homes.meta_of(1), b.user("question"))
RECORD = b'{"type":"x","payload":{}}\n'
Make = Callable[[Path, int], Path]


def sealed(*frames: bytes, sized: bool = True) -> bytes:
    if sized:
        return b"".join(zstandard.ZstdCompressor(write_content_size=True).compress(frame) for frame in frames)
    packed = b""
    for frame in frames:
        packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
        packed += packer.compress(frame) + packer.flush()
    return packed


def put(home: Path, data: bytes, *, is_sealed: bool) -> Path:
    path = homes.path_of(home, 1)
    homes.put_data(path.with_name(f"{path.name}.zst") if is_sealed else path, data)
    found = path.with_name(f"{path.name}.zst") if is_sealed else path
    os.utime(found, (1.7e9, 1.7e9))
    return found


BOMBS: dict[str, Make] = {
    "line ends": lambda home, n: put(home, sealed(HEAD + b"\n" * 4 * MIB * n), is_sealed=True),
    "line ends, of no told size": lambda home, n: put(
        home, sealed(HEAD + b"\n" * 4 * MIB * n, sized=False), is_sealed=True
    ),
    "line ends in many frames": lambda home, n: put(home, sealed(HEAD, *[b"\n" * 30_000] * 100 * n), is_sealed=True),
    "plain line ends": lambda home, n: put(home, HEAD + b"\n" * 2 * MIB * n, is_sealed=False),
    "plain line ends and NUL bytes": lambda home, n: put(home, HEAD + b"\0\n" * MIB * n, is_sealed=False),
    "carriage returns": lambda home, n: put(home, HEAD + b"\r\n" * MIB * n, is_sealed=False),
    "garbage": lambda home, n: put(home, HEAD + b"garbage\n" * 25_000 * n, is_sealed=False),
    "pieces of one line": lambda home, n: put(home, HEAD + b"x\0" * 25_000 * n + b"\n", is_sealed=False),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_a_file_without_records_costs_a_list_does_not_follow_its_size(bomb: str, tmp_path: Path) -> None:
    steps: list[int] = []
    homes.put(tmp_path / "small", 1)
    Store(tmp_path / "small").list()  # what is imported on the way is no work of the others
    for n in (1, 3):
        home = tmp_path / f"{n}"
        BOMBS[bomb](home, n)
        steps.append(count_steps(Store(home).list))
        (row,) = Store(home).list()
        assert row.trouble == TOO_LARGE
    assert steps[1] < 1.5 * steps[0] + 5_000  # where the blocks of a frame are, is looked up


def test_records_that_say_nothing_are_limited_by_the_size_of_their_file(tmp_path: Path) -> None:
    limits = dataclasses.replace(LISTED, spare_lines=5_000, spare_text_bytes=300 * KIB)
    few = put(tmp_path / "few", sealed(HEAD + RECORD * 4_000), is_sealed=True)
    assert scan(few, None, limits=limits).entry.trouble is None
    many = put(tmp_path / "many", sealed(*[HEAD + RECORD * 4_000] * 3), is_sealed=True)
    assert scan(many, None, limits=limits).entry.trouble == TOO_LARGE
    plain = put(tmp_path / "plain", HEAD + RECORD * 12_000, is_sealed=False)
    assert scan(plain, None, limits=limits).entry.trouble == TOO_LARGE
    text = put(tmp_path / "text", sealed(HEAD + b.log(b.output(text="x" * MIB))), is_sealed=True)
    assert scan(text, None, limits=limits).entry.trouble == TOO_LARGE
    with pytest.raises(TooLarge, match="too many lines for its size"):
        rollout.reconstruct(plain, limits=limits)


def test_the_row_says_so_and_what_the_head_says_and_the_index_remembers_it(tmp_path: Path) -> None:
    path = BOMBS["line ends"](tmp_path, 1)
    fs = homes.CountingFileSystem(tmp_path)
    store = Store(tmp_path, fs=fs)
    (row,) = store.list()
    assert (row.trouble, row.cwd, row.id, row.bytes) == (TOO_LARGE, "/p", homes.thread_id(1), path.stat().st_size)
    assert row.created == "2026-03-20T00:00:01.000Z"
    fs.opened.clear()
    assert store.list()[0] == row
    assert store.index_status().stale == 0
    assert fs.opened == []
    listed = run("ls", "--home", tmp_path, "--json").json["rows"]
    assert listed[0]["trouble"] == TOO_LARGE
    assert "too large to read for a list" in run("ls", "--home", tmp_path).out
    store.rename(row.id, "a name")
    assert "too large" in run("tree", "--home", tmp_path).out


def test_a_search_stats_and_the_doctor_pass_it_over_and_say_so(tmp_path: Path) -> None:
    path = BOMBS["garbage"](tmp_path, 1)
    homes.put(tmp_path, 2, b.user("question"))
    store = Store(tmp_path)
    found = store.search("question")
    assert [hit.id for hit in found] == [homes.thread_id(2)]
    assert [(note.path, note.what) for note in found.notes] == [(path, f"not searched: {TOO_LARGE}")]
    filtered = store.list(text="question")
    assert [(note.path, note.what) for note in filtered.notes] == [(path, f"not searched: {TOO_LARGE}")]
    assert [(note.path, note.what) for note in store.stats().notes] == [(path, TOO_LARGE)]
    (finding,) = [finding for finding in store.doctor().findings if finding.path == path]
    assert (finding.kind, finding.is_problem) == ("large", False)
    assert finding.command is not None
    assert finding.command[:2] == ("rollout", "show")
    told = json.loads(run("search", "question", "--home", tmp_path, "--json").out)
    assert str(path) in json.dumps(told["notes"])


def test_it_is_read_whole_once_it_is_asked_for_by_name(tmp_path: Path) -> None:
    path = BOMBS["pieces of one line"](tmp_path, 1)
    assert len(rollout.reconstruct(path).history) == 1
    assert rollout.verify(path).damaged_lines == 1


def test_one_that_shrinks_back_to_an_ordinary_size_is_read_again(tmp_path: Path) -> None:
    path = BOMBS["plain line ends"](tmp_path, 1)
    store = Store(tmp_path)
    assert store.list()[0].trouble == TOO_LARGE
    homes.grow(path, b.user("more"))
    assert store.list()[0].trouble == TOO_LARGE
    path.write_bytes(HEAD)
    assert (store.list()[0].trouble, store.list()[0].turns) == (None, 1)


def test_large_files_of_ordinary_lines_are_read_however_well_they_are_packed(tmp_path: Path) -> None:
    outputs = b.log(*[b.output(text="the same picture " * 6_000)] * 300)  # 30 MB that go into some KiB
    homes.put_data(homes.path_of(tmp_path, 1), HEAD + outputs)
    Store(tmp_path).seal(homes.thread_id(1))
    small = [line for k in range(4_000) for line in (b.started(f"t{k}"), b.user("q"), b.completed(f"t{k}"))]
    homes.put(tmp_path, 2, *small)
    Store(tmp_path).seal(homes.thread_id(2))
    homes.put_data(homes.path_of(tmp_path, 3), HEAD + bytes(64 * MIB) + b.log(b.user("behind a hole")))
    rows = {row.id: row for row in Store(tmp_path).list()}
    assert [row.trouble for row in rows.values()] == [None] * 3
    assert rows[homes.thread_id(1)].bytes < 300 * KIB
    assert rows[homes.thread_id(2)].turns == 4_000


def test_a_small_fork_of_a_large_file_is_not_judged_by_its_own_size(tmp_path: Path) -> None:
    limits = dataclasses.replace(LISTED, spare_lines=50, spare_odd_lines=50)
    data = b.log(homes.meta_of(1), *[b.user("a question of some length " * 6)] * 400)
    homes.put_data(homes.path_of(tmp_path, 1), data)
    base = {"thread_id": homes.thread_id(1), "end_byte_offset": len(data)}
    fork = homes.put(tmp_path, 2, b.user("own"), history_base=base)
    found = scan(fork, tmp_path, limits=limits).entry
    assert (found.trouble, found.turns) == (None, 401)
