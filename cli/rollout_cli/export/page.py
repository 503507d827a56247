"""A session as one HTML file that needs nothing else and runs nothing but its own script.

Everything that was recorded passes `safe`: it comes into the page as text, in an element or in a quoted attribute, and
nothing of it is ever a link, a style or a script. The policy in the head allows this very style and script, by their
hashes, and pictures that are in the page; nothing can be sent or fetched. Without the script all of it can be read.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import rollout
from rollout_cli.export.chronicle import Chronicle, Section
from rollout_cli.export.facts import title_of
from rollout_cli.export.headings import Heading
from rollout_cli.export.telling import Teller, Told, fate_of
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
_FATES = {"undone": "taken back", "emptied": "all its items taken back"}
_KEYS = (
    ("/", "search; <kbd>Enter</kbd> next hit, <kbd>Esc</kbd> back to the page"),
    ("n N", "next and previous hit"),
    ("j k", "next and previous turn"),
    ("u", "next turn that was taken back"),
    ("c", "next compaction"),
    ("y", "copy the link to this turn"),
    ("e", "open or close all folds"),
    ("w", "keep long lines of calls and outputs whole, or wrap them"),
    ("?", "these keys"),
)
_MINUTE = len("2026-03-20T10:00")


def safe(text: str) -> str:
    """A text as it can stand in an element or in a quoted attribute; what acts on the text around it is escaped."""
    return _inert(text).replace('"', "&quot;").replace("'", "&#39;")


def _inert(text: str) -> str:
    """The same, for an element alone."""
    odd = text.encode(errors="backslashreplace").translate(None, _PLAIN)
    if odd and not is_harmless(odd.decode()):
        text = printable(text, lines=True)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def to_page(
    chronicle: Chronicle, headings: Mapping[int, Heading], facts: Sequence[tuple[str, str]], teller: Teller
) -> Iterator[str]:
    """Pieces of the page; `headings` are those of the turns, `facts` what there is to say of the session."""
    style, script = (_HERE / "page.css").read_text("utf-8"), (_HERE / "page.js").read_text("utf-8")
    yield from _head(title_of(headings.values()) or "Session", style, script, facts)
    names = _name_turns(chronicle.sections)
    yield from _contents(chronicle.sections, names, headings)
    yield '<main id="main" class="page">\n'
    fold: int | None = None
    anchors, is_empty = _Anchors(), True
    for at, (section, entries) in enumerate(chronicle.read(teller.tells)):
        by = section.by if section.fate == "replaced" else None
        if by != fold:
            yield "</details>\n" if fold is not None else ""
            yield _fold(chronicle.sections, at) if by is not None else ""
            fold = by
        pairs = ((entry.explained, told) for entry in entries if (told := teller.tell(entry)) is not None)
        turn = _turn(section, names[section.number], headings.get(section.number), pairs, anchors)
        first = next(turn, "")
        is_empty = is_empty and not first
        yield first
        yield from turn
    yield "</details>\n" if fold is not None else ""
    yield '<p class="note">Nothing was said in this session.</p>\n' if is_empty else ""
    yield "</main>\n"


def to_end(words: str) -> str:
    """The end of the page: what is said there, and the script."""
    code = (_HERE / "page.js").read_text("utf-8")
    return f'<footer class="page"><p>{safe(words)}</p></footer>\n<script>{code}</script>\n</body></html>\n'


def _head(title: str, style: str, script: str, facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{safe(title)}</title>\n<style>{style}</style></head>\n<body>\n"
        '<a class="skip" href="#main">To the session</a>\n'
        f'<header class="page"><h1 dir="auto">{safe(title)}</h1><dl>'
    )
    yield "".join(f'<dt>{safe(key)}</dt><dd dir="auto">{safe(value)}</dd>' for key, value in facts)
    yield (
        '</dl></header>\n<div class="bar" hidden><form id="bar" class="page" role="search">'
        '<input id="search" type="search" placeholder="Search" aria-label="Search the session" '
        'aria-describedby="found" autocomplete="off" enterkeyhint="search"><output id="found" aria-live="polite">'
        "</output>"
    )
    yield _button("↑", "Previous", "Previous hit", 'type="button" id="back"', "N")
    yield _button("↓", "Next", "Next hit", 'type="submit" id="next"', "n")
    yield _button("±", "All folds", "Open or close all folds", 'type="button" id="folds"', "e") + "</form></div>\n"


def _button(sign: str, word: str, label: str, attributes: str, key: str) -> str:
    """One that shows its word, or its sign alone where there is little room."""
    shown = f'<span class="sign" aria-hidden="true">{sign}</span><span class="word">{word}</span>'
    return f'<button {attributes} aria-label="{label}" title="{label} ({key})">{shown}</button>'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _name_turns(sections: Sequence[Section]) -> dict[int, str]:
    """The anchor of each turn: by its id, if that can be one and is not taken."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for section in sections:
        turn = section.turn
        name = f"turn-{turn.id}" if turn is not None and _ID.fullmatch(turn.id) else f"turn-number-{section.number}"
        names[section.number] = name if name not in taken else f"turn-number-{section.number}"
        taken.add(name)
    return names


