"""Text that cannot act on a terminal.

A character is *unsafe* if a terminal obeys it, shows nothing for it, or reorders other text by it: controls (C0, DEL,
C1), format characters (bidi marks, zero-width ones, tags), line and paragraph separators, surrogates, what Unicode has
not assigned, blank fillers and variation selectors. `printable` shows each as an escape (`\\x1b`, `\\u202e`,
`\\U000e0041`); `printable_json` writes it as a JSON escape, which leaves the value as it is.

Kept as they are: U+200D between two pictures, U+FE0E/F behind one, U+FE0F in a keycap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
_BLANK = frozenset(
    [
        *[0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0, 0xFFFC],
        *[*range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)],
    ]
)
"""Default-ignorable code points, and others without a glyph, whose category does not give them away."""
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{5,}")
"""Combining marks that fit any letter: five on one letter paint over the lines around it."""
_JOINERS = re.compile("[\u200d\ufe0e\ufe0f]")
_TAB_COLUMNS = 4
_TABLE_CHARS = 10_000


def is_harmless(chars: str) -> bool:
    """Whether every text of these characters, and of printable ASCII and line ends, is printable as it is."""
    return not _JOINERS.search(chars) and printable(chars) == chars


class _Escapes(dict[int, str]):
    """A table for `str.translate`, filled as characters come up."""

    def __missing__(self, code: int) -> str:
        is_unsafe = unicodedata.category(chr(code)) in _UNSAFE_CATEGORIES or code in _BLANK
        shown = self.escape(code) if is_unsafe else chr(code)
        if len(self) < _TABLE_CHARS:
            self[code] = shown
        return shown

    def escape(self, code: int) -> str:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _JsonEscapes(_Escapes):
    def escape(self, code: int) -> str:
        if code < 0x10000:
            return f"\\u{code:04x}"
        code -= 0x10000
        return f"\\u{0xD800 | code >> 10:04x}\\u{0xDC00 | code & 0x3FF:04x}"


_escapes = _Escapes()
_json_escapes = _JsonEscapes({0x0A: "\n"})
_BARE_CONTROLS = bytes(0x20 if code < 0x20 and code != 0x0A else code for code in range(256))


def printable(text: str, *, lines: bool = False) -> str:
    """The text with every unsafe character escaped; tabs become spaces. With `lines`, U+000A stays a line end."""
    if text.isascii() and text.isprintable():
        return text
    if "\t" in text:
        text = text.expandtabs(_TAB_COLUMNS)
    if lines and "\n" in text:
        return "\n".join(printable(line) for line in text.split("\n"))
    shown = "".join(_escape_around_joiners(text)) if _JOINERS.search(text) else text.translate(_escapes)
    return _MARKS.sub(lambda marks: "".join(map(_escapes.escape, map(ord, marks[0]))), shown)


def printable_json(encoded: bytes) -> bytes:
    """The same JSON value, its unsafe characters as `\\uXXXX`. `encoded` is strict JSON in UTF-8.

    Strict JSON has no control character inside a string: one that stands there is white space between tokens. It
    becomes a space, or stays if it is a line end.
    """
    encoded = encoded.translate(_BARE_CONTROLS)
    if encoded.isascii():
        return encoded.replace(b"\x7f", b"\\u007f")
    return encoded.decode().translate(_json_escapes).encode()


def _escape_around_joiners(text: str) -> Iterator[str]:
    """What `str.translate` cannot do: keep U+200D and U+FE0E/F where they make a picture out of their neighbours."""
    for at, char in enumerate(text):
        kept, before, after = False, text[at - 1 : at], text[at + 1 : at + 2]
        if char == "\u200d":
            kept = _is_picture(text[at - 2 : at - 1] if before == "\ufe0f" else before) and _is_picture(after)
        elif char in "\ufe0e\ufe0f":
            kept = _is_picture(before) or (before in {*"#*0123456789"} and after == "\u20e3")
        yield char if kept else _escapes[ord(char)]


def _is_picture(char: str) -> bool:
    """A symbol of its own that fonts draw as a picture, or the skin tone behind one."""
    return char >= "\u00a9" and char not in "\u2800\ufffc" and unicodedata.category(char) in {"So", "Sm", "Sk"}
