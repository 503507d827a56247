"""What a look over a home finds fault with, and the command that helps against it.

A *problem* costs somebody something now: lines, a history, or that Codex goes on with the session. The rest is advice.
Codex not going on says nothing about this library, which goes on with whatever can be read.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from rollout.files.layout import default_home

PROBLEMS = ("unreadable", "empty", "foreign", "resume", "base", "sealed", "damaged", "torn", "rescued", "names")
ADVICE = ("lineage", "large", "leftover", "rest", "name", "kept", "odd", "index")
KINDS = (*PROBLEMS, *ADVICE)
"""In the order in which they are told.

    unreadable  the file cannot be read: permissions, a missing key, a disk that fails
    empty       nothing stands in it, or a first line that was cut short
    foreign     no line of it is a record of a rollout
    resume      Codex does not go on with it, for what its lines say;  base: nor with one whose base is missing
    sealed      frames of a sealed file are damaged;  damaged: lines are;  torn: a crash cut its end short
    rescued     a file holds the lines of one that another program took away while it was written to
    names       lines of session_index.jsonl are lost, or all of it
    lineage     a base ends elsewhere than it is said, or two files have the same id
    large       it holds more than a list, a search or this look reads of one file
    leftover    what a crash left of a command
    rest        sessions that nobody wrote to for long, and that are not sealed
    name        two threads have the same name, so that it leads to neither
    kept        what repairs kept beside;  odd: a file that is passed over, for its name say;  index: it is not kept
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, of the file at `path` (None: of the home) and its `thread`; `what` says it in words.

    `command` is what helps, as a program and its arguments, None where there is no such command; `remedy` says what it
    does, or what else there is to do. `resumes`: whether Codex goes on with the session all the same. `bytes` is what
    can be given back, or what it takes.
    """

    kind: str
    path: Path | None
    thread: str | None
    what: str
    remedy: str
    command: tuple[str, ...] | None = None
    resumes: bool = True
    bytes: int | None = None

    @property
    def is_problem(self) -> bool:
        """Whether it is more than advice."""
        return self.kind in PROBLEMS

    @property
    def order(self) -> tuple[int, str, str]:
        """Sorts by kind, newest file first by its name."""
        name = "" if self.path is None else "".join(chr(0x10FFFF - ord(c)) for c in self.path.name)
        return KINDS.index(self.kind), name, self.what


def command_in(home: Path, *words: str | os.PathLike[str]) -> tuple[str, ...]:
    """A command of the program for this home, which it names unless it is the default one."""
    is_default = home == default_home().absolute()
    return ("rollout", *(os.fspath(word) for word in words), *(() if is_default else ("--home", os.fspath(home))))
