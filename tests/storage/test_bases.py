"""Which file is the base of another one, of several with one id too, and where it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

import rollout
from rollout.limits import Limits
from tests import builders as b
from tests.answers import assert_same_answer
from tests.families import (
    END,
    NUMBERED,
    PARTS,
    SOURCE,
    THREADS,
    UP_TO_1,
    Family,
    assert_base_is_missing,
    base_of,
    fork,
    texts,
    turn,
)
from tests.reference import fold


@pytest.mark.parametrize("reverts_first", [False, True])
def test_of_several_files_of_a_thread_the_base_is_the_one_whose_last_id_is_named(
    tmp_path: Path, reverts_first: bool
) -> None:
    files = [(THREADS[0], None, "first"), (THREADS[0], PARTS[0], "other"), (THREADS[0], PARTS[1], "third")]
    family, size = Family(tmp_path), 0
    for thread, part, text in sorted(files, key=lambda file: file[2], reverse=reverts_first):
        size = len(family.add(b.log(b.session_meta(thread), b.user(text)), thread, part).read_bytes())
    for thread, part, text in files:
        base = base_of(part or thread, size)
        path = family.add(b.log(b.session_meta(THREADS[1], history_base=base)), THREADS[1])
        state = rollout.reconstruct(path, home=tmp_path)
        assert (texts(state), state.damage) == ([text], ())


def test_the_thread_s_id_names_no_file_that_a_revert_made(tmp_path: Path) -> None:
    family = Family(tmp_path)
    revert = family.add(b.log(b.session_meta(THREADS[0]), b.user("q")), THREADS[0], PARTS[0])
    base = base_of(THREADS[0], revert.stat().st_size)
    assert_base_is_missing(
        family.add(b.log(b.session_meta(THREADS[1], history_base=base), *turn(3)), THREADS[1]), tmp_path
    )


ANY_ID = "01ab0000-0000-7000-8000-00000000000f"


@pytest.mark.parametrize("said", [ANY_ID, ANY_ID.upper(), ANY_ID.replace("-", "")])
@pytest.mark.parametrize(
    "name",
    [
        f"sessions/2026/03/20/rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl",
        f"sessions/2026/03/20/rollout-2026-03-20T10-00-00-{ANY_ID.upper()}.jsonl",
        f"sessions/2026/03/20/rollout-2026-03-20T10-00-00-{THREADS[0]}_{ANY_ID}.jsonl.zst",
        f"sessions/2026/03/20/rollout-2026-03-20T10-00-00-{THREADS[0].upper()}_{ANY_ID.upper()}.jsonl",
        f"sessions/2026/03/20/rollout-1999-12-31T10-00-00-{THREADS[0]}_{ANY_ID}.jsonl",
        f"sessions/1999/1/2/rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl",
        f"sessions/rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl",
        f"archived_sessions/rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl",
        f"archived_sessions/rollout-2026-03-20T10-00-00-{THREADS[0]}_{ANY_ID.upper()}.jsonl.zst",
    ],
)
def test_a_base_is_found_by_the_last_id_of_its_name_whatever_its_case_its_folder_and_its_packing(
    tmp_path: Path, name: str, said: str
) -> None:
    source, place = b.log(*SOURCE), tmp_path / name
    place.parent.mkdir(parents=True)
    place.write_bytes(zstandard.ZstdCompressor(level=1).compress(source) if name.endswith(".zst") else source)
    path = fork(tmp_path, base_of(said, UP_TO_1))
    state = rollout.reconstruct(path)
    assert (texts(state), state.damage) == (["q1", "a1"], ())


@pytest.mark.parametrize(
    "name",
    [
        f"rollout-2026-03-20T10-00-00-{ANY_ID}_{THREADS[0]}.jsonl",
        f"rollout-2026-03-20T10-00-00-{THREADS[0]}_{THREADS[2]}_{ANY_ID}.jsonl",
        f"rollout-2026-03-20T10-00-00-{THREADS[0]}-{ANY_ID}.jsonl",
        f"rollout-{ANY_ID}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl.bak",
        f"rollout-2026-03-20T10-00-00-{ANY_ID}.JSONL",
        f".rollout-2026-03-20T10-00-00-{ANY_ID}.jsonl.deleted",
        f"{ANY_ID}.jsonl",
    ],
)
def test_a_name_that_only_looks_alike_is_no_base(tmp_path: Path, name: str) -> None:
    path = fork(tmp_path, base_of(ANY_ID, UP_TO_1), *turn(3))
    (path.parent / name).write_bytes(b.log(*SOURCE))
    assert_base_is_missing(path, tmp_path)


def test_a_base_is_found_beside_the_file_and_in_the_home_and_among_archived_ones(tmp_path: Path) -> None:
    source, base = b.log(*SOURCE), base_of(THREADS[0], UP_TO_1)
    name = f"rollout-2026-03-20T10-00-00-{THREADS[0]}.jsonl"
    child = tmp_path / "child.jsonl"
    child.write_bytes(b.log(b.session_meta(THREADS[1], history_base=base)))
    for home in (
        tmp_path,
        tmp_path / "home" / "archived_sessions",
        tmp_path / "home" / "sessions" / "2026" / "1" / "2",
    ):
        home.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(source)
        assert texts(rollout.reconstruct(child, home=tmp_path / "home")) == ["q1", "a1"]
        (home / name).unlink()
        assert texts(rollout.reconstruct(child, home=tmp_path / "home")) == []


# Several files with one id


DAY, OTHER_DAY = "sessions/2026/03/19", "sessions/2031/01/01"  # the day on which THREADS[0] was made, and another
ARCHIVE = "archived_sessions"
EARLY = f"rollout-2026-03-19T09-00-00-{THREADS[0]}.jsonl"
LATE = f"rollout-2026-03-19T11-00-00-{THREADS[2]}_{THREADS[0]}.jsonl"


@pytest.mark.parametrize(
    ("counts", "other"),
    [
        (f"{DAY}/{LATE}", f"{DAY}/{EARLY}"),
        (f"{DAY}/{EARLY}", f"{OTHER_DAY}/{LATE}"),
        (f"{DAY}/{EARLY}", f"{ARCHIVE}/{LATE}"),
        (f"{OTHER_DAY}/{EARLY}", f"{ARCHIVE}/{LATE}"),
        (f"{DAY}/{EARLY}", f"{DAY}/{EARLY}.zst"),
        (f"{DAY}/{EARLY}", f"{ARCHIVE}/{EARLY}.zst"),
        (f"{DAY}/{EARLY}.zst", f"{ARCHIVE}/{EARLY}"),
    ],
)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_of_several_files_with_one_id_the_same_one_counts_for_everybody_and_it_is_reported(
    tmp_path: Path, counts: str, other: str, is_swapped: bool
) -> None:
    child = tmp_path / "sessions" / "2030" / "12" / "31" / f"rollout-2030-12-31T10-00-00-{THREADS[1]}.jsonl"
    child.parent.mkdir(parents=True)
    source = b.log(*SOURCE)
    child.write_bytes(b.log(b.session_meta(THREADS[1], history_base=base_of(THREADS[0], UP_TO_1))))
    for name in sorted([counts, other], reverse=is_swapped):
        data = source if name == counts else source.replace(b"q1", b"XX")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(
            zstandard.ZstdCompressor(level=1).compress(data) if name.endswith(".zst") else data
        )
    assert texts(rollout.reconstruct(child)) == ["q1", "a1"]
    store = rollout.Store(tmp_path)
    assert store.list(forks=True)[0].first_message == "q1"
    parents = {found.row.path: node.row.path for node in store.tree() for found in node.children}
    assert parents == {child: tmp_path / counts}
    is_twin = {counts, other} == {f"{DAY}/{EARLY}", f"{DAY}/{EARLY}.zst"}  # one of the two is what a crash has left
    notes = [note for note in rollout.verify(child).notes if note.kind == "base"]
    assert [str(tmp_path / counts) in note.reason and other in note.reason for note in notes] == [True] * (not is_twin)
    found = [finding for finding in store.doctor().findings if finding.kind == "lineage"]
    assert [finding.path for finding in found] == [tmp_path / other] * (not is_twin)


def test_a_file_beside_the_one_that_goes_on_from_it_counts_first(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), source=b.log(*SOURCE))
    elsewhere = tmp_path / DAY / LATE
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(b.log(*SOURCE).replace(b"q1", b"XX"))
    assert texts(rollout.reconstruct(path)) == ["q1", "a1"]


def test_a_copy_that_is_too_short_does_not_hide_the_whole_one(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), source=b.log(*SOURCE)[: UP_TO_1 - 1])
    assert texts(rollout.reconstruct(path)) == []
    (tmp_path / ARCHIVE).mkdir()
    (tmp_path / ARCHIVE / EARLY).write_bytes(b.log(*SOURCE))
    state = rollout.reconstruct(path)
    assert (texts(state), state.damage) == (["q1", "a1"], ())


@pytest.mark.parametrize("end", [0, END, len(b.log(*NUMBERED))])
def test_a_base_may_end_behind_any_line(tmp_path: Path, end: int) -> None:
    path = fork(tmp_path, base_of(THREADS[0], end), *turn(3), source=b.log(*NUMBERED))
    state = rollout.reconstruct(path)
    assert texts(state) == [
        *[text for text in ("q1", "a1", "q2", "a2") if b'"%b"' % text.encode() in b.log(*NUMBERED)[:end]],
        "q3",
        "a3",
    ]
    assert state.damage == ()


# Bases that end elsewhere than it is said: they are read, and it is told


def assert_base_is_inexact(path: Path, home: Path) -> None:
    """It is told once, everywhere."""
    state = rollout.reconstruct(path, home=home)
    assert [(damage.kind, damage.path) for damage in state.damage] == [("base_end", str(path))]
    report = rollout.verify(path, home=home)
    assert [damage.kind for damage in report.damage] == ["base_end"]
    assert report.damaged_lines == 1
    assert [damage.kind for damage in rollout.explain(path, home=home).damage] == ["base_end"]
    store = rollout.Store(home)
    assert [row.damaged for row in store.list(forks=True) if row.path == path] == [1]
    (finding,) = [finding for finding in store.doctor().findings if finding.path == path]
    assert (finding.kind, finding.is_problem, finding.resumes) == ("lineage", False, True)


@pytest.mark.parametrize("ordinal", [0, 5, 7, 2**70, -1])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_wrong_ordinal_is_told_and_the_base_is_read(tmp_path: Path, ordinal: int, sealed: bool) -> None:
    family = Family(tmp_path)
    family.add(b.log(*NUMBERED), THREADS[0], sealed=sealed)
    base = base_of(THREADS[0], END, ordinal)
    path = family.add(b.log(b.session_meta(THREADS[1], history_base=base), *turn(3)), THREADS[1])
    assert texts(rollout.reconstruct(path)) == ["q1", "a1", "q3", "a3"]
    assert_base_is_inexact(path, tmp_path)


@pytest.mark.parametrize("source", [NUMBERED, SOURCE])
def test_the_right_ordinal_is_the_one_behind_the_last_line_of_the_base(tmp_path: Path, source: list[bytes]) -> None:
    end = len(b.log(*source[:6]))
    path = fork(tmp_path, base_of(THREADS[0], end, 6), *turn(3), source=b.log(*source))
    state = rollout.reconstruct(path)
    assert (texts(state), state.damage) == (["q1", "a1", "q3", "a3"], ())


@pytest.mark.parametrize("sealed", [False, True])
def test_an_offset_in_a_line_is_taken_as_the_end_of_the_line_before_and_told(tmp_path: Path, sealed: bool) -> None:
    lines, source = list(SOURCE), b.log(*SOURCE)
    lines[3] = b.user("q1" + 100 * "x")
    source, end = b.log(*lines), len(b.log(*lines[:3]))
    for cut in (1, len(lines[3]) // 2, len(lines[3]) - 1):
        family = Family(tmp_path)
        family.add(source, THREADS[0], sealed=sealed)
        base = base_of(THREADS[0], end + cut)
        path = family.add(b.log(b.session_meta(THREADS[1], history_base=base), *turn(3)), THREADS[1])
        family.ends.append(end)
        state = rollout.reconstruct(path)
        assert_same_answer(state, fold(family.files[-1], bases=family.bases))
        assert (texts(state), [turn.id for turn in state.turns]) == (["q3", "a3"], ["t1", "t3"])
        assert_base_is_inexact(path, tmp_path)


def test_an_offset_behind_a_whole_record_that_lacks_its_line_end_takes_that_record(tmp_path: Path) -> None:
    end = len(b.log(*SOURCE[:5]))
    for source in (b.log(*SOURCE), b.log(*SOURCE)[: end - 1]):
        path = fork(tmp_path, base_of(THREADS[0], end - 1), *turn(3), source=source)
        assert texts(rollout.reconstruct(path)) == ["q1", "a1", "q3", "a3"]
        assert_base_is_inexact(path, tmp_path)


def test_an_offset_in_a_very_long_line_is_found_with_little_memory_and_told(tmp_path: Path) -> None:
    lines = [*SOURCE[:6], b.user("x" * 3_000_000)]
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1 + 2_999_000), *turn(3), source=b.log(*lines))
    state = rollout.reconstruct(path, limits=Limits(line_bytes=1_000_000))
    assert texts(state) == ["q1", "a1", "q3", "a3"]
    assert [damage.kind for damage in state.damage] == ["base_end"]


def test_a_fork_with_an_inexact_base_can_be_copied_and_made_to_stand_alone(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1 + 20, 9), *turn(3), source=b.log(*SOURCE))
    store = rollout.Store(tmp_path)
    with store.open(path, "read") as log, log.fork(copy=True) as copy:
        pass
    for alone in (copy.path, store.detach(path)):
        state = rollout.reconstruct(alone)
        assert (texts(state), state.damage) == (["q1", "a1", "q3", "a3"], ())
