"""What a search asks for, and where a text has it.

A query is words that must all occur: `fix parser`; `"two words"` in quotes stand side by side; `pars*` is the
beginning of a word. Everything else is literal, and what is neither letter nor digit only parts words: `foo.bar` is
`"foo bar"`. Case and the diacritics of Latin letters do not count. Texts of scripts that put no spaces between words
(Chinese, Japanese, and Korean) are searched by their characters.

Texts are folded here, before SQLite sees them, so that an answer does not depend on the Unicode tables of an SQLite.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import unicodedata

from rollout.errors import UsageError
from rollout.limits import QUERY_CHARACTERS, QUERY_WORDS, SNIPPET_CHARACTERS

_MARK = "\u0300"  # stands for any combining mark in a folded text
_SPACELESS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_LETTER = f"[^\\W_{_SPACELESS}]"
_CHARACTER = f"[{_SPACELESS}]"
_TOKEN = f"[{_SPACELESS}]|{_LETTER}(?:{_LETTER}|{_MARK})*"
_WORD = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_LEAD_CHARACTERS = 60
_ELLIPSIS = "…"


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled at its first use: classes of so many characters take milliseconds, and most programs search nothing."""
    return re.compile(pattern)


class _Folding(dict[int, str]):
    """The folded form of a character, which is always one character: what is neither letter nor digit is a space."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if 0x300 <= code < 0x370:
            folded = _MARK
        elif not char.isalnum():
            folded = char if code < 128 else " "
        else:
            if code < 0x250 or 0x1E00 <= code < 0x1F00:
                char = unicodedata.normalize("NFD", char)[0]
            folded = char.lower() if len(char.lower()) == 1 else char
        self[code] = folded
        return folded


_FOLDING = _Folding()


def fold(text: str) -> str:
    """The text without case and diacritics, character by character: offsets stay."""
    return text.replace("\0", " ").lower() if text.isascii() else text.translate(_FOLDING)


def indexed(text: str) -> str:
    """The text as it goes into the index: folded, and each character of a script without spaces as a word."""
    folded = fold(text)
    return folded if text.isascii() else _compiled(_CHARACTER).sub(r" \g<0> ", folded.replace(_MARK, ""))


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """Phrases that must all occur: their words, folded, and whether the last one is a beginning."""

    phrases: tuple[tuple[tuple[str, ...], bool], ...]

    @property
    def match(self) -> str:
        """The expression for FTS5; holds nothing but letters, digits, quotes and stars."""
        return " AND ".join(f'"{" ".join(words)}"{"*" if begins else ""}' for words, begins in self.phrases)

    def matches(self, text: str) -> list[tuple[int, int]]:
        """Where the phrases stand in a text, in order, without overlaps; empty unless all of them occur."""
        folded = fold(text)
        found: list[tuple[int, int]] = []
        for words, begins in self.phrases:
            places = [match.span() for match in _pattern(words, begins).finditer(folded)]
            if not places:
                return []
            found += places
        kept: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if not kept or start >= kept[-1][1]:
                kept.append((start, end))
            else:
                kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        return kept


def parse(query: object) -> Query:
    """UsageError if there is nothing in it to search for, or too much."""
    if not isinstance(query, str) or len(query) > QUERY_CHARACTERS:
        raise UsageError(f"a query is a text of at most {QUERY_CHARACTERS} characters", remedy="search for less")
    phrases = []
    for found in _WORD.finditer(query):
        quoted, star, word = found.groups()
        text = word if quoted is None else quoted
        words = tuple(token.replace(_MARK, "") for token in _compiled(_TOKEN).findall(fold(text)))
        if words:
            phrases.append((words, text.endswith("*") if quoted is None else bool(star)))
    if not phrases:
        raise UsageError("a query needs a letter or a digit", remedy='give words, "phrases" or beginnings*')
    if sum(len(words) for words, _ in phrases) > QUERY_WORDS:
        raise UsageError(f"a query has at most {QUERY_WORDS} words", remedy="search for less")
    return Query(tuple(dict.fromkeys(phrases)))


def _pattern(words: tuple[str, ...], begins: bool) -> re.Pattern[str]:
    """Finds a phrase in a folded text, with the words parted as `indexed` parts them."""
    parts = []
    for i, word in enumerate(words):
        letters = "".join(re.escape(letter) + f"{_MARK}*+" for letter in word)
        if _compiled(_CHARACTER).match(word):
            parts.append(letters)
            continue
        behind = "" if begins and i == len(words) - 1 else f"(?!{_LETTER})"
        parts.append(f"(?<!{_LETTER})(?<!{_MARK}){letters}{behind}")
    return re.compile("[\\W_]*+".join(parts))


def snippet(text: str, matches: list[tuple[int, int]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The part of a text around its first match, white space as spaces, and the matches in it (start, end)."""
    begin = max(0, matches[0][0] - _LEAD_CHARACTERS) if matches else 0
    if begin and (gap := text.find(" ", begin, matches[0][0])) >= 0:
        begin = gap + 1
    end = min(len(text), begin + SNIPPET_CHARACTERS)
    front, back = _ELLIPSIS if begin else "", _ELLIPSIS if end < len(text) else ""
    shown = "".join(" " if char.isspace() else char for char in text[begin:end])
    shift = len(front) - begin
    inside = tuple((start + shift, min(stop, end) + shift) for start, stop in matches if begin <= start < end)
    return f"{front}{shown}{back}", inside