def _contents(sections: Sequence[Section], names: dict[int, str], headings: Mapping[int, Heading]) -> Iterator[str]:
    turns = [section for section in sections if section.turn is not None]
    yield '<div class="page">\n'
    if turns:
        yield f'<nav aria-label="Turns"><details><summary>{count(len(turns), "turn")}</summary><ol>\n'
    for section in turns:
        words = _strike(_told(headings[section.number]), section)
        yield f'<li><a href="#{names[section.number]}">{words}</a>{_badge(section)}</li>\n'
    yield "</ol></details></nav>\n" if turns else ""
    keys = "".join(f"<dt>{_kbd(key)}</dt><dd>{words}</dd>" for key, words in _KEYS)
    yield f'<details class="keys" hidden><summary>Keys</summary><dl>{keys}</dl></details>\n</div>\n'


def _kbd(keys: str) -> str:
    return " ".join(f"<kbd>{key}</kbd>" for key in keys.split())


def _told(heading: Heading) -> str:
    """What is ours is set off from what was said."""
    theirs = f"<bdi>{safe(heading.theirs)}</bdi>" if heading.theirs else ""
    return f"<i>{safe(heading.ours)}{':' if theirs else ''}</i> {theirs}".rstrip() if heading.ours else theirs


def _strike(shown: str, section: Section) -> str:
    """A turn is struck through if it does not stand, and only then."""
    return f"<del>{shown}</del>" if section.fate == "undone" else shown


def _badge(section: Section) -> str:
    words = _FATES.get(section.fate)
    return f' <span class="badge">{words}</span>' if words else ""


def _fold(sections: Sequence[Section], begin: int) -> str:
    """Opens the fold around the sections that one compaction replaced as a whole."""
    by = sections[begin].by
    run = list(itertools.takewhile(lambda each: each.by == by, map(sections.__getitem__, range(begin, len(sections)))))
    items, turns = sum(each.items for each in run), sum(each.turn is not None for each in run)
    counted = ", ".join(count(number, noun) for number, noun in ((turns, "turn"), (items, "item")) if number)
    return f'<details class="before"><summary>{counted}, replaced by the compaction in line {by}</summary>\n'


class _Anchors:
    """The names of lines: of the file's own, and of each for the first of the records that it can hold."""

    def __init__(self) -> None:
        self._last = 0

    def name(self, explained: rollout.Explained) -> str:
        """Empty for none. They are asked for in order."""
        if explained.inherited is not None or explained.line == self._last:
            return ""
        self._last = explained.line
        return f"line-{explained.line}"


