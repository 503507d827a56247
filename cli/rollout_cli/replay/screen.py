"""A replay on a terminal: what is to be seen as rows, the rows drawn in place, the keys that are pressed.

Every text passes `printable`, as everywhere. The terminal is given back as it was, whatever happens: lines, cursor,
what stood on it. Where a row is drawn is always said, and lines do not wrap, so that a character that the terminal
draws wider or narrower than was thought moves nothing but its own row.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

import rollout
from rollout_cli.cells import preview
from rollout_cli.printable import printable
from rollout_cli.replay.player import Player, Sheet
from rollout_cli.replay.steps import Clock, describe_step, row, style_of
from rollout_cli.terminal import Line, OutputClosed
from rollout_cli.units import duration, seconds_between

FRAME_ROWS = 3
"""The head, the state and the keys."""
_INDENT = 21
_KEYS = (
    *("n next", "p back", "t turn", "c compaction", "r rollback", "/ search", "enter text", "m model's view"),
    *("f unfold", "a all", "space play", "g first", "G last"),
)
_WORDS = re.compile(r"\S+|\s+")
_MOST_TEXT_CHARS = 4000
_MOST_SHEET_CHARS = 500_000

_WORK_S = 0.05
"""How long is worked before a key is looked for again, and how long the rest of a key's escape sequence may take."""
_LOOK_S = 0.25
"""How often it is looked whether the terminal has another size."""
_KEY_BYTES = 1024
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_ATTRIBUTES = {"bold": "1", "dim": "2", "italic": "3", "reverse": "7", "strike": "9"}
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36"}
"""The codes of rich's styles, as far as they are used here: its console takes long to import for a first screen."""
_KEY = re.compile(r"\x1b[\[O][0-9;?]*.|.", re.DOTALL)
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NAMES = {
    **{f"\x1b{begin}{end}": name for begin in "[O" for end, name in _ARROWS.items()},
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b": "escape",
    "\t": "tab",
    **dict.fromkeys("\r\n", "enter"),
    **dict.fromkeys("\x7f\x08", "backspace"),
    **dict.fromkeys("\x03\x04", "interrupt"),
}


def run(player: Player) -> None:
    """Run a replay on the terminal, until it is quit."""
    with _terminal() as descriptor:
        shown: tuple[str, ...] = ()
        size: tuple[int, int] | None = None
        while not player.is_done:
            before, size = size, shutil.get_terminal_size()
            columns, lines = size
            player.fit(max(lines - FRAME_ROWS, 1))
            rows = render(page(player, columns, lines), columns)
            both = itertools.zip_longest(rows, shown if size == before else ())
            changed = [(i, row) for i, (row, was) in enumerate(both, 1) if row != was]
            _write("".join(f"\x1b[{i};1H\x1b[0m\x1b[2K{row}\x1b[0m" for i, row in changed))
            shown = rows
            until = time.monotonic() + _WORK_S
            while player.is_busy and time.monotonic() < until:
                player.work()
            for key in _read_keys(descriptor, min(player.wait_seconds(time.monotonic()), _LOOK_S)):
                player.press(key)
            player.tick(time.monotonic())


def page(player: Player, columns: int, rows: int) -> list[Line]:
    """At most `rows` rows; what is wider than `columns` is cut by who draws them."""
    body_rows = max(rows - FRAME_ROWS, 1)
    if player.sheet is not None:
        head: Line = ((set_cell_size(f" {player.sheet.title}", columns), "bold reverse"),)
        body = _sheet(player.sheet, columns, body_rows)
        keys: Line = ((" up, down, space to scroll; any other key goes back", "dim"),)
    else:
        head, body = _head(player, columns), _story(player, columns, body_rows)
        keys = ((f" {_fitting_keys(columns - 1)}", "dim"),)
    body += [("",)] * (body_rows - len(body))
    return [head, *body, _state(player), keys][:rows]


def _fitting_keys(columns: int) -> str:
    """As many of the keys as there is room for; those that tell of the others always."""
    shown, last = "", "h help  q quit"
    for key in _KEYS:
        if len(shown) + len(key) + 2 + len(last) > columns:
            break
        shown += f"{key}  "
    return shown + last


def _head(player: Player, columns: int) -> Line:
    playback = player.playback
    cwd = (playback.session or {}).get("cwd")
    where = cwd if isinstance(cwd, str) else str(playback.path or "")
    left = f" {preview(playback.thread_id or '(no id)', columns)}  {preview(where, columns)}"
    right = ""
    if player.scene is not None:
        share = 100 * playback.bytes_up_to(player.scene.step.position) // max(playback.size_bytes, 1)
        right = f"{share} % "
    room = max(columns - len(right) - 1, 0)
    return (set_cell_size(printable(left), room), "reverse"), (f" {right}", "bold reverse")


