"""What there is to say of a session ahead of its turns."""

from __future__ import annotations

from rollout_cli.export.chronicle import Chronicle
from rollout_cli.export.telling import Teller
from rollout_cli.times import local_time

_TITLE_CHARACTERS = 100


def facts_of(chronicle: Chronicle, teller: Teller) -> tuple[str, list[tuple[str, str]]]:
    """The title, and (name, value) of each fact that is known. Secrets in them are masked, and counted once."""
    session = chronicle.session
    first = next((turn.user for turn in chronicle.turns if turn.user), None)
    title = " ".join(teller.peek(first or "").split())
    title = title if len(title) <= _TITLE_CHARACTERS else f"{title[:_TITLE_CHARACTERS]}…"
    models = list(dict.fromkeys(turn.model for turn in chronicle.turns if turn.model))
    undone = sum(not turn.stands for turn in chronicle.turns)
    counts = chronicle.statuses
    seen = ", ".join(
        f"{counts[status]:,} {words}"
        for status, words in (("visible", "in the context"), ("replaced", "replaced"), ("rolled_back", "taken back"),
                              ("removed", "removed"), ("expired", "expired"))
        if counts[status]
    )  # fmt: skip
    found = [
        ("thread", chronicle.thread_id),
        ("begun", local_time(_text(session.get("timestamp")))),
        ("directory", _text(session.get("cwd"))),
        ("program", " ".join(word for key in ("originator", "cli_version") if (word := _text(session.get(key))))),
        ("model", ", ".join(models)),
        ("turns", f"{len(chronicle.turns)}{f', {undone} of them taken back' if undone else ''}"),
        ("records", seen),
        ("damage", f"{counts['damaged']:,} lines" if counts["damaged"] else None),
    ]
    return title or "Session", [(name, teller.clean(value)) for name, value in found if value]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
