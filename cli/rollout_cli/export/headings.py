"""What stands ahead: the facts of a session, and what each turn is called.

A turn is called by what its user said; where no user did, by what the log says that it is.

A turn has no user's words of its own where another agent began it, where the program did (a compaction, a review), and
where they were taken back or cannot be read; then its records are looked at, as few of them as it takes.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterable

import rollout
from rollout_cli.export.chronicle import Chronicle, Section
from rollout_cli.export.presenting import Presenter
from rollout_cli.items import describe, texts
from rollout_cli.units import count, local_time

_CHARACTERS = 100
_MOST_RECORDS = 64
"""How many of a turn's messages are looked at."""
_SHELL = re.compile(r"\s*<user_shell_command>(?:\s*<command>)?\s*(.*?)\s*</", re.DOTALL)
_BY_PROGRAM = re.compile(r"\s*(?:<user_action>|\Z)")
"""What counts as a user's message, but was written by the program when a review ended; and a message of nothing."""
_MESSAGES = frozenset({"message", "agent_message"})
_EVENTS = frozenset({"user_message", "entered_review_mode", "context_compacted"})


@dataclasses.dataclass(frozen=True, slots=True)
class Heading:
    """A turn in one line: `ours`, words of this program, then `theirs`, recorded ones without secrets; one can lack.

    `model` is what it ran with, without secrets, too.
    """

    ours: str
    theirs: str
    model: str = ""


def name_turns(chronicle: Chronicle, presenter: Presenter) -> dict[int, Heading]:
    """The heading of each turn, by its number. Secrets in it are masked, but not counted: they come again below."""
    found = {
        section.number: Heading("", shorten(presenter.peek(section.turn.user)))
        for section in chronicle.sections
        if section.turn is not None and section.turn.user and not _BY_PROGRAM.match(section.turn.user)
    }
    if len(found) < len(chronicle.turns):

        def is_asked(line: rollout.Explained) -> bool:
            return line.turn is not None and line.turn + 1 not in found and _may_name(line)

        for section, entries in chronicle.read(is_asked, shows_progress=False):
            if section.turn is not None and section.number not in found:
                records = (entry.record for entry in entries if entry.record is not None)
                ours, theirs = _find(section, itertools.islice(records, _MOST_RECORDS))
                found[section.number] = Heading(ours, shorten(presenter.peek(theirs)))
    models = {section.number: section.turn.model for section in chronicle.sections if section.turn is not None}
    return {
        number: dataclasses.replace(heading, model=presenter.peek(models.get(number) or ""))
        for number, heading in found.items()
    }


def shorten(text: str) -> str:
    """A text in one line of at most so many characters, cut between words if it can be."""
    line = " ".join(text.lstrip()[: 20 * _CHARACTERS].split())
    if len(line) <= _CHARACTERS:
        return line
    cut = line[:_CHARACTERS]
    words = cut.rpartition(" ")[0]
    return f"{words if len(words) > _CHARACTERS // 2 else cut}…"


def _may_name(explained: rollout.Explained) -> bool:
    if explained.type == "event_msg":
        return explained.kind in _EVENTS
    return explained.type in {"compacted", "inter_agent_communication"} or (
        explained.type == "response_item" and explained.kind in _MESSAGES
    )


def _find(section: Section, records: Iterable[rollout.Record]) -> tuple[str, str]:
    """What it is called, in our words and in theirs: what was asked for, else what was done, else what there is."""
    done: tuple[str, str] | None = None
    for record in records:
        begins, ours, theirs = _look(record)
        if begins:
            return ours, theirs
        done = done or ((ours, theirs) if ours else None)
    return done or ("No message from the user" if section.items else "Only events", "")


def _look(record: rollout.Record) -> tuple[bool, str, str]:
    """Whether a turn begins with it, and what the turn is called then in our words and in theirs; neither: unknown."""
    if record.type == "compacted" or record.kind == "context_compacted":
        return False, "Compaction", ""
    value = record.value
    item = value.get("payload", value)
    if not isinstance(item, dict):
        return False, "", ""
    if record.type == "event_msg":
        is_review = record.kind == "entered_review_mode"
        said = texts(item.get("user_facing_hint" if is_review else "message"))
        return is_review or bool(said.strip()), "Review" if is_review else "", said
    if record.type == "inter_agent_communication" or record.kind == "agent_message":
        return True, "From another agent", texts(item.get("content"))
    described = describe(item)
    by_hand = _SHELL.match(described.text)
    if described.label != "user" or by_hand or rollout.is_program_message(item):
        return False, *(("Shell command", by_hand[1]) if by_hand else ("", ""))
    return True, "" if described.text.strip() else "An empty message", described.text


def title_of(headings: Iterable[Heading]) -> str:
    """What the first user said who said anything; nothing where nobody did."""
    return next((heading.theirs for heading in headings if heading.theirs and not heading.ours), "")


def facts_of(chronicle: Chronicle, presenter: Presenter) -> list[tuple[str, str]]:
    """(name, value) of each fact that is known of the session. Secrets in them are masked, and counted once."""
    session = chronicle.session
    models = list(dict.fromkeys(turn.model for turn in chronicle.turns if turn.model))
    counts = chronicle.statuses
    seen = ", ".join(
        f"{counts[status]:,} {words}"
        for status, words in (
            ("visible", "in the context"),
            ("replaced", "replaced"),
            ("rolled_back", "taken back"),
            ("removed", "removed"),
        )
        if counts[status]
    )
    found = [
        ("thread", chronicle.thread_id),
        ("begun", local_time(_text(session.get("timestamp")))),
        ("directory", _text(session.get("cwd"))),
        ("program", " ".join(word for key in ("originator", "cli_version") if (word := _text(session.get(key))))),
        ("model", ", ".join(models)),
        ("turns", _count_turns(chronicle)),
        ("records", seen),
        ("damage", count(counts["damaged"], "line") if counts["damaged"] else None),
    ]
    return [(name, presenter.clean(value)) for name, value in found if value]


def _count_turns(chronicle: Chronicle) -> str:
    seen = collections.Counter(section.status for section in chronicle.sections)
    undone, emptied = seen["undone"], seen["emptied"]
    words = [
        f"{len(chronicle.turns):,}",
        f"{undone:,} of them taken back" if undone else "",
        f"{emptied:,} with all items taken back" if emptied else "",
    ]
    return ", ".join(filter(None, words))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
