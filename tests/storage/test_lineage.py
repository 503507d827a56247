"""Files that continue other files: chains of bases, and what is wrong with them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.limits import Limits
from tests import builders as b
from tests import strategies as logs
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
    numbered,
    texts,
    turn,
)
from tests.reference import fold


def is_own(line: bytes) -> bool:
    """Whether a line can stand in the middle of a lineage: it brings neither a base nor an ordinal of its own."""
    return b'"session_meta"' not in line and b'"ordinal"' not in line


def assert_same(family: Family, limits: Limits) -> None:
    """The engine's whole answer is that of the reference for the bases one behind the other."""
    path, expected = family.paths[-1], fold(family.files[-1], bases=family.bases)
    state = rollout.reconstruct(path, home=family.home, limits=limits)
    assert_same_answer(state, expected)
    assert [(None if turn.derived else turn.id, turn.status, turn.offset, turn.path) for turn in state.turns] == [
        (turn.id, turn.status, turn.place.offset, str(family.paths[turn.place.segment]))
        for turn in expected.standing_turns
    ]
    assert [damage for damage in state.damage if damage.kind == "base"] == []
    newest = len(family.files) - 1
    entries = rollout.explain(path, home=family.home, limits=limits)
    assert [(str(family.paths[part.segment]), part.offset, part.status) for part in expected.parts] == [
        (entry.path, entry.offset, entry.status) for entry in entries
    ]
    assert [part.segment != newest for part in expected.parts] == [entry.inherited is not None for entry in entries]


chunks = st.builds(
    lambda first, later: Limits(first_chunk_bytes=first, chunk_bytes=later), st.integers(1, 500), st.integers(1, 500)
)
members = st.tuples(
    st.one_of(logs.well_formed_lines(2), logs.any_lines(8)), st.integers(0, 100), st.booleans(), st.booleans()
)


@settings(max_examples=80)
@given(st.lists(members, min_size=2, max_size=5), st.booleans(), chunks)
def test_a_chain_of_forks_and_reverts_is_read_as_one_log(
    chain: list[tuple[list[bytes], int, bool, bool]], ordinals: bool, limits: Limits
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        family, ordinal, thread = Family(Path(folder)), 0, 0
        base: dict[str, Any] = {}
        for n, (lines, cut, reverts, sealed) in enumerate(chain):
            is_revert = reverts and n > 0
            thread = thread if is_revert else n
            whole = [b.session_meta(THREADS[thread], **base), *filter(is_own, lines)]
            whole = numbered(whole, ordinal) if ordinals else whole
            family.add(b.log(*whole), THREADS[thread], PARTS[n] if is_revert else None, sealed=sealed, day=1 + n)
            kept = 1 + cut % len(whole)
            ordinal += kept
            family.ends.append(len(b.log(*whole[:kept])))
            name = PARTS[n] if is_revert else THREADS[thread]
            base = {"history_base": base_of(name, family.ends[-1], ordinal if ordinals else None)}
        family.ends.pop()
        assert_same(family, limits)


# One base


def test_a_fork_goes_on_from_the_bytes_of_its_source_that_it_names(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), *turn(3), source=b.log(*SOURCE))
    state = rollout.reconstruct(path)
    assert texts(state) == ["q1", "a1", "q3", "a3"]
    assert [turn.id for turn in state.turns] == ["t1", "t3"]
    assert state.session is not None
    assert state.session["id"] == THREADS[1]
    assert state.damage == ()
    assert rollout.verify(path).ok


def test_a_rollback_in_a_fork_reaches_into_its_base(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), b.rolled_back(1), source=b.log(*SOURCE))
    assert texts(rollout.reconstruct(path)) == []
    lines = list(rollout.explain(path))
    assert {line.status for line in lines if line.inherited} == {"metadata", "event", "rolled_back"}
    assert {(line.by, line.by_inherited) for line in lines if line.status == "rolled_back"} == {(2, None)}


def test_what_a_fork_does_not_name_of_its_source_is_never_read(tmp_path: Path) -> None:
    source = b.log(*SOURCE[:6]) + b"%% garbage\n" * 3 + b.log(*turn(9))
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), source=source)
    assert texts(rollout.reconstruct(path)) == ["q1", "a1"]
    assert rollout.reconstruct(path).damage == ()


def test_a_compaction_in_the_fork_leaves_the_base_unread(tmp_path: Path) -> None:
    lines = b.started("t3"), b.compacted([b.user_item("s")]), b.context("t3"), b.user("q3")
    state = rollout.reconstruct(fork(tmp_path, base_of(THREADS[0], UP_TO_1), *lines))
    assert texts(state) == ["s", "q3"]
    assert state.damage == ()


