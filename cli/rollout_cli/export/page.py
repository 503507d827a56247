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
from collections.abc import Iterator, Sequence
from pathlib import Path

import rollout
from rollout_cli.export.chronicle import Chronicle, Section
from rollout_cli.export.telling import Teller, Told, fate_of
from rollout_cli.printable import is_harmless, printable
from rollout_cli.times import local_time

_HERE = Path(__file__).parent
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN = bytes({*range(0x20, 0x7F), 0x09, 0x0A})
_HEAD_LINES = {"output": 8, "call": 12, "context": 2, "item": 8, "reasoning": 12, "compaction": 4}
_MOST_LINES = 60
_LEAST_FOLDED = 400
"""How many characters a fold hides at least, but for long lines."""
_LINE_CHARACTERS = 160
_TITLE_CHARACTERS = 100
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


def to_page(chronicle: Chronicle, title: str, facts: Sequence[tuple[str, str]], teller: Teller) -> Iterator[str]:
    """Pieces of the page; `facts` are what there is to say of the session."""
    style, script = (_HERE / "page.css").read_text("utf-8"), (_HERE / "page.js").read_text("utf-8")
    yield from _head(title, style, script, facts)
    names = _name_turns(chronicle.sections)
    yield from _contents(chronicle.sections, names, teller)
    yield '<main id="main">\n'
    fold: int | None = None
    for section, entries in chronicle.read(teller.tells):
        by = section.by if section.fate == "replaced" else None
        if by != fold:
            yield "</details>\n" if fold is not None else ""
            yield _fold(chronicle.sections, section) if by is not None else ""
            fold = by
        told = ((entry.explained, told) for entry in entries if (told := teller.tell(entry)) is not None)
        yield from _turn(section, names[section.number], teller, told)
    yield "</details>\n" if fold is not None else ""
    yield "</main>\n"


def to_end(words: str) -> str:
    """The end of the page: what is said there, and the script."""
    code = (_HERE / "page.js").read_text("utf-8")
    keys = "<kbd>/</kbd> search, <kbd>n</kbd> <kbd>N</kbd> next and previous hit, <kbd>j</kbd> <kbd>k</kbd> turns, "
    keys += "<kbd>u</kbd> next undone, <kbd>c</kbd> next compaction, <kbd>e</kbd> all folds"
    return f"<footer><p>{safe(words)}</p><p>Keys: {keys}.</p></footer>\n<script>{code}</script>\n</body></html>\n"


def _head(title: str, style: str, script: str, facts: Sequence[tuple[str, str]]) -> Iterator[str]:
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{safe(title)}</title>\n<style>{style}</style></head>\n<body>\n"
        '<a class="skip" href="#main">To the session</a>\n'
        f'<header class="page"><h1 dir="auto">{safe(title)}</h1><dl>'
    )
    yield "".join(f"<dt>{safe(key)}</dt><dd>{safe(value)}</dd>" for key, value in facts)
    yield (
        '</dl></header>\n<div class="bar"><form id="bar" role="search"><input id="search" type="search" '
        'placeholder="Search" aria-label="Search the session" autocomplete="off"><output id="found" aria-live="polite">'
        '</output><button type="submit">Next</button><button type="button" id="back">Previous</button>'
        '<button type="button" id="folds">All folds</button></form></div>\n'
    )


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


def _contents(sections: Sequence[Section], names: dict[int, str], teller: Teller) -> Iterator[str]:
    turns = [section for section in sections if section.turn is not None]
    yield f'<header class="page"><nav><details><summary>{len(turns)} turns</summary><ol>\n'
    for section in turns:
        shown = _said(section, teller)
        words = f"<del>{shown}</del>" if section.fate == "rolled_back" else shown
        yield f'<li><a href="#{names[section.number]}">{words}</a></li>\n'
    yield "</ol></details></nav></header>\n"


def _said(section: Section, teller: Teller) -> str:
    text = "" if section.turn is None else " ".join(teller.peek(section.turn.user or "").split())
    cut = text if len(text) <= _TITLE_CHARACTERS else f"{text[:_TITLE_CHARACTERS]}…"
    return f"<bdi>{safe(cut)}</bdi>" if cut else "(nothing said)"


def _fold(sections: Sequence[Section], first: Section) -> str:
    """Opens the fold around the sections that one compaction replaced as a whole."""
    run = sections[sections.index(first) :]
    count = next((at for at, each in enumerate(run) if each.by != first.by), len(run))
    items = sum(each.items for each in run[:count])
    turns = sum(each.turn is not None for each in run[:count])
    return (
        f'<details class="before"><summary>{turns} turns, {items} items, replaced by the compaction in line {first.by}'
        "</summary>\n"
    )


def _turn(
    section: Section, name: str, teller: Teller, entries: Iterator[tuple[rollout.Explained, Told]]
) -> Iterator[str]:
    """One turn; what stands before the first one only if it tells something."""
    first = next(entries, None)
    if first is None and section.turn is None:
        return
    yield _open_turn(section, name, teller)
    for explained, told in itertools.chain([first] if first else [], entries):
        anchor = f"line-{explained.line}" if explained.inherited is None else ""
        yield from _article(told, explained.status, fate_of(explained), anchor, explained.line)
    yield "</details>\n"


def _open_turn(section: Section, name: str, teller: Teller) -> str:
    turn = section.turn
    if turn is None:
        return f'<details class="turn" id="{name}"><summary><b>Before the first turn</b></summary>\n'
    kind = {"rolled_back": " undone", "replaced": " replaced"}.get(section.fate, "")
    badge = ' <span class="badge">taken back</span>' if section.fate == "rolled_back" else ""
    facts = ", ".join(word for word in (turn.status, turn.model or "", local_time(turn.started)) if word)
    return (
        f'<details class="turn{kind}" id="{name}"{"" if section.fate == "rolled_back" else " open"}><summary>'
        f"<b>{section.number}. {_said(section, teller)}</b> <small>{safe(facts)}</small>{badge} "
        f'<a href="#{name}" aria-label="Link to turn {section.number}">#</a></summary>\n'
    )


def _article(told: Told, status: str, fate: str, anchor: str, line: int) -> Iterator[str]:
    own = f' id="{anchor}"' if anchor else ""
    if told.kind == "note":
        yield f'<p class="note"{own}>{safe(told.text)}</p>\n'
        return
    link = f'<a href="#{anchor}">line {line}</a>' if anchor else f"line {line}"
    time = f"<span>{_time(told.time[:_MINUTE], told.time[-1:])}</span>" if told.time else ""
    badge = f'<span class="badge">{safe(fate)}</span>' if fate else ""
    focus = ' tabindex="-1"' if told.kind == "compaction" else ""
    shown = _text(told.text, _HEAD_LINES.get(told.kind, _MOST_LINES)) if told.text or not told.parts else ""
    heading = f"<h3><b>{_label(told.label)}</b>{link}{time}{badge}</h3>\n"
    body = f'<article class="{told.kind} {status}"{own}{focus}>{heading}{shown}'
    if told.parts:
        yield f"{body}<details><summary>the history became {len(told.parts)} items</summary>\n"
        for label, text in told.parts:
            yield f"<h3>{_label(label)}</h3>{_text(text, _MOST_LINES)}"
        body = "</details>\n"
    for image in told.images:
        yield f'{body}<img alt="" loading="lazy" src="{safe(image)}">\n'
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
    left = f"{rest.count(chr(10)) + 1} more lines, {len(rest):,} characters"
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
