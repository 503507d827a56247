"""Completion of a command line: the function that a shell runs for it, and what that function asks for.

The function starts the program with _ROLLOUT_COMPLETE=complete_<shell> and, as arguments, the words up to the cursor,
the unfinished one last. The answer is a candidate a line: a value without a space, then one, then what it means. A
value is an id, a name of plain letters, or a word of ours; a meaning is printable. No shell evaluates any of it.
Where there is no candidate, shells complete file names.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rollout_cli.failures import FINE
from rollout_cli.options import CHOICES, POSITION_AT
from rollout_cli.terminal import Output

if TYPE_CHECKING:
    import typer

IDS_SHOWN = 50
"""As many of the newest sessions are offered: what is read of them is kept in the index."""
_REFERENCES = frozenset({"source", "ref", "refs", "before", "after"})
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""A name that no shell reads as anything but itself."""
_NARROWEST_HELP = 20
_TURNS_BYTES = 64 * 1024 * 1024
"""Of a larger session no turns are offered: it would be read whole at each press of a key."""

Candidate = tuple[str, str]
"""A value, and what it means."""

SCRIPTS = {
    "bash": """\
_rollout_completion() {
    local line
    local -a found=()
    while IFS= read -r line; do
        found+=("$line")
    done < <(_ROLLOUT_COMPLETE=complete_bash COLUMNS=${COLUMNS:-80} "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # What a value means is shown beside it while there is a choice, but never inserted.
    if [[ ${#found[@]} -eq 1 || ${COMP_TYPE:-9} == 37 || ${COMP_TYPE:-9} == 42 ]]; then
        found=("${found[@]%% *}")
    fi
    COMPREPLY=("${found[@]}")
}
complete -o default -o nosort -F _rollout_completion rollout
""",
    "zsh": """\
#compdef rollout
_rollout() {
    local line
    local -a found
    while IFS= read -r line; do
        if [[ $line == *' '* ]]; then
            found+=("${line%% *}:${${line#* }//\\\\/\\\\\\\\}")
        elif [[ -n $line ]]; then
            found+=("$line")
        fi
    done < <(_ROLLOUT_COMPLETE=complete_zsh COLUMNS=$COLUMNS "${words[1]}" "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe -V rollout found
    else
        compset -P '--*='
        _files
    fi
}
compdef _rollout rollout
""",
    "fish": """\
function __rollout_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -lx _ROLLOUT_COMPLETE complete_fish
    set -g __rollout_found (rollout $words (commandline -ct) 2>/dev/null | string replace ' ' \\t)
    set -q __rollout_found[1]
end
# Where nothing is found, fish completes file names.
complete -c rollout -n __rollout_complete -f -k -a '$__rollout_found'
""",
}


def complete(app: typer.Typer, instruction: str, words: Sequence[str]) -> int:
    """Print the candidates for the last of the words; the exit code."""
    out = Output()
    columns, shell = shutil.get_terminal_size().columns, instruction.removeprefix("complete_")
    if shell in SCRIPTS:
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
        found = _completed(commands, [*before, name], value, takes_apart=False)
        yield from ((f"{name}={each}", meaning) for each, meaning in found)
        return
    yield from _completed(commands, before, word, takes_apart=takes_apart)


def _completed(commands: dict[str, Any], before: Sequence[str], word: str, *, takes_apart: bool) -> Iterator[Candidate]:
    if not before:
        yield from ((name, _gist(each)) for name, each in commands.items() if name.startswith(word))
    elif before[0] in commands:
        command = commands[before[0]]
        options = {name: each for each in command.params for name in each.opts if each.param_type_name == "option"}
        moment = (
            _moment(before[1:], word, takes_apart=takes_apart)
            if any(each.name == "after" for each in command.params)
            else None
        )
        if moment is not None:
            yield from _turns(_home(before), *moment)
        elif word.startswith("-"):
            yield from ((name, _gist(each)) for name, each in options.items() if name.startswith(word) and word != "-1")
        elif before[-1] in {"--at", "--turn"} & options.keys():
            given = list(_given(options, before[1:-1]))
            yield from _turns(_home(before), given[0] if given else "", word, "")
        elif before[-1] in options and not options[before[-1]].is_flag:
            choices = CHOICES.get(f"{before[0]} {before[-1]}", CHOICES.get(before[-1], ()))
            yield from ((value, "") for value in choices if value.startswith(word))
        else:
            yield from _arguments(command, options, before[1:], word)


def _arguments(command: Any, options: dict[str, Any], before: Sequence[str], word: str) -> Iterator[Candidate]:
    given = len(list(_given(options, before)))
    takes = [each for each in command.params if each.param_type_name == "argument"]
    wanted = takes[min(given, len(takes) - 1)] if takes and (given < len(takes) or takes[-1].nargs == -1) else None
    if wanted is not None and wanted.name in _REFERENCES:
        yield from _sessions(_home(before), word)
    elif wanted is not None:
        yield from ((value, "") for value in CHOICES.get(wanted.name, ()) if value.startswith(word))


def _given(options: dict[str, Any], before: Sequence[str]) -> Iterator[str]:
    """The arguments among the words: those that are no options and no values of options."""
    words = iter(before)
    for each in words:
        if each in options and not options[each].is_flag:
            next(words, "")
        elif not each.startswith("-") or POSITION_AT.fullmatch(each):
            yield each


def _home(before: Sequence[str]) -> str | None:
    """The home that the words name; the last one counts."""
    home = None
    for name, value in itertools.pairwise([*before, ""]):
        if name == "--home":
            home = value
        elif name.startswith("--home="):
            home = name.partition("=")[2]
    return home


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


def _turns(home: str | None, session: str, word: str, typed: str) -> Iterator[Candidate]:
    """The newest turns of a session whose ids begin with the word, behind what is typed already."""
    import rollout

    try:
        path = rollout.Store(home).resolve(session)
        found = rollout.turns(path, home=home) if path.stat().st_size <= _TURNS_BYTES else ()
    except (rollout.RolloutError, OSError):
        return
    newest = {turn.id: turn.user or "" for turn in found[: -IDS_SHOWN - 1 : -1]}
    yield from ((typed + id, said) for id, said in newest.items() if id.startswith(word) and _PLAIN.fullmatch(id))


def _sessions(home: str | None, word: str) -> Iterator[Candidate]:
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
