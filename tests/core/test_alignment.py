"""Alignment: what becomes of each element, and that what is kept is as much as there can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.session.difference import DiffRun, align
from tests.steps import count_steps, growth_of

words = st.lists(st.sampled_from("abcd"), max_size=12).map("".join)
distinct = st.permutations("abcdefgh").flatmap(lambda found: st.integers(0, 8).map(lambda n: "".join(found[:n])))


def told(before: str, after: str) -> str:
    """The runs as one text: `=` kept, `-` gone, `+` added."""
    signs = {"kept": "=", "gone": "-", "added": "+"}
    return " ".join(
        signs[run.change] + (after[run.after :] if run.change == "added" else before[run.before :])[: run.count]
        for run in align(before, after)
    )


@pytest.mark.parametrize(
    ("before", "after", "runs"),
    [
        ("", "", ""),
        ("abc", "abc", "=abc"),
        ("abc", "abcde", "=abc +de"),
        ("abcde", "abc", "=abc -de"),
        ("abc", "xbz", "-a +x =b -c +z"),
        ("abcd", "sx", "-abcd +sx"),
        ("abcd", "ad", "=a -bc =d"),
        ("ad", "abcd", "=a +bc =d"),
        ("abcq", "axcq", "=a -b +x =cq"),
        ("ab", "ba", "-a =b +a"),
        ("xabcx", "yaby", "-x +y =ab -cx +y"),
    ],
)
def test_what_went_stands_ahead_of_what_came_in_its_place(before: str, after: str, runs: str) -> None:
    assert told(before, after) == runs


@given(words, words)
def test_the_runs_make_the_one_sequence_of_the_other(before: str, after: str) -> None:
    old = new = 0
    made = ""
    last = None
    for run in align(before, after):
        assert (run.before, run.after) == (old, new)
        assert run.count > 0
        assert run.change != last
        last = run.change
        if run.change != "added":
            old += run.count
        if run.change != "gone":
            made += after[new : new + run.count]
            new += run.count
        if run.change == "kept":
            assert before[run.before : old] == after[run.after : new]
    assert (old, made) == (len(before), after)


def longest(before: str, after: str) -> int:
    """The length of a longest common subsequence, found the slow way."""
    rows = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, one in enumerate(before):
        for j, other in enumerate(after):
            rows[i + 1][j + 1] = rows[i][j] + 1 if one == other else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


@given(distinct, distinct)
def test_of_what_stands_once_as_much_is_kept_as_can_be(before: str, after: str) -> None:
    kept = sum(run.count for run in align(before, after) if run.change == "kept")
    assert kept == longest(before, after)


@given(words)
def test_what_is_the_same_is_kept_whole(word: str) -> None:
    assert align(word, word) == ([DiffRun("kept", 0, 0, len(word))] if word else [])


def test_long_sequences_of_the_same_few_elements_take_no_square_of_steps() -> None:
    def steps_at(size: int) -> int:
        before, after = ["go on", "done"] * (5 * size), ["done", "ok", "go on"] * (3 * size)
        return count_steps(lambda: align(before, after))

    assert growth_of([steps_at(size) for size in (100, 200, 400)]) < 2.3
