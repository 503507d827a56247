"""A home, the sessions and positions that one command line names in it, and what is done to each of them.

A position is a turn (its id, the beginning of it, or its end as a narrow terminal shows it), `ordinal:N`, `line:N`,
`offset:N`; behind an `@` too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import rollout
from rollout_cli.failures import FINE, LEFT, UNREADABLE, explain_error, interruptible
from rollout_cli.terminal import Output, fact, print_error
from rollout_cli.views import array

Node = tuple[int, "str | None", "rollout.SessionTree"]
"""A node of the tree: how deep it lies, the id of the one above."""
_NUMBERED = re.compile(r"(ordinal|line|offset):(.*)", re.DOTALL)
_DIGITS = re.compile(r"[0-9]{1,18}")
_THREAD = re.compile(r"rollout-.{19}-(?P<thread>[0-9a-f-]{36})[._]")


class Done(NamedTuple):
    """What was done to one file: where it lies now, in a `word`, what `more` there is to say, and for its JSON."""

    path: Path
    word: str
    style: str = "bold"
    more: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})


def open_store(home: str | None) -> rollout.Store:
    """The store of a home. NotFound if the user names one that is not there."""
    if home is not None and not Path(home).expanduser().is_dir():
        raise rollout.NotFound("no such home", path=home, remedy="check --home: it is the folder that holds `sessions`")
    return rollout.Store(home)


def reference(word: str, home: str | os.PathLike[str] | None) -> str:
    """The word, which the library takes as it is. Says so where a session is meant though a file has that name, too."""
    if Path(word).name == word and os.path.lexists(word):
        with contextlib.suppress(rollout.RolloutError):
            if rollout.Store(home).resolve(word).absolute() != Path(word).absolute():
                print_error(f"rollout: {word} is a session; the file of that name is {os.curdir}{os.sep}{word}")
    return word


def point(text: str | None) -> str | int | None:
    """What the library takes as `at`. UsageError."""
    if text is None:
        return None
    found = _NUMBERED.fullmatch(text)
    if found is not None and _DIGITS.fullmatch(found[2]):
        number = int(found[2])
        return {"ordinal": rollout.at_ordinal(number), "line": rollout.at_line(number)}.get(found[1], number)
    if found is not None or not text:
        remedy = "give a turn id, or a number: ordinal:12, line:40, offset:5916"
        raise rollout.UsageError(f"{text!r} is no point of a session", remedy=remedy)
    return text


def reference_at(text: str, other: str | None = None, home: str | None = None) -> tuple[str | Path, str | int | None]:
    """`SESSION` or `SESSION@POINT` as reference and point; `@POINT` alone is one of the `other` session.

    A name or a path with an `@` in it counts before a point. NotFound, UsageError.
    """
    session, at, moment = text.rpartition("@")
    if not at:
        return reference(text, home), None
    if not session and other is not None:
        return reference_at(other, home=home)[0], point(moment)
    try:
        return rollout.Store(home).resolve(reference(text, home)), None
    except rollout.NotFound:
        return reference(session, home), point(moment)


def resolve_all(store: rollout.Store, refs: Iterable[str], *, to_change: bool = True) -> list[Path]:
    """The files that the references name, each once. All are looked up before any is touched: -1 stays what it was.

    NotARollout if one of them is none, unless it is only read.
    """
    return list(dict.fromkeys(store.resolve(reference(ref, store.home), to_change=to_change) for ref in refs))


def do_each(
    paths: Iterable[Path],
    act: Callable[[Path], Done],
    *,
    json: bool,
    keys: str = "",
    left: str = LEFT,
    excused: tuple[type[Exception], ...] = (),
) -> int:
    """Act on each file, and say what became of it; what stands in the way of one does not keep the others from it.

    As JSON: [{id, path, …, error}], with the `keys` of what is done. The exit code is that of a failure if there was
    one that is not `excused`; `left` is what is said of the rest after an interrupt.
    """
    out, code = Output(), FINE
    documents: list[dict[str, Any]] = []
    with interruptible(left):
        for path in paths:
            told, facts = {"id": thread_of(path), "path": path}, dict.fromkeys(keys.split())
            try:
                done = act(path)
                documents.append({**told, "path": done.path, **facts, **done.facts, "error": None})
                if not json:
                    out.print([fact(done.word, f"{done.path}{done.more}", columns=11, style=done.style)])
            except rollout.RolloutError as error:
                code = code if isinstance(error, excused) else UNREADABLE
                documents.append({**told, **facts, "error": str(error)})
                if not json:
                    print_error(f"rollout: {explain_error(error)}")
    if json:
        out.print_json(array(documents))
    return code


def walk(roots: Iterable[rollout.SessionTree]) -> Iterator[Node]:
    """Every node before its children. A chain may be of any length."""
    waiting: list[Node] = [(0, None, node) for node in reversed(tuple(roots))]
    while waiting:
        depth, above, node = waiting.pop()
        yield depth, above, node
        waiting += [(depth + 1, node.row.id, child) for child in reversed(node.children)]


def thread_of(path: Path) -> str | None:
    """The thread id in a file's name."""
    found = _THREAD.match(path.name)
    return None if found is None else found["thread"]
