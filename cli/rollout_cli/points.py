"""Moments of a session as a command line names them: a turn, `ordinal:N`, `line:N`, `offset:N`; behind an `@` too.

A turn is named by its id, the beginning of it, or its end as a narrow terminal shows it.
"""

from __future__ import annotations

import re
from pathlib import Path

from rollout_cli.homes import reference

_NUMBERED = re.compile(r"(ordinal|line|offset):(.*)", re.DOTALL)
_DIGITS = re.compile(r"[0-9]{1,18}")


def point(text: str | None) -> str | int | None:
    """What the library takes as `at`. UsageError."""
    from rollout import UsageError, at_line, at_ordinal

    if text is None:
        return None
    found = _NUMBERED.fullmatch(text)
    if found is not None and _DIGITS.fullmatch(found[2]):
        number = int(found[2])
        return {"ordinal": at_ordinal(number), "line": at_line(number)}.get(found[1], number)
    if found is not None or not text:
        remedy = "give a turn id, or a number: ordinal:12, line:40, offset:5916"
        raise UsageError(f"{text!r} is no point of a session", remedy=remedy)
    return text


def reference_at(text: str, other: str | None = None, home: str | None = None) -> tuple[str | Path, str | int | None]:
    """`SESSION` or `SESSION@POINT` as reference and point; `@POINT` alone is one of the `other` session.

    A name or a path with an `@` in it counts before a point. NotFound, UsageError.
    """
    from rollout import NotFound, Store

    session, at, moment = text.rpartition("@")
    if not at:
        return reference(text, home), None
    if not session and other is not None:
        return reference_at(other, home=home)[0], point(moment)
    try:
        return Store(home).resolve(reference(text, home)), None
    except NotFound:
        return reference(session, home), point(moment)
