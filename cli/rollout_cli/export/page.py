"""A session as one HTML file that needs nothing else and runs nothing but its own script.

Everything that was recorded comes into the page as text, in an element or in a quoted attribute, and nothing of it is
ever a link, a style or a script. The template `page.html` escapes all that is put into it, made printable before;
what is put together here passes `_safe`. The policy in the head allows this very style and script, by their hashes, and
pictures that are in the page; nothing can be sent or fetched. Without the script all of it can be read.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import html
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

import rollout
from rollout_cli.export.chronicle import Chronicle, Entries, Section, facts_of, name_turns
from rollout_cli.export.presenting import Presenter, Shown, status_words
from rollout_cli.printable import is_harmless, printable
from rollout_cli.units import count, local_time

_HERE = Path(__file__).parent
_ID = re.compile(r"(?!number-)[A-Za-z0-9_-]{1,64}")
_PLAIN = bytes({*range(0x20, 0x7F), 0x09, 0x0A})
_HEAD_LINES = {"output": 8, "call": 12, "context": 2, "item": 8, "reasoning": 12, "compaction": 4}
_MOST_LINES = 60
_LEAST_FOLDED = 400
"""How many characters a fold hides at least, but for long lines."""
_LINE_CHARACTERS = 160
_BADGES = {"undone": "taken back", "emptied": "all its items taken back"}
_MINUTE = len("2026-03-20T10:00")


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """One section with its articles, which are read as they are taken.

    `fold` says what the fold holds that begins with it, around the sections that one compaction replaced as a whole;
    `closes` says whether that fold ends with it.
    """

    section: Section
    articles: Iterator[Markup]
    facts: str
    fold: str
    closes: bool


def to_page(chronicle: Chronicle, presenter: Presenter, end: Callable[[], str]) -> Iterator[str]:
    """Pieces of the page. What stands at its `end` is asked for when all else has been read."""
    headings = name_turns(chronicle, presenter)
    title = next((each.theirs for each in headings.values() if each.theirs and not each.ours), "Session")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        finalize=lambda value: _printable(value) if type(value) is str else value,
        keep_trailing_newline=True,
    )
    environment.filters |= {"count": count, "hash": _hash}
    yield from environment.get_template("page.html").generate(
        title=title,
        style=Markup((_HERE / "page.css").read_text("utf-8")),
        script=Markup((_HERE / "page.js").read_text("utf-8")),
        facts=facts_of(chronicle, presenter),
        contents=[section for section in chronicle.sections if section.turn is not None],
        names=_name_turns(chronicle.sections),
        headings=headings,
        badges=_BADGES,
        parts=_parts(chronicle, presenter),
        end=end,
    )


def _printable(text: str) -> str:
    if not (text.isascii() and text.isprintable()):
        odd = text.encode(errors="backslashreplace").translate(None, _PLAIN)
        if odd and not is_harmless(odd.decode()):
            return printable(text, lines=True)
    return text


def _safe(text: str) -> str:
    """A text as it can stand in an element or in a quoted attribute: printable and escaped."""
    return html.escape(_printable(text))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _name_turns(sections: Sequence[Section]) -> dict[int, str]:
    """The anchor of each turn: by its id, if that can be one and is not taken."""
    names: dict[str, int] = {}
    for section in sections:
        turn = section.turn
        name = f"turn-{turn.id}" if turn is not None and _ID.fullmatch(turn.id) else ""
        names[name if name and name not in names else f"turn-number-{section.number}"] = section.number
    return {number: name for name, number in names.items()}


def _parts(chronicle: Chronicle, presenter: Presenter) -> Iterator[_Part]:
    """The sections; what stands before the first turn only if it says something."""
    last = 0

    def articles(entries: Entries) -> Iterator[Markup]:
        """An anchor names a line of the file itself, and the first of the records that it can hold."""
        nonlocal last
        for line, record in entries:
            shown = presenter.present(line, record)
            if shown is not None:
                is_named = line.inherited is None and line.line != last
                last = line.line if is_named else last
                yield Markup(_article(shown, line, f"line-{line.line}" if is_named else ""))

    folds = [None, *(each.by if each.status == "replaced" else None for each in chronicle.sections), None]
    for at, (section, entries) in enumerate(chronicle.read(presenter.presents)):
        found = articles(entries)
        first = next(found, None)
        before, by, behind = folds[at : at + 3]
        turn = section.turn
        if turn is None and first is None and by is None:
            continue
        fold = _fold(chronicle.sections, at) if by is not None and by != before else ""
        words = [] if turn is None else [turn.status, presenter.peek(turn.model or ""), local_time(turn.started)]
        shown = found if first is None else itertools.chain([first], found)
        yield _Part(section, shown, ", ".join(filter(None, words)), fold, by is not None and by != behind)


def _article(record: Shown, explained: rollout.Explained, anchor: str) -> str:
    """One record. It is put together here, not by the template, which takes three times as long for each of many."""
    own = f' id="{anchor}"' if anchor else ""
    if record.kind == "note":
        return f'<p class="note"{own}>{_safe(record.text)}</p>\n'
    line, status = explained.line, _safe(status_words(explained))
    link = f'<a href="#{anchor}">line {line}</a>' if anchor else f"<span>line {line}</span>"
    time = f"<span>{_time(record.time[:_MINUTE], record.time[-1:])}</span>" if record.time else ""
    badge = f'<span class="badge">{status}</span>' if status else ""
    if explained.by is not None and explained.by_inherited is None:
        badge = f'<a class="badge" href="#line-{explained.by}">{status}</a>'
    focus = ' tabindex="-1"' if record.kind == "compaction" else ""
    shown = _text(record.text, _HEAD_LINES.get(record.kind, _MOST_LINES)) if record.text or not record.parts else ""
    if record.parts:
        parts = "".join(f"<h4>{_safe(label)}</h4>{_text(text, _MOST_LINES)}" for label, text in record.parts)
        became = count(len(record.parts), "item")
        shown += f"<details><summary>the history became {became}</summary>\n{parts}</details>\n"
    shown += "".join(f'<img alt="A recorded picture" loading="lazy" src="{_safe(image)}">\n' for image in record.images)
    heading = f"<h3><b>{_safe(record.label)}</b>{link}{time}{badge}</h3>\n"
    return f'<article class="{record.kind} {explained.status}"{own}{focus}>{heading}{shown}</article>\n'


def _fold(sections: Sequence[Section], begin: int) -> str:
    """What the sections hold that one compaction replaced as a whole, from the first of them on."""
    by = sections[begin].by
    run = list(itertools.takewhile(lambda each: each.by == by, itertools.islice(sections, begin, None)))
    items, turns = sum(each.items for each in run), sum(each.turn is not None for each in run)
    return ", ".join(count(number, noun) for number, noun in ((turns, "turn"), (items, "item")) if number)


@functools.lru_cache(maxsize=256)
def _time(minute: str, zone: str) -> str:
    """A time to the minute, as most have it in common with their neighbours."""
    return _safe(local_time(f"{minute}:00Z" if zone == "Z" else minute))


def _text(text: str, most_lines: int) -> str:
    """A text, all but its beginning folded if it is long."""
    end = _cut(text, most_lines)
    if end >= len(text):
        return f'<pre dir="auto">{_safe(text)}</pre>\n'
    rest = text[end:].removeprefix("\n")
    left = f"{count(rest.count(chr(10)) + 1, 'more line')}, {len(rest):,} characters"
    head = f'<pre dir="auto">{_safe(text[:end])}</pre>'
    return f'{head}<details><summary>{left}</summary><pre dir="auto">{_safe(rest)}</pre></details>\n'


def _cut(text: str, most_lines: int) -> int:
    """Where the beginning of a long text ends that is shown: at a line end, or where it has been long enough."""
    most = most_lines * _LINE_CHARACTERS
    end = -1
    for _ in range(most_lines):
        end = text.find("\n", end + 1)
        if end < 0 or end > most:
            break
    if end < 0:
        return len(text) if len(text) <= 2 * most else most
    if end > most:
        return most
    return end if len(text) - end > max(most // 8, _LEAST_FOLDED) else len(text)