def _story(player: Player, columns: int, rows: int) -> list[Line]:
    scene = player.scene
    if scene is None:
        return [("",), ("  nothing has been written yet" if player.follows else "  there is no step in it",)]
    shown: list[Line] = []
    if scene.folded:
        shown.append((("   folded  ", "dim"), ("what came before: f unfolds it", "dim italic")))
    clock, last = Clock(began=scene.turn_began), scene.step
    for step in scene.steps[:-1]:
        shown.append(row(step, clock, columns))
        clock.before = step.record.timestamp or clock.before
    clock.before = clock.before or (None if last.kind == "start" else scene.turn_began)
    clock.total = scene.tokens
    current = row(last, clock, columns, mark=">")
    shown.append(tuple((span, "bold") if isinstance(span, str) else (span[0], f"{span[1]} bold") for span in current))
    text = _text(last, columns, max(rows // 2, 1))
    return [*shown[-max(rows - len(text), 1) :], *text]


def _text(step: rollout.Step, columns: int, rows: int) -> list[Line]:
    """What the row of the current step has no room for."""
    told = describe_step(step)
    text = told.text[:_MOST_TEXT_CHARS]
    if step.kind in ("start", "end") or (cell_len(printable(text)) <= columns - _INDENT and "\n" not in text.strip()):
        return []
    lines = wrapped(text, columns - 8)
    style = style_of(step, told.label)
    if len(lines) > rows or len(told.text) > _MOST_TEXT_CHARS:
        lines = [*lines[: max(rows - 1, 1)], "… enter shows all of it"]
    return [((f"      {line}", style),) for line in lines]


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a text, none of them wider than so many columns, made printable."""
    found: list[str] = []
    width = max(columns, 8)
    for line in printable(text, lines=True).split("\n"):
        if cell_len(line) <= width:
            found.append(line)
        elif len(line) > _MOST_TEXT_CHARS:
            found += chop_cells(line, width)
        else:
            found += _wrapped_line(line, width)
    return found


def _wrapped_line(line: str, width: int) -> Iterator[str]:
    row, used = "", 0
    for word in _WORDS.findall(line):
        taken = cell_len(word)
        if row and used + taken > width:
            yield row
            row, used = "", 0
        *whole, rest = chop_cells(word, width) if taken > width else [word]
        yield from whole
        row, used = row + rest, used + cell_len(rest)
    yield row


def _sheet(sheet: Sheet, columns: int, rows: int) -> list[Line]:
    if sheet.laid_out is None or sheet.laid_out[0] != columns:
        sheet.laid_out = columns, list(_lay_out(sheet, columns))
    lines = sheet.laid_out[1]
    most = max(len(lines) - rows, 0)
    sheet.top = most if sheet.at_end else min(sheet.top, most)
    sheet.at_end = False
    return lines[sheet.top : sheet.top + rows]


def _lay_out(sheet: Sheet, columns: int) -> Iterator[Line]:
    for label, text, style in sheet.blocks:
        if label:
            yield ((f" {label}", f"bold {style}"),)
        for line in wrapped(text[:_MOST_SHEET_CHARS], columns - 4):
            yield ((f"   {line}", style),)
        if len(text) > _MOST_SHEET_CHARS:
            yield ((f"   … {len(text):,} characters in all: rollout replay --full prints them", "bold"),)


def _state(player: Player) -> Line:
    """One row: what is asked, what was said, or where the step stands."""
    if player.typed is not None:
        return ((f" search: {player.typed}_", "bold"),)
    if player.is_busy:
        return ((" looking… any key stops", "bold"),)
    if player.sheet is not None and player.sheet.laid_out is not None:
        return ((f" from row {player.sheet.top + 1:,} of {len(player.sheet.laid_out[1]):,}", ""),)
    scene = player.scene
    if player.message or scene is None:
        return ((f" {player.message}", "bold") if player.message else "",)
    step, status, tokens, last = scene.step, scene.step.status, scene.tokens, scene.last_usage
    if step.by_offset is not None:
        status = f"{status.replace('_', ' ')} by byte {step.by_offset}"
    passed = duration(seconds_between(scene.turn_began, step.record.timestamp))
    inherited = player.playback.inherited(step.position)
    facts = [
        "following" if player.follows else "",
        f"playing x{player.speed:g}" if player.is_playing else "",
        step.reason or ("" if status in {"event", "metadata"} else status),
        "" if scene.turn_id is None else f"turn …{scene.turn_id[-8:]}" + (f" after {passed}" if passed else ""),
        "" if tokens is None else f"{tokens.total:,} tokens",
        f"context {100 * last.total // scene.window_tokens} %" if last is not None and scene.window_tokens else "",
        scene.model or "",
        f"inherited from {inherited}" if inherited else "",
        f"byte {step.record.offset}",
    ]
    return ((" " + "  ".join(filter(None, facts)), ""),)


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


def split_keys(text: str) -> Iterator[str]:
    """The names of the keys that sent a text; what no key sends is left out."""
    for sent in _KEY.findall(text):
        if sent in _NAMES or (len(sent) == 1 and sent.isprintable()):
            yield _NAMES.get(sent, sent)


def _read_keys(descriptor: int, wait_seconds: float) -> list[str]:
    """What was pressed, waiting so long for the first."""
    if not select.select([descriptor], [], [], wait_seconds)[0]:
        return []
    try:
        data = os.read(descriptor, _KEY_BYTES)
        if data.endswith((b"\x1b", b"\x1b[", b"\x1bO")) and select.select([descriptor], [], [], _WORK_S)[0]:
            data += os.read(descriptor, _KEY_BYTES)
    except OSError:
        data = b""
    return list(split_keys(data.decode(errors="ignore"))) if data else ["interrupt"]  # the terminal has gone


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        raise OutputClosed from None


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """A terminal that hands over each key, and the other of its two screens; gives where keys are read."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    with contextlib.ExitStack() as restored:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # which whoever started this has asked for
                restored.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
        try:
            tty.setraw(descriptor)
            _write(_ENTER)
            yield descriptor
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
            with contextlib.suppress(OutputClosed, ValueError):
                _write(_LEAVE)
