"""A replay as rows of a screen: the story up to the current step, that step at length, where it stands, the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size

from rollout_cli.cells import preview
from rollout_cli.printable import printable
from rollout_cli.replay.player import Player, Sheet
from rollout_cli.replay.printed import row
from rollout_cli.replay.words import describe_step, style_of
from rollout_cli.terminal import Line
from rollout_cli.units import duration, seconds_between

if TYPE_CHECKING:
    import rollout

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
    session = playback.session or {}
    cwd = session.get("cwd")
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
    text = _text(scene.step, columns, max(rows // 2, 1))
    shown: list[Line] = []
    if scene.folded:
        shown.append((("   folded  ", "dim"), ("what came before: f unfolds it", "dim italic")))
    before: str | None = None
    for step in scene.steps:
        is_last = step is scene.step
        took = before or (None if step.kind == "start" else scene.turn_began if is_last else None)
        total = scene.tokens.total if is_last and scene.tokens is not None else None
        line = row(step, took, columns, mark=">" if is_last else " ", began=scene.turn_began, total=total)
        shown.append(_emphasized(line) if is_last else line)
        before = step.record.timestamp or before
    return [*shown[-max(rows - len(text), 1) :], *text]


def _emphasized(line: Line) -> Line:
    return tuple((span, "bold") if isinstance(span, str) else (span[0], f"{span[1]} bold") for span in line)


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
            continue
        found += _wrapped_line(line, width) if len(line) <= _MOST_TEXT_CHARS else chop_cells(line, width)
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
        sheet.laid_out = columns, _lay_out(sheet, columns)
    lines = sheet.laid_out[1]
    most = max(len(lines) - rows, 0)
    sheet.top = most if sheet.at_end else min(sheet.top, most)
    sheet.at_end = False
    return lines[sheet.top : sheet.top + rows]


def _lay_out(sheet: Sheet, columns: int) -> list[Line]:
    lines: list[Line] = []
    for label, text, style in sheet.blocks:
        if label:
            lines.append(((f" {label}", f"bold {style}"),))
        lines += [((f"   {line}", style),) for line in wrapped(text[:_MOST_SHEET_CHARS], columns - 4)]
        if len(text) > _MOST_SHEET_CHARS:
            lines.append(((f"   … {len(text):,} characters in all: rollout replay --full prints them", "bold"),))
    return lines


def _state(player: Player) -> Line:
    """One row: what is asked, what was said, or where the step stands."""
    if player.typed is not None:
        return ((f" search: {player.typed}_", "bold"),)
    if player.is_busy:
        return ((" looking… any key stops", "bold"),)
    if player.sheet is not None and player.sheet.laid_out is not None:
        return ((f" from row {player.sheet.top + 1:,} of {len(player.sheet.laid_out[1]):,}", ""),)
    if player.message:
        return ((f" {player.message}", "bold"),)
    scene = player.scene
    if scene is None:
        return ("",)
    facts = [_fate(scene.step), *_turn(scene), *_tokens(scene), scene.model or ""]
    inherited = player.playback.inherited(scene.step.position)
    facts.append(f"inherited from {inherited}" if inherited else "")
    if player.is_playing:
        facts.insert(0, f"playing x{player.speed:g}")
    if player.follows:
        facts.insert(0, "following")
    facts.append(f"byte {scene.step.record.offset}")
    return ((" " + "  ".join(filter(None, facts)), ""),)


def _fate(step: rollout.Step) -> str:
    if step.by_offset is not None:
        return f"{step.status.replace('_', ' ')} by byte {step.by_offset}"
    return step.reason or ("" if step.status in {"event", "metadata"} else step.status)


def _turn(scene: rollout.PlaybackView) -> list[str]:
    if scene.turn_id is None:
        return []
    passed = duration(seconds_between(scene.turn_began, scene.step.record.timestamp))
    return [f"turn …{scene.turn_id[-8:]}" + (f" after {passed}" if passed else "")]


def _tokens(scene: rollout.PlaybackView) -> list[str]:
    found = [] if scene.tokens is None else [f"{scene.tokens.total:,} tokens"]
    if scene.last_usage is not None and scene.window_tokens:
        found.append(f"context {100 * scene.last_usage.total // scene.window_tokens} %")
    return found