def test_bytes_in_memory_find_their_base_in_the_home_that_is_given(tmp_path: Path) -> None:
    data = fork(tmp_path, base_of(THREADS[0], UP_TO_1), source=b.log(*SOURCE)).read_bytes()
    assert texts(rollout.reconstruct(data, home=tmp_path)) == ["q1", "a1"]


# Bases that are not there


@pytest.mark.parametrize(
    "base",
    [
        base_of(THREADS[5], END),
        base_of(THREADS[0], len(b.log(*NUMBERED)) + 1),
        base_of(THREADS[0], 10**9),
        base_of(THREADS[0], 2**70),
        base_of(THREADS[0], -1),
        base_of(THREADS[0], 1.5),
        base_of(THREADS[0], True),
        base_of(THREADS[0], None),
        base_of("../../etc/passwd", 10),
        base_of("", 10),
        {"thread_id": 7, "end_byte_offset": END},
        {"thread_id": THREADS[0]},
        {},
        [],
        "x",
        7,
        False,
    ],
)
def test_a_base_that_is_not_where_the_file_says_is_damage_and_the_rest_is_read(tmp_path: Path, base: object) -> None:
    path = fork(tmp_path, base, *turn(3), source=b.log(*NUMBERED))
    assert_base_is_missing(path, tmp_path)
    assert texts(rollout.reconstruct(path)) == ["q3", "a3"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "shorter", "empty"])
def test_what_is_no_file_under_the_name_of_the_base_is_a_missing_base(tmp_path: Path, kind: str) -> None:
    path = fork(tmp_path, base_of(THREADS[0], UP_TO_1), *turn(3))
    source = path.parent / f"rollout-2026-03-20T10-00-00-{THREADS[0]}.jsonl"
    (tmp_path / "elsewhere").write_bytes(b.log(*SOURCE))
    if kind == "folder":
        source.mkdir()
    elif kind == "pipe":
        os.mkfifo(source)
    elif kind == "link":
        source.symlink_to(tmp_path / "elsewhere")
    elif kind == "shorter":
        source.write_bytes(b.log(*SOURCE)[:-1000])
    else:
        source.touch()
    assert_base_is_missing(path, tmp_path)


def test_a_missing_base_of_a_base_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    source = [b.session_meta(THREADS[0], history_base=base_of(THREADS[5], 100)), *turn(1)]
    path = fork(tmp_path, base_of(THREADS[0], len(b.log(*source))), *turn(3), source=b.log(*source))
    assert_base_is_missing(path, tmp_path)
    assert texts(rollout.reconstruct(path)) == ["q1", "a1", "q3", "a3"]


def test_a_null_base_is_no_base(tmp_path: Path) -> None:
    assert rollout.reconstruct(fork(tmp_path, None, *turn(3))).damage == ()


# Chains that never end


def test_a_file_that_is_its_own_base_is_read_once_and_told(tmp_path: Path) -> None:
    path = fork(tmp_path, base_of(THREADS[1], 100), *turn(3))
    path = fork(tmp_path, base_of(THREADS[1], path.stat().st_size), *turn(3))
    assert b'"end_byte_offset":%d' % path.stat().st_size in path.read_bytes()
    assert texts(rollout.reconstruct(path)) == ["q3", "a3"]
    assert_base_is_missing(path, tmp_path)


def test_two_files_that_are_each_others_base_are_read_once_and_told(tmp_path: Path) -> None:
    family = Family(tmp_path)
    for _ in range(4):
        sizes = [path.stat().st_size for path in family.paths] or [100, 100]
        family = Family(tmp_path)
        for n in (0, 1):
            base = base_of(THREADS[1 - n], sizes[1 - n])
            family.add(b.log(b.session_meta(THREADS[n], history_base=base), *turn(3)), THREADS[n])
    assert all(
        b":%d," % path.stat().st_size in other for path, other in zip(family.paths, family.files[::-1], strict=True)
    )
    assert texts(rollout.reconstruct(family.paths[0])) == ["q3", "a3", "q3", "a3"]
    assert_base_is_missing(family.paths[0], tmp_path)


def test_a_chain_longer_than_the_limit_is_read_up_to_it_and_told(tmp_path: Path) -> None:
    family, base = Family(tmp_path), dict[str, Any]()
    for n in range(6):
        family.add(b.log(b.session_meta(THREADS[n], **base), b.user(f"q{n}")), THREADS[n])
        base = {"history_base": base_of(THREADS[n], len(family.files[-1]))}
    state = rollout.reconstruct(family.paths[-1], limits=Limits(lineage_depth=3))
    assert texts(state) == ["q3", "q4", "q5"]
    assert [damage.kind for damage in state.damage] == ["base"]
    assert texts(rollout.reconstruct(family.paths[-1])) == [f"q{n}" for n in range(6)]
