"""Completion of a command line: the function that a shell runs for it, and what that function asks for.

The function starts the program with _ROLLOUT_COMPLETE=complete_<shell> and, as arguments, the words up to the cursor,
the unfinished one last. The answer is a candidate a line: a value without a space, then one, then what it means. A
value is an id, a name of plain letters, or a word of ours; a meaning is printable. No shell evaluates any of it.
Where there is no candidate, shells complete file names.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollout_cli.failures import FINE
from rollout_cli.terminal import Output

if TYPE_CHECKING:
    import typer

IDS_SHOWN = 50
"""As many of the newest sessions are offered: what is read of them is kept in the index."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""A name that no shell reads as anything but itself."""
_NARROWEST_HELP = 20
_MOST_BYTES = 64 * 1024 * 1024
"""Of a larger session neither turns nor kinds are offered: it would be read whole at each press of a key."""

Candidate = tuple[str, str]
"""A value, and what it means."""

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The function that one of the shells runs."""
    return (Path(__file__).parent / f"completion.{shell}").read_text("utf-8")


def complete(app: typer.Typer, instruction: str, words: Sequence[str]) -> int:
    """Print the candidates for the last of the words; the exit code."""
    out = Output()
    columns, shell = shutil.get_terminal_size().columns, instruction.removeprefix("complete_")
    if shell in SHELLS:
        found: dict[str, str] = {}  # a name that two sessions have is given once
        for value, meaning in candidates(app, words, takes_apart=shell == "bash"):
            found.setdefault(value, meaning)
        for value, meaning in found.items():
            line = " ".join(meaning.split())[: max(columns - len(value) - 4, _NARROWEST_HELP)]
            out.print([(f"{value} {line}",)])
    return FINE


def candidates(app: typer.Typer, words: Sequence[str], *, takes_apart: bool = False) -> Iterator[Candidate]:
    """What the last of the words can become, given those before it.

    Bash `takes_apart` words at each `=` and each `@`, and completes what is behind the one alone, what begins with the
    other.
    """
    import typer.main

    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    *before, word = words or [""]
    name, equals, value = word.partition("=")
    if takes_apart:
        before, word = [each for each in before if each != "="], "" if word == "=" else word
    elif equals and name.startswith("--"):
        yield from ((f"{name}={each}", meaning) for each, meaning in candidates(app, [*before, name, value]))
        return
    if not before:
        yield from ((name, _gist(each)) for name, each in commands.items() if name.startswith(word))
    elif before[0] in commands:
        yield from _completed(commands[before[0]], before[1:], word, takes_apart=takes_apart)


def _completed(command: Any, before: Sequence[str], word: str, *, takes_apart: bool) -> Iterator[Candidate]:
    options = {name: each for each in command.params for name in each.opts if each.param_type_name == "option"}
    option = options.get(before[-1]) if before else None
    lacks_value = option is not None and not option.is_flag
    ctx = command.make_context(command.name, [*(before[:-1] if lacks_value else before)], resilient_parsing=True)
    moment = None
    if any(each.name == "after" for each in command.params):
        moment = _moment(before, word, takes_apart=takes_apart)
    if moment is not None:
        yield from turns(ctx.params.get("home"), *moment)
    elif word.startswith("-"):
        yield from ((name, _gist(each)) for name, each in options.items() if name.startswith(word) and word != "-1")
    else:
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        left = [each for each in arguments if each.nargs == -1 or ctx.params.get(each.name) is None]
        for param in [option] if option is not None and lacks_value else left[:1]:
            yield from ((item.value, item.help or "") for item in param.shell_complete(ctx, word))


def _moment(before: Sequence[str], word: str, *, takes_apart: bool) -> tuple[str, str, str] | None:
    """Of `SESSION@TURN` and of `SESSION @TURN` the session, the turn, and what of it is not to be typed anew."""
    if "@" in word and not (takes_apart and word == "@"):
        session, _, turn = word.rpartition("@")
        return session or _session_of(before), turn, word[: len(word) - len(turn)]
    words = [*before, word]
    if not takes_apart or "@" not in words[-2:]:
        return None
    at = len(words) - 1 - words[::-1].index("@")
    return _session_of(words[:at]), "".join(words[at + 1 :]), "@"


def _session_of(before: Sequence[str]) -> str:
    """The session that the last of the words is, or is a moment of."""
    if len(before) >= 3 and before[-2] == "@":
        return before[-3]
    return before[-1].partition("@")[0] if before else ""


def turns(home: str | None, session: str, word: str, typed: str = "") -> Iterator[Candidate]:
    """The newest turns of a session whose ids begin with the word, behind what is typed already."""
    import rollout

    with contextlib.suppress(rollout.RolloutError, OSError):
        path = _small(home, session)
        found = () if path is None else rollout.turns(path, home=home)
        newest = {turn.id: turn.user or "" for turn in found[: -IDS_SHOWN - 1 : -1]}
        yield from ((typed + id, said) for id, said in newest.items() if id.startswith(word) and _PLAIN.fullmatch(id))


def kinds(home: str | None, session: str, word: str) -> Iterator[Candidate]:
    """The kinds of lines that a session has."""
    import rollout

    with contextlib.suppress(rollout.RolloutError, OSError):
        path = _small(home, session)
        found = {line.kind or line.type or "" for line in (() if path is None else rollout.explain(path, home=home))}
        yield from ((kind, "") for kind in sorted(found) if kind.startswith(word) and _PLAIN.fullmatch(kind))


def _small(home: str | None, session: str) -> Path | None:
    """The file of a session, unless it is too large. RolloutError, OSError."""
    from rollout import Store

    path = Store(home).resolve(session)
    return path if path.stat().st_size <= _MOST_BYTES else None


def sessions(home: str | None, word: str) -> Iterator[Candidate]:
    """The newest sessions whose id or plain name begins with the word."""
    from rollout import Store

    for row in Store(home).list(limit=IDS_SHOWN, archived=None, subagents=True, forks=True):
        if row.id.startswith(word.lower()):
            yield row.id, row.name or row.first_message or ""
        elif word and row.name and row.name.startswith(word) and _PLAIN.fullmatch(row.name):
            yield row.name, row.id


def _gist(param: Any) -> str:
    """The first sentence of a help text."""
    return (param.help or "").strip().split("\n")[0]
