"""Columns of a terminal: how wide a text is shown, texts cut or filled up to a width, previews, tables.

`columns` is the width of a terminal, or None where nothing has to be cut or left out.
A wide character takes two columns, a combining one none, and what is escaped takes the room of its escape.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rollout_cli.printable import printable
from rollout_cli.terminal import Line

NARROW_COLUMNS = 60
"""In a narrower terminal the columns of a table stand closer together."""
PREVIEW_CHARS = 1000
"""What one line shows of a text where no terminal asks for less."""
LABEL_CHARS = 40
_GAPS = re.compile(r"[ \t\n]+")


class Column(NamedTuple):
    """A column of a table: its heading and width. One of no width is not shown, nor where `least_columns` are more."""

    name: str
    columns: int
    is_number: bool = False
    least_columns: int = 0


class Table:
    """Columns side by side and, behind them, one for texts of any length. `room` is how wide that can be."""

    def __init__(self, parts: Sequence[Column], last: str, columns: int | None) -> None:
        self._names = [*(part.name for part in parts), last]
        room = sys.maxsize if columns is None else columns
        self._shown = [(i, part) for i, part in enumerate(parts) if part.columns and part.least_columns <= room]
        self._gap = "  " if columns is None or columns >= NARROW_COLUMNS else " "
        used = sum(part.columns + len(self._gap) for _, part in self._shown)
        self.room = None if columns is None else max(columns - used, 0)

    def heading(self) -> Line:
        return self.row(self._names, "bold")

    def row(self, cells: Sequence[str], style: str = "", **styles: str) -> Line:
        """A text for each column, also for those that are not shown, and for the last; `styles` by column."""
        spans: list[tuple[str, str]] = []
        for i, part in self._shown:
            text = cells[i] if self.room is None else cut(cells[i], part.columns)
            filled = fill(text, part.columns, right=part.is_number) + self._gap
            spans.append((filled, styles.get(part.name, style)))
        last = cells[-1] if self.room is None else cut(cells[-1], self.room)
        return (*spans, (last, styles.get(self._names[-1], style)))


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    shown = printable(text)
    if shown.isascii():
        return len(shown)
    from rich.cells import cell_len

    return cell_len(shown)


def fill(text: str, columns: int, *, right: bool = False) -> str:
    """The text made printable, with spaces up to so many columns; one that is wider is not cut."""
    shown = printable(text)
    blank = " " * (columns - width(shown))
    return blank + shown if right else shown + blank


def cut(text: str, columns: int) -> str:
    """The text made printable, or as much of its beginning as there is room for."""
    shown = printable(text)
    return _longest(shown, columns, (f"{shown[:n]}…" for n in range(columns - 1, -1, -1)))


def cut_front(text: str, columns: int) -> str:
    """The text made printable, or as much of its end as there is room for."""
    shown = printable(text)
    return _longest(shown, columns, (f"…{shown[max(len(shown) - n, 0) :]}" for n in range(columns - 1, -1, -1)))


def _longest(shown: str, columns: int, shorter: Iterator[str]) -> str:
    """The text, or the first of the shorter ones that there is room for."""
    return shown if width(shown) <= columns else next((each for each in shorter if width(each) <= columns), "")


def preview(text: str, columns: int | None) -> str:
    """The beginning of a text on one line, and how much there is of it if that is more."""
    limit = PREVIEW_CHARS if columns is None else columns
    folded = _GAPS.sub(" ", text[: 2 * limit].replace("\r\n", "\n")).strip(" ")
    if len(text) <= 2 * limit and len(folded) <= limit:
        return folded
    return f"{folded[:limit]}… ({len(text):,} characters)"


def id_columns(columns: int | None) -> int:
    """How wide a column of ids is."""
    return 36 if columns is None or columns >= 140 else 9


def short_id(name: str, columns: int | None) -> str:
    """A whole id where there is room, else its end: ids of one hour begin alike."""
    return name if len(name) <= id_columns(columns) or columns is None else f"…{name[1 - id_columns(columns) :]}"
