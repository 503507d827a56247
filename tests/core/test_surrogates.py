"""Halves of characters, in texts and in JSON: each lone one is U+FFFD, whole characters stay."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.format.strict_json import mend, mend_json, mend_text

HALF, OTHER = "\ud83d", "\ude00"
pieces = st.sampled_from(
    ["a", "é", "\U0001f600", "\ufffd", HALF, OTHER, "\udce9", "\\", "\\\\", "u", "d800", '"', "\n"]
)
texts = st.lists(pieces, max_size=12).map("".join)
values = st.recursive(
    texts | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def as_text(text: str) -> str:
    """What a decoder of UTF-16 makes of the same halves."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (os.fsdecode(b"caf\xe9"), "caf\ufffd"),
        (HALF, "\ufffd"),
        (OTHER + HALF, "\ufffd\ufffd"),
        (HALF + OTHER, "\U0001f600"),
        (HALF + HALF + OTHER + OTHER, "\ufffd\U0001f600\ufffd"),
        ("\U0001f600", "\U0001f600"),
        ("", ""),
    ],
)
def test_a_half_is_replaced_and_two_that_belong_together_are_one_character(text: str, expected: str) -> None:
    assert mend_text(text) == expected == as_text(text)
    assert json.loads(mend_json(json.dumps(text).encode())) == expected


@given(texts)
def test_texts_are_what_a_decoder_makes_of_their_halves(text: str) -> None:
    mended = mend_text(text)
    assert mended.encode().decode() == mended == as_text(text)
    assert mend_text(mended) is mended


@given(values, st.booleans())
def test_json_says_what_its_mended_value_says_and_is_as_long_as_before(value: Any, is_indented: bool) -> None:
    data = json.dumps(value, indent=1 if is_indented else None).encode()
    mended = mend_json(data)
    assert len(mended) == len(data)
    msgspec.json.decode(mended)  # which refuses halves
    assert json.loads(mended) == as_texts(json.loads(data, object_pairs_hook=as_pairs))


def as_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What a reader makes of the mended keys and texts."""
    return {as_text(key): as_texts(under) for key, under in pairs}


def as_texts(value: Any) -> Any:
    if isinstance(value, str):
        return as_text(value)
    return [as_texts(under) for under in value] if isinstance(value, list) else value


@given(values)
def test_a_value_keeps_its_shape_and_every_key_its_own_value(value: Any) -> None:
    mended = mend(value)
    msgspec.json.encode(mended)
    assert shape(mended) == shape(value)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [shape(under) for under in value.values()]
    return [shape(under) for under in value] if isinstance(value, list) else type(value)


def test_keys_that_would_be_the_same_are_told_apart_and_whole_ones_stay() -> None:
    value = {"a" + HALF: 1, "a" + OTHER: 2, "a\ufffd": 3, "b": 4}
    assert mend(value) == {"a\ufffd\ufffd": 1, "a\ufffd\ufffd\ufffd": 2, "a\ufffd": 3, "b": 4}


def test_json_inside_of_a_value_is_mended_too() -> None:
    mended = mend([msgspec.Raw(rb'{"\ud800":"\ud83d\ude00\\ud800"}')])
    assert msgspec.json.encode(mended) == rb'[{"\ufffd":"\ud83d\ude00\\ud800"}]'
