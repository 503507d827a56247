"""A session as Markdown.

Everything that was recorded stands in fences longer than any in it, or is escaped: none of it is Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rollout_cli.export.chronicle import Chronicle, Section
from rollout_cli.export.telling import Teller, Told, fate_of
from rollout_cli.printable import printable
from rollout_cli.times import local_time

_TICKS = re.compile(r"`+")
_NOT_PLAIN = re.compile(r"([\\`*_{}\[\]<>()#!|&~])")


def to_markdown(chronicle: Chronicle, facts: list[tuple[str, str]], teller: Teller) -> Iterator[str]:
    """Pieces of the document; `facts` are what there is to say of the session."""
    yield "# Session\n\n"
    yield "".join(f"- {key}: {inline(value)}\n" for key, value in facts)
    for section, entries in chronicle.read(teller.tells):
        if section.turn is not None:
            yield f"\n## {title(section)}\n"
        for entry in entries:
            told = teller.tell(entry)
            if told is not None:
                yield from _piece(told, fate_of(entry.explained), entry.explained.line)


def title(section: Section) -> str:
    """The heading of a turn; one that was taken back is struck through."""
    turn = section.turn
    assert turn is not None
    words = [turn.status, inline(turn.model or ""), inline(local_time(turn.started))]
    said = f"Turn {section.number} ({', '.join(word for word in words if word)})"
    if section.fate == "rolled_back":
        return f"~~{said}~~ taken back"
    return f"{said}, replaced by the compaction in line {section.by}" if section.fate == "replaced" else said


def inline(text: str) -> str:
    """A text of one line that is no Markdown."""
    return _NOT_PLAIN.sub(r"\\\1", printable(text))


def fenced(text: str) -> str:
    """A text as a block of code."""
    ticks = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}text\n{printable(text, lines=True)}\n{fence}\n"


def _piece(told: Told, fate: str, line: int) -> Iterator[str]:
    if told.kind == "note":
        yield f"\n*{inline(told.text)}* (line {line})\n"
        return
    shown = f"~~{inline(told.label)}~~" if fate.startswith("taken back") else f"**{inline(told.label)}**"
    yield f"\n{shown} (line {line}{', ' + inline(fate) if fate else ''})\n\n"
    if told.text or not told.parts:
        yield fenced(told.text)
    for label, text in told.parts:
        yield f"\nnow in the history: {inline(label)}\n\n{fenced(text)}"
