"""Texts are measured, cut and filled in columns of a terminal, whatever they hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rollout_cli.cells import Column, Table, cut, cut_front, fill, width
from rollout_cli.printable import printable

CHARS = "ab \u6f22\u5b57\U0001f469\u200d\U0001f4bb\U0001f3fd\u2764\ufe0f\u0301\u05e9\x1b\u202e\t"
texts = st.text(st.sampled_from(CHARS), max_size=30)
columns = st.integers(0, 24)


def test_a_width_is_that_of_what_is_shown() -> None:
    assert [width(each) for each in ("", "ab", "漢字", "e\u0301", "\x1b", "\u202e")] == [0, 2, 4, 1, 4, 6]


def test_a_text_keeps_its_beginning_or_its_end() -> None:
    assert [cut("漢字 ab", 4), cut("abc", 3), cut("abcd", 3), cut("abc", 0)] == ["漢…", "abc", "ab…", ""]
    assert [cut_front("/home/漢字", 5), cut_front("漢字漢", 5), cut_front("abc", 0)] == ["…漢字", "…字漢", ""]
    assert [fill("漢", 4), fill("漢", 4, right=True), fill("abc", 2)] == ["漢  ", "  漢", "abc"]


@given(text=texts, columns=columns)
def test_a_text_is_cut_only_where_it_has_to_be_and_is_never_wider(text: str, columns: int) -> None:
    for shown in (cut(text, columns), cut_front(text, columns)):
        assert width(shown) <= columns
        assert (shown == printable(text)) == (width(text) <= columns)


@given(cells=st.tuples(texts, texts, texts), columns=st.integers(20, 90))
def test_the_columns_of_a_table_stand_below_their_headings_on_any_terminal(
    cells: tuple[str, str, str], columns: int
) -> None:
    table = Table((Column("one", 6), Column("two", 4, is_number=True, least_columns=60)), "last", columns)
    heading, row = (
        [printable(span if isinstance(span, str) else span[0]) for span in line]
        for line in (table.heading(), table.row(cells, "dim", last="red"))
    )
    assert max(sum(map(cell_len, heading)), sum(map(cell_len, row))) <= columns
    assert sum(map(cell_len, row[:-1])) == (14 if columns >= 60 else 7)
