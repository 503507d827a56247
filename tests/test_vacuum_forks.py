"""Vacuum: forks that copied their source come to refer to it, where that loses nobody anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import rollout
from rollout import Store
from tests import builders as b
from tests.builders import log
from tests.sessions import a_log, a_store, context, take_turn, texts
from tests.vacuuming import (
    CHILD,
    GRANDCHILD,
    PICTURE,
    SOURCE,
    URL,
    apply,
    copied_by_codex,
    done,
    numbered,
    place,
    refused,
    state_of,
    turn,
)


def test_a_fork_that_codex_copied_refers_to_its_source_and_keeps_its_own_lines(tmp_path: Path) -> None:
    own = turn("c")
    place(tmp_path, b.THREAD, SOURCE)
    child = place(tmp_path, CHILD, copied_by_codex(SOURCE, own))
    (step,) = apply(tmp_path)
    head, *rest = child.read_bytes().splitlines(keepends=True)
    assert b"".join(rest) == own
    assert json.loads(head)["payload"]["history_base"] == {"thread_id": b.THREAD, "end_byte_offset": len(SOURCE)}
    assert (step.action, step.after_bytes) == ("refer", len(child.read_bytes()))
    assert texts(rollout.reconstruct(child)) == ["a?", "a!", "b?", "b!", "c?", "c!"]


def test_the_source_may_have_grown_or_the_fork_have_been_taken_earlier(tmp_path: Path) -> None:
    place(tmp_path, b.THREAD, SOURCE + log(b.compacted([])) + turn("later"))
    child = place(tmp_path, CHILD, copied_by_codex(SOURCE[: -len(turn("b"))], turn("c")))
    assert done(apply(tmp_path)) == [("refer", "0002")]
    assert texts(rollout.reconstruct(child)) == ["a?", "a!", "c?", "c!"]


def test_forks_of_forks_refer_to_each_other_whether_their_source_was_done_before_or_not(tmp_path: Path) -> None:
    first = copied_by_codex(SOURCE, turn("c"))
    second = copied_by_codex(first, turn("d"), GRANDCHILD, CHILD)
    for home, one_by_one in ((tmp_path / "at once", False), (tmp_path / "one by one", True)):
        place(home, b.THREAD, SOURCE)
        child, grandchild = place(home, CHILD, first), place(home, GRANDCHILD, second)
        if one_by_one:
            apply(home, child)
        assert ("refer", "0003") in done(apply(home))
        assert texts(rollout.reconstruct(grandchild)) == ["a?", "a!", "b?", "b!", "c?", "c!", "d?", "d!"]
        base = json.loads(grandchild.read_bytes().split(b"\n")[0])["payload"]["history_base"]
        assert base == {"thread_id": CHILD, "end_byte_offset": len(child.read_bytes())}


def test_a_copy_that_this_library_made_refers_too_though_marks_of_batches_went(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    with a_log(store) as source:
        take_turn(source, "q1")
        source.compact([b.user_item("short")])
        with source.fork(copy=True) as child:
            take_turn(child, "own")
    assert b'"batch"' in source.path.read_bytes()
    (step,) = apply(tmp_path)
    assert (step.action, step.path) == ("refer", child.path)
    with store.open(child.path) as log_again:
        take_turn(log_again, "more", context("m2"))
    assert texts(rollout.reconstruct(child.path))[-2:] == ["more", "answer to more"]


def paginated(own: Sequence[bytes], first: int = 3) -> tuple[bytes, bytes]:
    """A source with ordinals, and a copy of it with lines of its own that are numbered from `first` on."""
    source = numbered(b.session_meta(history_mode="paginated"), b.user_message("q"), b.event("x"))
    return source, log(b.session_meta(CHILD, forked_from_id=b.THREAD)) + source + numbered(*own, first=first)


def test_a_fork_of_a_paginated_source_is_one_that_codex_goes_on_with(tmp_path: Path) -> None:
    source, copy = paginated([b.event("y"), b.event("z")])
    place(tmp_path, b.THREAD, source)
    child = place(tmp_path, CHILD, copy)
    assert done(apply(tmp_path, legacy_forks=False, event_images=False)) == [("refer", "0002")]
    head, *own = map(json.loads, child.read_bytes().splitlines())
    base = {"thread_id": b.THREAD, "end_ordinal_exclusive": 3, "end_byte_offset": len(source)}
    assert (head["payload"]["history_base"], head["payload"]["history_mode"]) == (base, "paginated")
    assert ["ordinal" in head, *(line["ordinal"] for line in own)] == [False, 3, 4]


def test_a_fork_without_a_line_of_its_own_gets_the_next_ordinal(tmp_path: Path) -> None:
    source, copy = paginated([])
    place(tmp_path, b.THREAD, source)
    child = place(tmp_path, CHILD, copy)
    apply(tmp_path, legacy_forks=False)
    (head,) = map(json.loads, child.read_bytes().splitlines())
    assert list(head)[:2] == ["timestamp", "ordinal"]
    assert head["ordinal"] == 3


def test_a_fork_that_is_numbered_otherwise_is_left_alone(tmp_path: Path) -> None:
    source, copy = paginated([b.event("y")], first=7)
    place(tmp_path, b.THREAD, source)
    assert "not numbered on" in refused(tmp_path, place(tmp_path, CHILD, copy))


def test_a_fork_that_codex_would_no_longer_resume_is_made_only_when_asked_for(tmp_path: Path) -> None:
    place(tmp_path, b.THREAD, SOURCE)
    child = place(tmp_path, CHILD, copied_by_codex(SOURCE))
    assert "Codex would no longer" in refused(tmp_path, child, legacy_forks=False)
    assert Store(tmp_path).vacuum().saved_bytes == 0


def test_detach_makes_a_copy_of_it_again(tmp_path: Path) -> None:
    place(tmp_path, b.THREAD, SOURCE)
    child = place(tmp_path, CHILD, copied_by_codex(SOURCE, turn("c")))
    before = state_of(child)
    apply(tmp_path)
    Store(tmp_path).detach(child)
    assert child.read_bytes().endswith(SOURCE + turn("c"))
    assert state_of(child) == before


@pytest.mark.parametrize(
    "child",
    [
        copied_by_codex(turn("z")),
        copied_by_codex(SOURCE, of=GRANDCHILD),
        log(b.session_meta(CHILD)) + SOURCE,
        log(b.session_meta(CHILD, forked_from_id=b.THREAD), b.session_meta(GRANDCHILD)) + SOURCE,
        log(b.event("x"), b.session_meta(CHILD, forked_from_id=b.THREAD)) + SOURCE,
    ],
    ids=["other lines", "no source", "no fork", "a meta of another thread", "a meta that is not first"],
)
def test_what_is_no_copy_of_its_source_is_left_alone(tmp_path: Path, child: bytes) -> None:
    place(tmp_path, b.THREAD, SOURCE)
    place(tmp_path, CHILD, child)
    assert apply(tmp_path) == []


def test_copies_within_the_source_and_its_fork_both_go_in_one_run(tmp_path: Path) -> None:
    part = log(b.started("p"), b.line("response_item", b.user_item("see") | {"content": [PICTURE]}))
    told = log(b.event("user_message", message="q", images=[URL]), b.token_count(1), b.token_count(1))
    source = log(b.session_meta()) + part + told + turn("a")
    path, child = place(tmp_path, b.THREAD, source), place(tmp_path, CHILD, copied_by_codex(source, told + turn("b")))
    assert done(apply(tmp_path)) == [("thin", "0001"), ("refer", "0002"), ("thin", "0002")]
    assert path.read_bytes().count(URL.encode()) == 1
    assert child.read_bytes().count(b"token_count") == 1


def test_of_a_copy_that_stays_one_only_its_own_lines_are_thinned(tmp_path: Path) -> None:
    doubled = log(b.token_count(1), b.token_count(1))
    source = SOURCE + doubled + turn("c")
    place(tmp_path, b.THREAD, source)
    child = place(tmp_path, CHILD, copied_by_codex(source, turn("d") + doubled))
    assert done(apply(tmp_path, legacy_forks=False)) == [("thin", "0001"), ("thin", "0002")]
    assert child.read_bytes() == copied_by_codex(source, turn("d") + log(b.token_count(1)))
    assert done(apply(tmp_path)) == [("refer", "0002")]
