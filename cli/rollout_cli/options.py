"""Arguments and options that several commands share.

A *reference* is what names a rollout: a thread id or the beginning of one, a name, a path, or `-1` for the newest.
"""

from __future__ import annotations

import datetime
import enum
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import rollout
from rollout_cli.completion import sessions, turns

_AGE = re.compile(r"([0-9]{1,5})\s*([smhdw])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_REFERENCE = "The id of a session or the beginning of one, its name, its path, or -1 for the newest."

Status = enum.StrEnum("Status", "visible replaced rolled_back removed metadata event damaged blank")
"""What can become of a line."""
Sort = enum.StrEnum("Sort", "created updated")
"""What a list is sorted by."""
Kind = enum.StrEnum("Kind", "user assistant tool_call tool_output")
"""What a text that was searched stands in."""
Ignored = enum.StrEnum("Ignored", "outputs context reasoning")
"""What may be different in a request to a recording."""
Form = enum.StrEnum("Form", "html md json jsonl openai")
"""What a session can be written as for others."""

Source = Annotated[str, typer.Argument(metavar="FILE|ID", help=_REFERENCE, autocompletion=sessions)]
Reference = Annotated[str, typer.Argument(metavar="ID", help=_REFERENCE, autocompletion=sessions)]
References = Annotated[list[str], typer.Argument(metavar="ID...", help=_REFERENCE, autocompletion=sessions)]
SomeReferences = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID...]", help=f"Only these. {_REFERENCE}", show_default=False, autocompletion=sessions),
]
Before = Annotated[
    str,
    typer.Argument(
        metavar="A[@POSITION]",
        help="A session; @POSITION is a turn id or the beginning of one, ordinal:N, line:N or offset:N.",
        autocompletion=sessions,
    ),
]
After = Annotated[
    str,
    typer.Argument(metavar="B[@POSITION]", help="Another; @POSITION alone is one of A.", autocompletion=sessions),
]
Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="Where the sessions are; else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]
TurnId = Annotated[
    str | None, typer.Option("--turn", metavar="ID", help="Only lines of this turn.", autocompletion=turns)
]
SessionId = Annotated[str | None, typer.Option("--session-id", metavar="ID", help="Only what carries this session id.")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="Only what carries this tag; all of them, if given several times."),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="POSITION",
        autocompletion=turns,
        help="As it was then: behind a turn (its id or the beginning of it), ordinal:N, line:N or offset:N.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N.")]
Cursor = Annotated[str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the last page ended.")]
Cwd = Annotated[str | None, typer.Option("--cwd", metavar="DIR", help="Only sessions in this directory or below.")]
Provider = Annotated[str | None, typer.Option("--provider", metavar="NAME", help="Only sessions of this provider.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only sessions of this model.")]
From = Annotated[str | None, typer.Option("--source", metavar="NAME", help="Only sessions from there: cli, exec, …")]
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help="Not older: 2026-03-20, or 7d for an age.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Not newer; dates as with --since.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only sessions whose name has this in it.")]
Damaged = Annotated[
    bool | None, typer.Option("--damaged/--undamaged", help="Only with damage, or without.", show_default=False)
]
Archived = Annotated[bool, typer.Option("--archived", help="Only archived sessions.")]
WithArchived = Annotated[bool, typer.Option("--with-archived", help="Archived sessions, too.")]


def selection(
    cwd: Cwd = None,
    provider: Provider = None,
    model: Model = None,
    source: From = None,
    since: Since = None,
    until: Until = None,
    archived: Archived = False,
    with_archived: WithArchived = False,
    name: Name = None,
    session_id: SessionId = None,
    tag: Tags = None,
    damaged: Damaged = None,
) -> dict[str, Any]:
    """The options that choose sessions, as the library takes them."""
    return {
        "cwd": None if cwd is None else directory(cwd),
        "model_provider": provider,
        "model": model,
        "source": source,
        "since": moment(since),
        "until": moment(until, ends=True),
        "archived": None if with_archived else archived,
        "name": name,
        "session_id": session_id,
        "tags": tags(tag),
        "damaged": damaged,
    }


def selects(command: Callable[..., int]) -> Callable[..., int]:
    """A command that has the options of `selection`, too, and is given what they say as `filters`."""
    own, shared = inspect.signature(command), inspect.signature(selection, eval_str=True)

    @functools.wraps(command)
    def run(**given: Any) -> int:
        return command(filters=selection(**{name: given.pop(name) for name in shared.parameters}), **given)

    parameters = [each for each in own.parameters.values() if each.name != "filters"]
    run.__signature__ = own.replace(parameters=[*parameters, *shared.parameters.values()])  # type: ignore[attr-defined] # what typer reads
    return run


def tags(given: list[str] | None) -> dict[str, str] | None:
    """`--tag KEY=VALUE` as the library takes it. UsageError without the `=`."""
    if not given:
        return None
    for each in given:
        if "=" not in each:
            raise rollout.UsageError(f"{each!r} is no tag", remedy="give --tag KEY=VALUE")
    return {key: value for key, _, value in (each.partition("=") for each in given)}


def directory(text: str) -> str:
    """A directory as sessions record it: `.` and `~` are meant as the shell means them."""
    path = Path(text).expanduser()
    return str(path if path.is_absolute() else path.resolve())


def age(text: str) -> datetime.timedelta:
    """`30d`, `12h`, `2w` as a span of time. UsageError for anything else."""
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise rollout.UsageError(f"{text!r} is no age", remedy="give a number and s, m, h, d or w: 30d, 12h, 2w")
    return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(text: str | None, *, ends: bool = False) -> datetime.datetime | None:
    """A date, a time (in the local zone, unless it names another) or an age as a point in time. UsageError.

    A date is its first moment; where it `ends` a span, that of the next day.
    """
    if text is None:
        return None
    if _AGE.fullmatch(text.strip().lower()):
        return datetime.datetime.now(datetime.UTC) - age(text)
    try:
        day = datetime.timedelta(days=1 if ends and _DATE.fullmatch(text.strip()) else 0)
        return (datetime.datetime.fromisoformat(text.strip()) + day).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise rollout.UsageError(
            f"{text!r} is no date", remedy="give 2026-03-20, 2026-03-20T10:00, or an age: 7d"
        ) from None