def _turn(
    section: Section,
    name: str,
    heading: Heading | None,
    pairs: Iterator[tuple[rollout.Explained, Told]],
    anchors: _Anchors,
) -> Iterator[str]:
    """One turn; what stands before the first one only if it tells something."""
    first = next(pairs, None)
    if heading is not None:
        yield _open_turn(section, name, heading)
    elif first is not None:
        yield f'<details class="turn" id="{name}"><summary><h2>Before the first turn</h2></summary>\n'
    else:
        return
    for explained, told in itertools.chain([first] if first else [], pairs):
        yield from _article(told, explained, anchors.name(explained))
    yield "</details>\n" if first else '<p class="note">Nothing to show.</p></details>\n'


def _open_turn(section: Section, name: str, heading: Heading) -> str:
    turn = section.turn
    assert turn is not None
    kind = f" {section.fate}" if section.fate else ""
    is_open = " open" if turn.stands else ""
    facts = ", ".join(word for word in (turn.status, heading.model, local_time(turn.started)) if word)
    shown = _strike(f"{section.number}. {_told(heading)}", section)
    return (
        f'<details class="turn{kind}" id="{name}"{is_open}><summary><h2>{shown}</h2> '
        f'<span class="facts">{safe(facts)}{_badge(section)}</span> '
        f'<a href="#{name}" aria-label="Link to turn {section.number}">#</a></summary>\n'
    )


def _article(told: Told, explained: rollout.Explained, anchor: str) -> Iterator[str]:
    own = f' id="{anchor}"' if anchor else ""
    if told.kind == "note":
        yield f'<p class="note"{own}>{safe(told.text)}</p>\n'
        return
    line, fate = explained.line, fate_of(explained)
    link = f'<a href="#{anchor}">line {line}</a>' if anchor else f"<span>line {line}</span>"
    time = f"<span>{_time(told.time[:_MINUTE], told.time[-1:])}</span>" if told.time else ""
    badge = f'<span class="badge">{safe(fate)}</span>' if fate else ""
    if explained.by is not None and explained.by_inherited is None:
        badge = f'<a class="badge" href="#line-{explained.by}">{safe(fate)}</a>'
    focus = ' tabindex="-1"' if told.kind == "compaction" else ""
    shown = _text(told.text, _HEAD_LINES.get(told.kind, _MOST_LINES)) if told.text or not told.parts else ""
    heading = f"<h3><b>{_label(told.label)}</b>{link}{time}{badge}</h3>\n"
    body = f'<article class="{told.kind} {explained.status}"{own}{focus}>{heading}{shown}'
    if told.parts:
        yield f"{body}<details><summary>the history became {count(len(told.parts), 'item')}</summary>\n"
        for label, text in told.parts:
            yield f"<h4>{_label(label)}</h4>{_text(text, _MOST_LINES)}"
        body = "</details>\n"
    for image in told.images:
        yield f'{body}<img alt="A recorded picture" loading="lazy" src="{safe(image)}">\n'
        body = ""
    yield f"{body}</article>\n"


@functools.lru_cache(maxsize=64)
def _label(label: str) -> str:
    """There are few labels."""
    return safe(label)


@functools.lru_cache(maxsize=256)
def _time(minute: str, zone: str) -> str:
    """A time to the minute, as most have it in common with their neighbours."""
    return safe(local_time(f"{minute}:00Z" if zone == "Z" else minute))


def _text(text: str, most_lines: int) -> str:
    """A text, all but its beginning folded if it is long."""
    end = _cut(text, most_lines)
    if end >= len(text):
        return f'<pre dir="auto">{_inert(text)}</pre>\n'
    rest = text[end:].removeprefix("\n")
    left = f"{count(rest.count(chr(10)) + 1, 'more line')}, {len(rest):,} characters"
    head = f'<pre dir="auto">{_inert(text[:end])}</pre>'
    return f'{head}<details><summary>{left}</summary><pre dir="auto">{_inert(rest)}</pre></details>\n'


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
