"""Columns of a terminal: how wide a text is shown, texts cut or filled up to a width, previews, tables.

`columns` is the width of a terminal, or None where nothing has to be cut or left out.

A wide character takes two columns, a combining one none, and what is escaped takes the room of its escape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    """A column of a table: its heading and width. A terminal with less than `least_columns` does not show it."""

    name: str
    columns: int
    is_number: bool = False
    least_columns: int = 0


class Table:
    """Columns side by side and, behind them, one for texts of any length. `room` is how wide that can be."""

    def __init__(self, parts: Sequence[Column], last: str, columns: int | None) -> None:
        self._parts, self._last, self._is_cut = parts, last, columns is not None
        self._shown = [i for i, part in enumerate(parts) if columns is None or part.least_columns <= columns]
        self._gap = "  " if columns is None or columns >= NARROW_COLUMNS else " "
        used = sum(parts[i].columns + len(self._gap) for i in self._shown)
        self.room = None if columns is None else max(columns - used, 0)

    def heading(self) -> Line:
        return self.row([*(part.name for part in self._parts), self._last], "bold")

    def row(self, cells: Sequence[str], style: str = "", **styles: str) -> Line:
        """A text for each column, also for those that are not shown, and for the last; `styles` by column."""
        found: list[tuple[str, str]] = []
        text, running = "", style
        for i in self._shown:
            part, cell = self._parts[i], cells[i]
            own = styles.get(part.name, style) if cell else style
            if own != running:
                found.append((text, running))
                text, running = "", own
            text += fill(cut(cell, part.columns) if self._is_cut else cell, part.columns, right=part.is_number)
            text += self._gap
        last = cells[-1] if self.room is None else cut(cells[-1], self.room)
        own = styles.get(self._last, style)
        return (*found, (text + last, own)) if own == running else (*found, (text, running), (last, own))


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
    if width(shown) <= columns:
        return shown
    shown = shown[: max(columns - 1, 0)]
    while shown and width(f"{shown}…") > columns:
        shown = shown[:-1]
    return f"{shown}…"[:columns]


def cut_front(text: str, columns: int) -> str:
    """The text made printable, or as much of its end as there is room for."""
    shown = printable(text)
    if width(shown) <= columns:
        return shown
    shown = shown[max(len(shown) - columns + 1, 0) :]
    while shown and width(f"…{shown}") > columns:
        shown = shown[1:]
    return f"…{shown}"[:columns]


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
