"""How much reading took: bytes of the file, each counted once, whatever was read twice."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rollout
from rollout import Store
from rollout.files.disk import REAL
from rollout.files.plain import FileSource
from rollout.format.lines import BytesSource, Covered
from tests import builders as b
from tests.cli import run

KIB = 1024
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=30)


@given(SPANS)
@example([(0, 3), (5, 8), (3, 5)])
@example([(0, 10), (2, 4), (2, 2)])
def test_every_byte_counts_once_in_whatever_order_it_is_read(spans: list[tuple[int, int]]) -> None:
    covered, seen = Covered(), set[int]()
    for begin, end in spans:
        covered.add(begin, end)
        seen |= set(range(begin, end))
        assert covered.count == len(seen)


@given(st.binary(max_size=50), SPANS)
def test_a_source_counts_what_is_there_and_not_what_was_asked_for(data: bytes, reads: list[tuple[int, int]]) -> None:
    source, seen = BytesSource(data), set[int]()
    for offset, n in reads:
        assert source.read_at(offset, n) == data[offset : offset + n]
        seen |= set(range(min(offset, len(data)), min(offset + n, len(data))))
        assert source.bytes_read == len(seen) <= len(data)


def test_reading_a_file_in_one_direction_holds_one_stretch_however_often_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100 * KIB))
    source = FileSource(REAL.open_read(tmp_path / "x"))
    tracemalloc.start()
    for offset in [*range(100 * KIB - 8, -1, -8), *range(0, 100 * KIB, 8)]:
        source.read_at(offset, 8)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert source.bytes_read == 100 * KIB
    assert held < 32 * KIB  # 25,600 reads


def a_log(kib: int) -> bytes:
    """One of so many KiB, with a session_meta that is looked for from the beginning."""
    lines = [b.session_meta(), b.context(), b.user("q")]
    while len(b.log(*lines)) < kib * KIB:
        lines.append(b.assistant("a" * 3000))
    return b.log(*lines)


@pytest.mark.parametrize("kind", ["plain", "sealed", "encrypted"])
@pytest.mark.parametrize("kib", [0, 3, 50, 65, 98, 127, 129, 200, 700])
def test_reading_never_takes_more_than_the_file_has(
    kib: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
    path.write_bytes(a_log(kib))
    if kind == "encrypted":
        rollout.make_key(tmp_path / "keys.json", "k1")
        monkeypatch.setenv("ROLLOUT_KEYS_FILE", str(tmp_path / "keys.json"))
        Store(tmp_path / "home").rekey(path)
    if kind == "sealed":
        path = Store(tmp_path / "home").seal(path).path
    size = path.stat().st_size
    state = rollout.reconstruct(path)
    assert state.session is not None
    assert 0 < state.bytes_read <= size
    for found in (rollout.summarize(path).state, rollout.open_log(path, "read").resume_state()):
        assert 0 < found.bytes_read <= size
    (told,) = [row for row in run("reconstruct", path).out.splitlines() if row.startswith("read ")]
    assert run("reconstruct", path, "--json").json["bytes_read"] <= size
    read, _, whole = told.removeprefix("read").partition(",")[0].partition(" of ")
    assert read.split() == whole.split()  # no compaction: all of it
