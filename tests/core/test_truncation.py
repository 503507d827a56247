"""Cuts in the middle: what stays of a text, and what the marker says of the rest."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rollout.items.truncation import Mode, Truncation, cut_text, cut_texts

MARKER = re.compile(r"…(\d+) (chars|tokens) truncated…")
texts = st.text(st.sampled_from("aé漢𝄞\ud800"), max_size=40)
modes: st.SearchStrategy[Mode] = st.sampled_from(["bytes", "tokens"])


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def test_fifty_thousand_bytes_cut_to_twelve_thousand_keep_six_thousand_at_either_end() -> None:
    text = "a" * 20_000 + "b" * 30_000
    assert cut_text(text, 12_000, "bytes") == "a" * 6000 + "…38000 chars truncated…" + "b" * 6000


def test_in_tokens_the_marker_counts_four_bytes_a_token_rounded_up() -> None:
    assert cut_text("x" * 101, 40, "tokens") == "x" * 20 + "…16 tokens truncated…" + "x" * 20
    assert cut_text("x" * 100, 40, "tokens") == "x" * 20 + "…15 tokens truncated…" + "x" * 20
    assert cut_text("x" * 41, 40, "tokens") == "x" * 20 + "…1 tokens truncated…" + "x" * 20


def test_of_an_odd_budget_the_end_gets_the_byte_more() -> None:
    assert cut_text("abcdefgh", 5, "bytes") == "ab…3 chars truncated…fgh"


@pytest.mark.parametrize(("mode", "limit", "budget"), [("bytes", 10_000, 10_000), ("tokens", 2500, 10_000)])
def test_a_policy_is_a_budget_in_bytes(mode: Mode, limit: int, budget: int) -> None:
    assert Truncation(mode, limit).budget_bytes == budget


@pytest.mark.parametrize("mode", ["bytes", "tokens"])
def test_a_text_that_just_fits_is_not_cut(mode: Mode) -> None:
    assert cut_text("é" * 5, 10, mode) == "é" * 5
    assert cut_text("", 0, mode) == ""


@pytest.mark.parametrize(
    ("text", "budget", "cut"),
    [
        ("é" * 10, 10, "éé…6 chars truncated…éé"),  # both edges inside a character
        ("漢" * 10, 14, "漢漢…6 chars truncated…漢漢"),
        ("𝄞" * 4, 7, "…3 chars truncated…𝄞"),
        ("𝄞" * 4, 6, "…4 chars truncated…"),
    ],
)
def test_a_cut_through_a_character_moves_inward_and_counts_characters(text: str, budget: int, cut: str) -> None:
    assert cut_text(text, budget, "bytes") == cut


@pytest.mark.parametrize("mode", ["bytes", "tokens"])
def test_nothing_of_a_text_stays_where_the_budget_is_nothing(mode: Mode) -> None:
    assert MARKER.fullmatch(cut_text("abcd", 0, mode))


def test_several_texts_are_cut_as_one_and_stay_parts() -> None:
    assert cut_texts(["head", "x" * 90_000], 80_000, "tokens") == [
        "head",
        "x" * 39_996,
        "…2501 tokens truncated…",
        "x" * 40_000,
    ]
    assert cut_texts(["abc", "defgh", "ij"], 6, "bytes") == ["abc", "…4 chars truncated…", "h", "ij"]
    assert cut_texts(["abc", "", "def"], 6, "bytes") == ["abc", "", "def"]


@given(st.lists(texts, max_size=4), st.integers(0, 60), modes)
@example(["", "\ud800"], 0, "bytes")
@example(["", "é", ""], 1, "tokens")
def test_a_cut_keeps_the_two_ends_and_says_what_is_missing(parts: list[str], budget: int, mode: Mode) -> None:
    whole = "".join(parts)
    found = cut_texts(parts, budget, mode)
    if size(whole) <= budget:
        assert found == parts
        return
    (at,) = [i for i, part in enumerate(found) if MARKER.fullmatch(part)]
    left, right = "".join(found[:at]), "".join(found[at + 1 :])
    assert whole.startswith(left)
    assert whole.endswith(right)
    assert budget // 2 - 3 <= size(left) <= budget // 2
    assert budget - budget // 2 - 3 <= size(right) <= budget - budget // 2
    assert all(found)
    matched = MARKER.fullmatch(found[at])
    assert matched is not None
    if mode == "bytes":
        assert int(matched[1]) == len(whole) - len(left) - len(right)
    else:
        assert int(matched[1]) == -((budget - size(whole)) // 4)
    assert cut_text(whole, budget, mode) == "".join(found)
