"""Completion of a command line: the function that a shell runs for it, and what that function asks for.

The function starts the program with _ROLLOUT_COMPLETE=complete_<shell> and, as arguments, the words up to the cursor,
the unfinished one last. The answer is a candidate a line: a value without a space, then one, then what it means. A
value is an id, a name of plain letters, or a word of ours; a meaning is printable. No shell evaluates any of it, which
is why these are not typer's own functions. Where there is no candidate, shells complete file names.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

import rollout
from rollout_cli.failures import FINE
from rollout_cli.terminal import Output, Wrapped

IDS_SHOWN = 50
"""As many of the newest sessions are offered: what is read of them is kept in the index."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""A name that no shell reads as anything but itself."""
_MOMENT = re.compile(r"(?:^|\s)([^\s@]+)(?:\s?@\s?[^\s@]*)?\s*@\s?([^\s@]*)$")
"""The end of a line in which a session and a turn of it are named: `-1@t`, `-1@s @t`; bash puts a space around an @."""
_NARROWEST_HELP = 20
_MOST_BYTES = 64 * 1024 * 1024
"""Of a larger session neither turns nor kinds are offered: it would be read whole at each press of a key."""

Candidate = tuple[str, str]
"""A value, and what it means."""

Shell = enum.StrEnum("Shell", "bash zsh fish")
"""The shells that there is a completion for."""


def completion(
    shell: Annotated[Shell | None, typer.Argument(help="Else the one in $SHELL.", show_default=False)] = None,
) -> int:
    """Print what makes a shell complete commands, options and ids.

    In ~/.bashrc: eval "$(rollout completion bash)". For zsh the same in ~/.zshrc, below compinit. For fish:
    rollout completion fish > ~/.config/fish/completions/rollout.fish
    """
    name = Path(os.environ.get("SHELL", "")).name if shell is None else shell.value
    if name not in list(Shell):
        raise rollout.UsageError("it is not clear which shell is meant", remedy="give bash, zsh or fish")
    Output().print(Wrapped((line,)) for line in script(name).splitlines())
    return FINE


def script(shell: str) -> str:
    """The function that one of the shells runs."""
    return (Path(__file__).parent / f"completion.{shell}").read_text("utf-8")


def complete(app: typer.Typer, instruction: str, words: Sequence[str]) -> int:
    """Print the candidates for the last of the words; the exit code."""
    out = Output()
    columns, shell = shutil.get_terminal_size().columns, instruction.removeprefix("complete_")
    if shell in list(Shell):
        found: dict[str, str] = {}  # a name that two sessions have is given once
        *before, word = words or [""]
        if shell == "bash":  # takes words apart at each =
            before, word = [each for each in before if each != "="], "" if word == "=" else word
        for value, meaning in _candidates(app, before, word):
            found.setdefault(value, meaning)
        for value, meaning in found.items():
            line = " ".join(meaning.split())[: max(columns - len(value) - 4, _NARROWEST_HELP)]
            out.print([(f"{value} {line}",)])
    return FINE


def _candidates(app: typer.Typer, before: list[str], word: str) -> Iterator[Candidate]:
    """What a word can become, given those before it."""
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    name, equals, value = word.partition("=")
    if equals and name.startswith("--"):
        yield from ((f"{name}={each}", meaning) for each, meaning in _candidates(app, [*before, name], value))
    elif not before:
        yield from ((name, _gist(each)) for name, each in commands.items() if name.startswith(word))
    elif before[0] in commands:
        yield from _completed(commands[before[0]], before[1:], word)


def _completed(command: Any, before: list[str], word: str) -> Iterator[Candidate]:
    options = {name: each for each in command.params for name in each.opts if each.param_type_name == "option"}
    option = options.get(before[-1]) if before else None
    lacks_value = option is not None and not option.is_flag
    ctx = command.make_context(command.name, before[:-1] if lacks_value else [*before], resilient_parsing=True)
    moment = _MOMENT.search(" ".join([*before, word])) if any(each.name == "after" for each in command.params) else None
    if moment is not None:
        session, turn = moment.groups()
        yield from _turns(ctx, session, turn, typed=word.removesuffix(turn) or "@")
    elif word.startswith("-"):
        yield from ((name, _gist(each)) for name, each in options.items() if name.startswith(word) and word != "-1")
    else:
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        left = [each for each in arguments if each.nargs == -1 or ctx.params.get(each.name) is None]
        for param in [option] if option is not None and lacks_value else left[:1]:
            yield from ((item.value, item.help or "") for item in param.shell_complete(ctx, word))


def _gist(param: Any) -> str:
    """The first sentence of a help text."""
    return (param.help or "").strip().split("\n")[0]


def sessions(ctx: typer.Context, incomplete: str) -> Iterator[Candidate]:
    """The newest sessions whose id or plain name begins so."""
    for row in rollout.Store(ctx.params.get("home")).list(limit=IDS_SHOWN, archived=None, subagents=True, forks=True):
        if row.id.startswith(incomplete.lower()):
            yield row.id, row.name or row.first_message or ""
        elif incomplete and row.name and row.name.startswith(incomplete) and _PLAIN.fullmatch(row.name):
            yield row.name, row.id


def turns(ctx: typer.Context, incomplete: str) -> Iterator[Candidate]:
    """The newest turns of the session that is named whose ids begin so."""
    return _turns(ctx, ctx.params.get("source") or "", incomplete)


def kinds(ctx: typer.Context, incomplete: str) -> Iterator[Candidate]:
    """The kinds of lines of the session that is named."""
    found = {line.kind or line.type or "" for line in _read(ctx, ctx.params.get("source") or "", rollout.explain)}
    return ((kind, "") for kind in sorted(found) if kind.startswith(incomplete) and _PLAIN.fullmatch(kind))


def _turns(ctx: typer.Context, session: str, word: str, typed: str = "") -> Iterator[Candidate]:
    """The newest turns of a session whose ids begin with the word, behind what is `typed` already."""
    newest = {turn.id: turn.user or "" for turn in _read(ctx, session, rollout.turns)[: -IDS_SHOWN - 1 : -1]}
    return ((typed + id, said) for id, said in newest.items() if id.startswith(word) and _PLAIN.fullmatch(id))


def _read(ctx: typer.Context, session: str, read: Callable[..., Iterable[Any]]) -> Sequence[Any]:
    """What is read of a session; nothing of one that is too large or that cannot be read."""
    home = ctx.params.get("home")
    with contextlib.suppress(rollout.RolloutError, OSError):
        path = rollout.Store(home).resolve(session)
        if path.stat().st_size <= _MOST_BYTES:
            return list(read(path, home=home))
    return ()
