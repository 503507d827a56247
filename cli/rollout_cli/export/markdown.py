"""A session as Markdown.

Everything that was recorded stands in fences longer than any in it, or is escaped: none of it is Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import rollout
from rollout_cli.export.chronicle import Chronicle, Section, facts_of, name_turns
from rollout_cli.export.presenting import Presenter, Shown, status_words
from rollout_cli.printable import printable
from rollout_cli.units import local_time

_TICKS = re.compile(r"`+")
_NOT_PLAIN = re.compile(r"([\\`*_{}\[\]<>()#!|&~])")


def to_markdown(chronicle: Chronicle, presenter: Presenter, end: Callable[[], str]) -> Iterator[str]:
    """Pieces of the document. What stands at its `end` is asked for when all else has been read."""
    headings = name_turns(chronicle, presenter)
    yield "# Session\n\n"
    yield "".join(f"- {key}: {_inline(value)}\n" for key, value in facts_of(chronicle, presenter))
    is_empty = True
    for section, entries in chronicle.read(presenter.presents):
        if section.turn is not None:
            yield f"\n## {_title(section, section.turn, headings[section.number].ours, presenter)}\n"
            is_empty = False
        for line, record in entries:
            shown = presenter.present(line, record)
            if shown is not None:
                yield from _piece(shown, status_words(line), line.line)
                is_empty = False
    yield "\nNothing was said in this session.\n" if is_empty else ""
    yield f"\n---\n{end()}\n"


def _title(section: Section, turn: rollout.Turn, ours: str, presenter: Presenter) -> str:
    """The heading of a turn, struck through if it does not stand and only then; in our words what it is, if need be."""
    words = [turn.status, presenter.peek(turn.model or ""), local_time(turn.started)]
    if section.status == "emptied":
        words.append("all its items taken back")
    said = f"Turn {section.number}{ours and ': '}{ours} ({', '.join(_inline(word) for word in words if word)})"
    if section.status == "undone":
        return f"~~{said}~~ taken back"
    return f"{said}, replaced by the compaction in line {section.by}" if section.status == "replaced" else said


def _inline(text: str) -> str:
    """A text of one line that is no Markdown."""
    return _NOT_PLAIN.sub(r"\\\1", printable(text))


def _fenced(text: str) -> str:
    """A text as a block of code."""
    fence = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(text)), 0)
    return f"{fence}text\n{printable(text, lines=True)}\n{fence}\n"


def _piece(record: Shown, status: str, line: int) -> Iterator[str]:
    if record.kind == "note":
        yield f"\n*{_inline(record.text)}* (line {line})\n"
        return
    shown = f"~~{_inline(record.label)}~~" if status.startswith("taken back") else f"**{_inline(record.label)}**"
    yield f"\n{shown} (line {line}{', ' + _inline(status) if status else ''})\n\n"
    if record.text or not record.parts:
        yield _fenced(record.text)
    for label, text in record.parts:
        yield f"\nnow in the history: {_inline(label)}\n\n{_fenced(text)}"
