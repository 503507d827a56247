"""A program on a terminal: a pseudo-terminal of a given size, keys sent to it, and what stands on its screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cli import command, environment

PATIENCE_S = 20.0
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_ALLOWED = "HJKmhl"


class Screen:
    """What a program draws. It must say where each row is drawn, and use nothing but what it is known to use."""

    def __init__(self, child: int, terminal: int, rows: int) -> None:
        self.child, self.terminal = child, terminal
        self.rows = [""] * rows
        self.sequences: set[str] = set()
        self.code: int | None = None
        self._row = 0
        self._left = ""

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def wait_for(self, *wanted: str) -> str:
        """Read until all of it stands on the screen; 20 seconds are a hang."""
        until = time.monotonic() + PATIENCE_S
        while not all(each in self.text for each in wanted):
            assert time.monotonic() < until, f"{wanted} is not on the screen:\n{self.text}"
            assert self._read(0.2), f"it has ended without {wanted}:\n{self.text}"
        return self.text

    def wait_for_end(self) -> int:
        """Read until the program has ended; its exit code."""
        until = time.monotonic() + PATIENCE_S
        while self._read(0.2):
            assert time.monotonic() < until, f"it does not end:\n{self.text}"
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self.code

    def resize(self, columns: int, rows: int) -> None:
        self.rows = [""] * rows
        set_size(self.terminal, columns, rows)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # how the end of a pseudo-terminal shows
            return False
        self._take(self._left + data.decode(errors="surrogateescape"))
        return bool(data)

    def _take(self, text: str) -> None:
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    break
                self._obey(found[1], found[2])
                at = found.end()
            else:
                end = text.find("\x1b", at)
                end = len(text) if end < 0 else end
                if self._row < len(self.rows):
                    self.rows[self._row] += text[at:end]
                at = end
        self._left = text[at:]
        assert len(self._left) < 32, f"no sequence: {self._left[:80]!r}"

    def _obey(self, given: str, letter: str) -> None:
        assert letter in _ALLOWED, (given, letter)
        self.sequences.add(f"{given if letter in 'hl' else ''}{letter}")
        if letter == "H":
            self._row = int(given.split(";", maxsplit=1)[0] or 1) - 1
        elif letter == "J":
            self.rows = [""] * len(self.rows)
        elif letter == "K" and self._row < len(self.rows):
            self.rows[self._row] = ""


def set_size(terminal: int, columns: int, rows: int) -> None:
    """Change the size of a terminal, and tell the program."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextlib.contextmanager
def on_screen(*args: str | Path, columns: int = 80, rows: int = 24) -> Iterator[Screen]:
    """The program on a terminal of that size; ended behind the block if it has not ended."""
    words = command(*args)
    child, terminal = pty.fork()
    if child == 0:
        env = environment(TERM="xterm-256color", ROLLOUT_TRACEBACK="1")
        env = {key: value for key, value in env.items() if key not in {"COLUMNS", "LINES"}}
        os.execvpe(words[0], words, env)
    set_size(terminal, columns, rows)
    screen = Screen(child, terminal, rows)
    try:
        yield screen
    finally:
        if screen.code is None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(terminal)
