"""The pictures of the README, drawn from what the program shows: `python docs/screenshot.py` writes them anew.

What is shown is a recorded session of `fixtures/cases`, in a known time zone, so a picture changes only when the
program does. The drawing is ours: text on a grid, which names no font that would have to be fetched.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text
from rollout_cli.app import run
from rollout_cli.replay.player import Player
from rollout_cli.replay.screen import FRAME_ROWS, page, render

import rollout

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs"
ROLLED_BACK = "fixtures/cases/o117_rollback_remote_over/rollout.jsonl"
DAMAGED = "fixtures/cases/hp_cmp_garbage_before/rollout.jsonl"
COLUMNS = 92
CELL, ROW, MARGIN, BAR = 8.4, 19, 18, 34
"""In pixels: how wide a column is, how high a row, the room around all of them, the bar of the window above."""
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
INK, PAPER, FRAME = "#d8dee9", "#1b1f27", "#2b313d"
INKS = ("#3b4252", "#e57474", "#8ccf7e", "#e5c76b", "#67b0e8", "#c47fd5", "#6cbfbf", "#e5e9f0")
"""The eight colours of a terminal, in their order."""


class Terminal(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show() -> list[str]:
    """A damaged session on a page."""
    out = Terminal(io.BytesIO(), encoding="utf-8", write_through=True)
    size = os.terminal_size((COLUMNS, 40))
    with mock.patch.object(sys, "stdout", out), mock.patch("shutil.get_terminal_size", return_value=size):
        assert run(["show", DAMAGED]) == 0
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode().splitlines()


def replay() -> list[str]:
    """The last screen of a session in which a compaction was taken back, stepped through."""
    rows = 24
    with rollout.replay(ROLLED_BACK) as playback:
        player = Player(playback)
        player.fit(rows - FRAME_ROWS)
        player.press("G")
        return list(render(page(player, COLUMNS, rows), COLUMNS))


PICTURES: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "replay": ("rollout replay", replay),
    "show": ("rollout show", show),
}


def draw(name: str) -> str:
    """The picture of that name as SVG."""
    title, view = PICTURES[name]
    changes = {"TERM": "xterm-256color", "COLORTERM": "", "TZ": "UTC0", "ROLLOUT_HOME": "/nonexistent"}
    with contextlib.ExitStack() as restored, mock.patch.dict(os.environ, changes), contextlib.chdir(ROOT):
        restored.callback(time.tzset)
        os.environ.pop("NO_COLOR", None)
        time.tzset()
        rows = view()
    return "\n".join(_picture(title, rows)) + "\n"


def _picture(title: str, rows: list[str]) -> Iterator[str]:
    width, height = round(2 * MARGIN + COLUMNS * CELL), BAR + len(rows) * ROW + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" font-size="14" fill="{INK}" role="img">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{width}" height="{height}" rx="9" fill="{PAPER}" stroke="{FRAME}"/>'
    for n, ink in enumerate((INKS[1], INKS[3], INKS[2])):
        yield f'<circle cx="{MARGIN + 4 + 18 * n}" cy="17" r="5.5" fill="{ink}"/>'
    yield f'<text x="{width / 2:g}" y="22" text-anchor="middle" fill-opacity="0.7">{escape(title)}</text>'
    console = Console(file=io.StringIO(), color_system="standard", force_terminal=True)
    for n, row in enumerate(rows):
        column = 0
        for segment in Text.from_ansi(row).render(console):
            yield from _span(segment.text, segment.style or Style(), column, BAR + n * ROW)
            column += cell_len(segment.text)
    yield "</svg>"


def _span(text: str, style: Style, column: int, top: int) -> Iterator[str]:
    x, length = f"{MARGIN + column * CELL:g}", f"{cell_len(text) * CELL:g}"
    ink, paper = _ink(style.color), None
    if style.reverse:
        ink, paper = PAPER, ink
    if paper is not None:
        yield f'<rect x="{x}" y="{top}" width="{length}" height="{ROW}" fill="{paper}" shape-rendering="crispEdges"/>'
    bare = text.strip()
    if not bare:
        return
    ahead = len(text) - len(text.lstrip())
    x, length = f"{MARGIN + (column + ahead) * CELL:g}", f"{cell_len(bare) * CELL:g}"
    marks = {
        "fill": ink if ink != INK else None,
        "font-weight": "bold" if style.bold else None,
        "font-style": "italic" if style.italic else None,
        "fill-opacity": "0.55" if style.dim else None,
        "text-decoration": "line-through" if style.strike else None,
    }
    told = "".join(f' {key}="{value}"' for key, value in marks.items() if value is not None)
    shown = escape(bare).replace(" ", "\u00a0")
    yield f'<text x="{x}" y="{top + 14}" textLength="{length}" lengthAdjust="spacingAndGlyphs"{told}>{shown}</text>'


def _ink(colour: Color | None) -> str:
    return INK if colour is None or colour.number is None else INKS[colour.number % len(INKS)]


if __name__ == "__main__":
    for name in PICTURES:
        FOLDER.joinpath(f"{name}.svg").write_text(draw(name), encoding="utf-8", newline="\n")
