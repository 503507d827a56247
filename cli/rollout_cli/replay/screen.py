"""A terminal as a screen: keys that come one by one, and rows that are drawn in place.

Every text passes `printable`, as everywhere. The terminal is given back as it was, whatever happens: lines, cursor,
what stood on it. Where a row is drawn is always said, and lines do not wrap, so that a character that the terminal
draws wider or narrower than was thought moves nothing but its own row.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from rich.cells import cell_len, set_cell_size

from rollout_cli.printable import printable
from rollout_cli.replay.page import FRAME_ROWS, page
from rollout_cli.replay.player import Player
from rollout_cli.terminal import Line, OutputClosed

_WORK_S = 0.05
"""How long is worked before a key is looked for again."""
_ESCAPE_S = 0.05
"""How long the rest of a key's escape sequence may take."""
_KEY_BYTES = 1024
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "reverse": "7", "strike": "9"}
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
"""The codes of rich's styles, as far as they are used here: its console takes long to import for a first screen."""
_NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1bOH": "home",
    "\x1bOF": "end",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
    "\x03": "interrupt",
    "\x04": "interrupt",
    "": "interrupt",
}


def show(player: Player) -> None:
    """Run a replay on the terminal, until it is quit."""
    with _terminal() as woken:
        keys = _Keys(sys.stdin.fileno(), woken)
        shown: tuple[str, ...] | None = None
        size = shutil.get_terminal_size()
        while not player.is_done:
            before, size = size, shutil.get_terminal_size()
            shown = _draw(player, size, shown if size == before else None)
            wait = 0.0 if player.is_busy else player.wait_seconds(time.monotonic())
            until = time.monotonic() + _WORK_S
            while player.is_busy and time.monotonic() < until:
                player.work()
            for key in keys.read(wait):
                player.press(key)
            player.tick(time.monotonic())


class _Keys:
    """Keys as they are pressed. A byte that can be read from `woken` says that a signal has come."""

    def __init__(self, descriptor: int, woken: int) -> None:
        self._descriptor, self._woken = descriptor, woken
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def read(self, wait_seconds: float | None) -> list[str]:
        """What was pressed, waiting so long for the first (None: for ever; a signal ends it, too)."""
        ready = select.select([self._descriptor, self._woken], [], [], wait_seconds)[0]
        if self._woken in ready:
            os.read(self._woken, _KEY_BYTES)
        if self._descriptor not in ready:
            return []
        try:
            data = os.read(self._descriptor, _KEY_BYTES)
            if data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([self._descriptor], [], [], _ESCAPE_S)[0]:
                data += os.read(self._descriptor, _KEY_BYTES)
        except OSError:
            return ["interrupt"]
        return list(split_keys(self._decoder.decode(data))) if data else ["interrupt"]  # the terminal has gone


def split_keys(text: str) -> Iterator[str]:
    """The names of the keys that sent a text; what no key sends is left out."""
    at = 0
    while at < len(text):
        if text[at] == "\x1b" and at + 1 < len(text) and text[at + 1] in "[O":
            end = at + 2
            while end < len(text) and text[end] in "0123456789;?":
                end += 1
            sequence, at = text[at : end + 1], end + 1
            if sequence in _NAMES:
                yield _NAMES[sequence]
            continue
        key, at = text[at], at + 1
        if key in _NAMES:
            yield _NAMES[key]
        elif key.isprintable():
            yield key


def _draw(player: Player, size: tuple[int, int], shown: tuple[str, ...] | None) -> tuple[str, ...]:
    """Draw the rows that differ from what is shown (None: nothing of it can be relied on)."""
    columns, lines = size
    player.fit(max(lines - FRAME_ROWS, 1))
    rows = render(page(player, columns, lines), columns)
    before = shown or ()
    pieces = [
        f"\x1b[{i + 1};1H\x1b[0m\x1b[2K{row}\x1b[0m"
        for i, row in enumerate(rows)
        if i >= len(before) or before[i] != row
    ]
    if shown is None:
        pieces.insert(0, "\x1b[2J")
    _write("".join(pieces))
    return rows


def render(rows: Sequence[Line], columns: int) -> tuple[str, ...]:
    """Rows with the codes of their styles, each cut to so many columns."""
    codes = _ATTRIBUTES if os.environ.get("NO_COLOR") else _ATTRIBUTES | _COLOURS
    return tuple(_render_row(row, columns, codes) for row in rows)


def _render_row(row: Line, columns: int, codes: Mapping[str, str]) -> str:
    spans = [(printable(span), "") if isinstance(span, str) else (printable(span[0]), span[1]) for span in row]
    whole = "".join(text for text, _ in spans)
    shown = whole if cell_len(whole) <= columns else f"{set_cell_size(whole, columns - 1)}…"
    pieces, at = [], 0
    for text, style in spans:
        part, at = shown[at : at + len(text)], at + len(text)
        code = ";".join(codes[word] for word in style.split() if word in codes)
        pieces.append(f"\x1b[{code}m{part}\x1b[0m" if code and part else part)
    return "".join(pieces)


def _write(text: str) -> None:
    if not text:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        raise OutputClosed from None


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """A terminal that hands over each key, and the other of its two screens; gives what tells of signals."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    with contextlib.ExitStack() as restored:
        restored.callback(os.close, woken)
        restored.callback(os.close, waker)
        for number, handler in ((signal.SIGWINCH, _pass_over), (signal.SIGTERM, _stop), (signal.SIGHUP, _stop)):
            if signal.getsignal(number) is not signal.SIG_IGN:  # which whoever started this has asked for
                restored.callback(signal.signal, number, signal.signal(number, handler))
        restored.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(waker, warn_on_full_buffer=False))
        restored.callback(_leave, descriptor, before)
        tty.setraw(descriptor)
        _write(_ENTER)
        yield woken


def _leave(descriptor: int, before: list[int | list[bytes | int]]) -> None:
    with contextlib.suppress(termios.error):
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    with contextlib.suppress(OutputClosed, ValueError):
        _write(_LEAVE)


def _pass_over(number: int, frame: FrameType | None) -> None:
    """What waits for a key wakes up, and draws anew."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
