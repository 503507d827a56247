"""The only place that prints, to a terminal, a pipe or a file.

Every text passes `printable`, every JSON byte `printable_json`, and none of it is ever read as markup.
A terminal gets colour (unless NO_COLOR) and lines that fit its width, at least 20 columns and at most 200; a pipe gets
neither. Rich is imported for a terminal only.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rollout_cli.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NARROWEST_COLUMNS, WIDEST_COLUMNS = 20, 200
LONG_WORK_BYTES, LONG_WORK_S = 50 * 1024 * 1024, 0.5
"""Reading so many bytes shows a progress bar, and work that is counted otherwise and takes so long."""

ProgressCallback = Callable[[int, int], None]
Span = str | tuple[str, str]
"""A piece of a line: text, or text and its rich style."""
Line = tuple[Span, ...]


class Wrapped(tuple[Span, ...]):
    """A line that is not cut where the terminal ends: it goes on below.

    It goes on behind its label: the first span, if that ends in a space and takes no more than half of the line.
    """


class Block(NamedTuple):
    """A text of several lines. It is indented, so that no line of data can pass for one of ours."""

    text: str
    style: str = ""
    indent_columns: int = 6


Row = Line | Wrapped | Block


def fact(label: str, *spans: Span, columns: int = 12, style: str = "bold") -> Wrapped:
    """A label of so many columns, and what there is to say under it."""
    return Wrapped(((f"{label:<{columns}}", style if label else ""), *spans))


class OutputClosed(Exception):
    """Whoever read the output has gone: there is nobody left to tell."""


class NoOutput(Exception):
    """Standard output was closed before the program began, or cannot be written."""


class Output:
    """Standard output. `columns` is the width of a terminal, None in a pipe, where nothing has to be cut."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise NoOutput("standard output is closed")
        self._file = sys.stdout
        if isinstance(self._file, io.TextIOWrapper):
            self._file.reconfigure(errors="backslashreplace")
        self.is_terminal = self._file.isatty()
        self.columns: int | None = None
        if self.is_terminal:
            self.columns = min(max(shutil.get_terminal_size().columns, NARROWEST_COLUMNS), WIDEST_COLUMNS)

    def print(self, rows: Iterable[Row]) -> None:
        """Print each row as it comes. On a terminal a line that is too long for it is cut, unless it is `Wrapped`."""
        for row in rows:
            if isinstance(row, Block):
                texts = printable(row.text, lines=True).split("\n")
                self.print(Wrapped((" " * row.indent_columns, (text, row.style))) for text in texts)
                continue
            with _writing():
                if self.columns is None:
                    self._file.write("".join(printable(text) for text, _ in _pairs(row)).rstrip() + "\n")
                    continue
                for line in self._fitted(row, self.columns):
                    self._console.print(line, soft_wrap=True)

    def print_json(self, pieces: Iterable[bytes]) -> None:
        """Print pieces of UTF-8 JSON, each of whole tokens, one behind the other, and a line end."""
        self.print_document(map(printable_json, itertools.chain(pieces, [b"\n"])))

    def print_document(self, pieces: Iterable[bytes]) -> int:
        """Print pieces of a document, in which everything that was recorded is printable already. How many bytes."""
        self._file.flush()
        size = 0
        for piece in pieces:
            with _writing():
                size += self._file.buffer.write(piece)
        with _writing():
            self._file.buffer.flush()
        return size

    def _fitted(self, row: Line, columns: int) -> Iterator[Text]:
        """The line cut where the terminal ends, or going on in the next one, indented as far as its label is wide."""
        if not isinstance(row, Wrapped):
            line = _styled(row)
            line.rstrip()
            line.truncate(columns, overflow="ellipsis")
            yield line
            return
        label = _styled(row[:1])
        is_label = len(row) > 1 and label.plain.endswith(" ") and label.cell_len <= columns // 2
        before, text = (label, _styled(row[1:])) if is_label else (_styled(()), _styled(row))
        for part in text.wrap(self._console, columns - before.cell_len):
            line = before + part
            line.rstrip()
            yield line
            before = _styled((" " * before.cell_len,))

    @functools.cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self._file, width=self.columns, highlight=False, markup=False, emoji=False)


def flush() -> None:
    """Hand everything printed to the operating system."""
    if sys.stdout is not None:
        with _writing():
            sys.stdout.flush()


def print_error(message: str, end: str = "\n") -> None:
    """Print one line on standard error, whatever the message holds; with another `end`, what it begins with."""
    if sys.stderr is None:
        return
    line = printable(message) + end
    with contextlib.suppress(OSError):
        if isinstance(sys.stderr, io.TextIOWrapper):
            sys.stderr.reconfigure(errors="backslashreplace")
        sys.stderr.write(line)
        sys.stderr.flush()


def abandon_output() -> None:
    """Let nothing more be written to a closed pipe, not by the interpreter at its end either."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


@contextlib.contextmanager
def progress(counted: str | None = None) -> Iterator[ProgressCallback | None]:
    """A function of (done, in all) that draws a bar on standard error, or None if that is no terminal.

    It takes bytes, unless it says what is `counted`. The bar appears once the work is long, and goes at the end of the
    block.
    """
    is_dumb = os.environ.get("TERM", "").lower() in {"dumb", "unknown"}  # cannot draw over what it has drawn
    if sys.stderr is None or not sys.stderr.isatty() or is_dumb:
        yield None
        return
    with contextlib.ExitStack() as shown:
        update: ProgressCallback | None = None
        begun = time.monotonic()

        def advance(done: int, total: int) -> None:
            nonlocal update
            is_long = total >= LONG_WORK_BYTES if counted is None else time.monotonic() - begun >= LONG_WORK_S
            if update is None and is_long:
                update = _start_bar(shown, total, counted)
            if update is not None:
                update(done, total)

        yield advance


def _start_bar(shown: contextlib.ExitStack, total: int, counted: str | None) -> ProgressCallback:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = shown.enter_context(
        Progress(
            BarColumn(),
            *([DownloadColumn(binary_units=True)] if counted is None else [MofNCompleteColumn(), TextColumn(counted)]),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
    )
    task = bar.add_task("", total=total)
    return lambda done, total: bar.update(task, completed=done, total=total)


def _styled(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*((printable(text), style) for text, style in _pairs(line)))


def _pairs(line: Line) -> Iterator[tuple[str, str]]:
    """Each text and its style."""
    return ((span, "") if isinstance(span, str) else span for span in line)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:
        raise NoOutput(f"standard output cannot be written ({error.strerror or error})") from error
