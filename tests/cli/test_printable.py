"""No character of a text can act on a terminal."""

from __future__ import annotations

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_cli.printable import printable, printable_json

FORBIDDEN = frozenset(
    chr(code)
    for code in [
        *range(0x20),
        *range(0x7F, 0xA0),
        0xAD,
        0x61C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xFFF9, 0xFFFC),
        *range(0xFFFE, 0x10000),
        *range(0xD800, 0xE000),
        *range(0xFDD0, 0xFDF0),
        *range(0x1FFFE, 0x20000),
        *range(0xE0000, 0xE1000),
        *range(0x10FFFE, 0x110000),
    ]
)
"""Written from the Unicode charts, not from the code."""
NASTY = st.text(
    st.one_of(st.sampled_from(sorted(FORBIDDEN)), st.characters(), st.sampled_from("a\u0301\ufe0f😀👩❤#\u20e3"))
)
ENCODABLE = st.text(
    st.one_of(st.sampled_from(sorted(FORBIDDEN - set(map(chr, range(0xD800, 0xE000))))), st.characters(codec="utf-8"))
)


def test_a_forbidden_character_is_shown_by_its_number() -> None:
    for char in FORBIDDEN - {"\t"}:
        code = ord(char)
        expected = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        assert printable(f"a{char}b") == f"a{expected}b"


@given(NASTY)
def test_nothing_that_is_printed_is_forbidden_but_a_joiner_between_pictures(text: str) -> None:
    shown = printable(text)
    for at, char in enumerate(shown):
        if char == "\u200d":
            assert unicodedata.category(shown[at + 1]) in {"So", "Sm", "Sk"}
            assert shown[at - 1] == "\ufe0f" or unicodedata.category(shown[at - 1]) in {"So", "Sm", "Sk"}
        else:
            assert char not in FORBIDDEN


@given(NASTY)
def test_line_ends_stay_where_lines_are_asked_for_and_only_there(text: str) -> None:
    assert printable(text, lines=True).count("\n") == text.count("\n")
    assert "\n" not in printable(text)


@given(
    st.text(
        st.characters(
            categories=["L", "N", "P", "S"], max_codepoint=0x10FF, exclude_characters="\u115f\u1160\u17b4\u17b5"
        )
    )
)
def test_letters_digits_and_signs_are_shown_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "picture",
    ["👩‍💻", "🏳️‍🌈", "👩🏽‍🚀", "❤️‍🔥", "1️⃣", "✔️", "naïve", "日本語", "שלום", "é", "👨‍👩‍👧‍👦", "©️"],
)
def test_pictures_and_scripts_stay_whole(picture: str) -> None:
    assert printable(picture) == picture


@pytest.mark.parametrize(
    "hidden",
    ["a\u200db", "👩\u200da", "\u200d👩", "👩\u200d\u200d👩", "a\ufe0f", "👩\ufe0f\ufe0f", "\ufe01", "x\U000e0101"],
)
def test_a_joiner_or_selector_outside_a_picture_is_shown(hidden: str) -> None:
    assert "\\" in printable(hidden)


def test_a_tab_becomes_spaces_up_to_the_next_stop() -> None:
    assert printable("a\tb\tc") == "a   b   c"


def test_a_tower_of_combining_marks_is_taken_apart() -> None:
    assert printable("e" + "\u0301" * 4) == "e" + "\u0301" * 4
    assert printable("e" + "\u0301" * 5) == "e" + "\\u0301" * 5


@given(st.recursive(ENCODABLE, lambda inner: st.lists(inner) | st.dictionaries(ENCODABLE, inner)))
def test_printable_json_is_the_same_value_without_a_forbidden_character(value: object) -> None:
    shown = printable_json(msgspec.json.encode(value))
    assert json.loads(shown) == value
    assert FORBIDDEN.isdisjoint(shown.decode())


def test_control_characters_between_json_tokens_become_spaces_but_line_ends_stay() -> None:
    assert printable_json(b'{"a":\r\n\t[1,\r2]}') == b'{"a": \n [1, 2]}'
    assert printable_json('["é",\n\r"\u202e"]'.encode()) == '["é",\n "\\u202e"]'.encode()


def test_integers_and_number_texts_in_json_are_left_alone() -> None:
    assert printable_json(b"[12345678901234567890123,1.10,1E5]") == b"[12345678901234567890123,1.10,1E5]"
