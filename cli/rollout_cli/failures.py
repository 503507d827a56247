"""Failures in one line: `<what>; <what to do>`, and the exit code that goes with it.

FINE, DAMAGE_FOUND (`verify` only), WRONG_USAGE and UNREADABLE are promised to scripts. INTERRUPTED and READER_GONE are
what the shell would report if the signal had ended the program.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import rollout
from rollout_cli.terminal import NoOutput

if TYPE_CHECKING:
    import typer

FINE, DAMAGE_FOUND, WRONG_USAGE, UNREADABLE, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 130, 141

LEFT = "what was done stands, the rest is as it was; run it again to go on"
"""What is said of several files after an interrupt."""


class Interrupted(Exception):
    """A command that changes things was stopped by the user; the message says what that has left."""


@contextlib.contextmanager
def interruptible(left: str = LEFT) -> Iterator[None]:
    """What is done inside changes files, each of them whole or not at all: an interrupt says what it has `left`."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(left) from None


def explain_failure(error: Exception) -> tuple[str, int]:
    """What happened and what to do, and the exit code."""
    import typer

    if isinstance(error, typer.TyperException):
        return _explain_usage(error), WRONG_USAGE
    if isinstance(error, rollout.RolloutError):
        return explain_error(error), WRONG_USAGE if isinstance(error, rollout.UsageError) else UNREADABLE
    if isinstance(error, NoOutput):
        return f"{error}; send it to a file or a pipe that can take it", UNREADABLE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}; check that it can be read", UNREADABLE
    if isinstance(error, MemoryError):
        return "not enough memory; give the program more, or compact the session", UNREADABLE
    what = f"error in rollout itself ({type(error).__name__}: {error})"
    return f"{what}; set ROLLOUT_TRACEBACK=1 and report what it shows", UNREADABLE


def explain_error(error: rollout.RolloutError) -> str:
    """An error of the library, and what to do, also where it gives no remedy of its own."""
    match error:
        case rollout.RolloutError(remedy=str()):
            return str(error)
        case rollout.UsageError():
            return f"{error}; see rollout --help"
        case rollout.RecordError():
            return f"{error}; rollout verify lists what is odd in the file"
        case rollout.WriteError():
            return f"{error}; check that there is room, and who may write there, and run it again"
    return f"{error}; check the file and who may read it"


def _explain_usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = "rollout" if context is None else context.command_path
    what = error.format_message().rstrip(".").replace(": Value error, ", ": ")  # words of what converts the value
    what = re.sub(r"\. Did you mean (.*)\?$", r" (did you mean \1?)", what)
    return f"{what[:1].lower()}{what[1:]}; see {command} --help"
