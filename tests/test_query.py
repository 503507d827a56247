"""Words, phrases and beginnings; what a hostile query does; how a snippet is cut."""

from __future__ import annotations

import sqlite3
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout import Store, UsageError
from rollout.home.query import Query, fold, indexed, parse
from tests import builders as b
from tests.homes import put
from tests.searching import hits, marked


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home)


TEXT = "Fix the foo.bar parser_test in Zürich — naïve cafe\u0301, 全文検索は便利です, 검색을 한다 NEAR x:y"


@pytest.mark.parametrize(
    ("query", "expected_marks"),
    [
        ("fix", "[Fix]"),
        ("FIX parser", "[Fix] the foo.bar [parser]_test"),
        ('"fix the"', "[Fix the]"),
        ("fo*", "[fo]o"),
        ("foo.bar", "[foo.bar]"),
        ('"bar parser test"', "[bar parser_test]"),
        ("zurich", "[Zürich]"),
        ("ZÜR*", "[Zür]ich"),
        ("NAIVE", "[naïve]"),
        ("café", "[cafe\u0301]"),
        ("検索", "[検索]"),
        ("検索 便利", "[検索]は[便利]"),
        ("검색", "[검색]을"),
        ("NEAR", "[NEAR]"),
        ("x:y", "[x:y]"),
        ("-fix", "[Fix]"),
        ("^fix", "[Fix]"),
        ("fix\0the", "[Fix the]"),
        ("(fix)", "[Fix]"),
        ('fix"', "[Fix]"),
        ("'fix';--", "[Fix]"),
    ],
)
def test_words_phrases_and_beginnings_are_found(home: Path, store: Store, query: str, expected_marks: str) -> None:
    put(home, 1, b.user(TEXT))
    (hit,) = hits(store, query)
    assert expected_marks in marked(hit)
    assert hit.snippet.startswith("…") or TEXT.startswith(hit.snippet[:20])


@pytest.mark.parametrize(
    "query", ["fi", '"the fix"', "foo AND bar2", "parsertest", "便利検索", "fix OR nothing", "user:fix", "fix NOT the2"]
)
def test_what_does_not_stand_there_is_not_found(home: Path, store: Store, query: str) -> None:
    put(home, 1, b.user(TEXT))
    assert not hits(store, query)


HOSTILE = [
    'a"b',
    "NEAR(a b, 2)",
    "{user}: a",
    "a*b*",
    '"""',
    "a AND",
    "NOT a",
    "a\0b",
    "\ud800a",
    "a;DROP TABLE texts",
    "%_",
    "é\u0301\u0301a",
    "a" * 9999,
    "\U0001f600a",
    "𠀀",
    '"' * 500 + "a",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_is_an_error_of_the_database(home: Path, store: Store, query: str) -> None:
    put(home, 1, b.user("a b"))
    try:
        store.search(query)
    except UsageError:
        assert not any(char.isalnum() for char in query)


@settings(max_examples=200)
@given(
    st.text(st.one_of(st.sampled_from(string.punctuation + "ab字 é\u0300"), st.characters()), max_size=20),
    st.text(max_size=30),
)
def test_the_index_and_the_matcher_agree_on_any_text(query: str, text: str) -> None:
    try:
        asked: Query = parse(query)
    except UsageError:
        return
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x, content='', tokenize='unicode61 remove_diacritics 0')")
    db.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(map(indexed, (text, query, query + text))))
    found = {row for (row,) in db.execute("SELECT rowid FROM t WHERE t MATCH ?", (asked.match,))}
    db.close()
    matched = {i for i, each in enumerate((text, query, query + text)) if asked.matches(each)}
    odd = any(char.isalnum() and not sqlite_knows(char) for char in query + text)
    assert found == matched or odd


def sqlite_knows(char: str) -> bool:
    """Whether SQLite's tables have the character as a letter or digit as well."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='unicode61 remove_diacritics 0')")
    db.execute("INSERT INTO t VALUES (?)", (indexed(f"a{char}b"),))
    knows = not db.execute("SELECT 1 FROM t WHERE t MATCH '\"a\"'").fetchall()
    db.close()
    return knows or indexed(char) != fold(char)


def test_a_snippet_is_a_short_part_of_the_text_around_its_first_match(home: Path, store: Store) -> None:
    long = "word " * 1000
    put(home, 1, b.user(long + "needle\tand\nmore " + long + "needle"))
    (hit,) = hits(store, "needle")
    assert len(hit.snippet) <= 202
    assert hit.snippet.startswith("…word ")
    assert hit.snippet.endswith("…")
    assert "needle and more" in hit.snippet
    assert [hit.snippet[start:end] for start, end in hit.matches] == ["needle"]
