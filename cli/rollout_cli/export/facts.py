"""What there is to say of a session ahead of its turns."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from rollout_cli.export.chronicle import Chronicle
from rollout_cli.export.headings import Heading
from rollout_cli.export.telling import Teller
from rollout_cli.units import count, local_time


def title_of(headings: Iterable[Heading]) -> str:
    """What the first user said who said anything; nothing where nobody did."""
    return next((heading.theirs for heading in headings if heading.theirs and not heading.ours), "")


def facts_of(chronicle: Chronicle, teller: Teller) -> list[tuple[str, str]]:
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
    return [(name, teller.clean(value)) for name, value in found if value]


def _count_turns(chronicle: Chronicle) -> str:
    fates = collections.Counter(section.fate for section in chronicle.sections)
    undone, emptied = fates["undone"], fates["emptied"]
    words = [
        f"{len(chronicle.turns):,}",
        f"{undone:,} of them taken back" if undone else "",
        f"{emptied:,} with all items taken back" if emptied else "",
    ]
    return ", ".join(filter(None, words))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
