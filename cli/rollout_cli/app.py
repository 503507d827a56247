"""A run of the program: from a command line to an exit code.

What goes wrong is one line on standard error, `rollout: <what>; <what to do>`, and an exit code (see `failures`).
ROLLOUT_TRACEBACK=1 shows the traceback of an error in the program itself.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rollout_cli import terminal
from rollout_cli.commands import COMMANDS
from rollout_cli.failures import FINE, INTERRUPTED, READER_GONE, Interrupted, explain_failure

COMPLETION_VARIABLE = "_ROLLOUT_COMPLETE"
"""Set by the shell's completion function to `complete_<shell>`: then the arguments are words to be completed."""
_YOUNG_OBJECTS = 50_000
"""How many new objects Python looks through for garbage at a time. At its own pace, of some hundreds, it would look all
the while that modules are imported, for a tenth of the time of a small command, and find nothing.
"""


def main() -> NoReturn:
    """The entry point of `rollout`."""
    gc.set_threshold(_YOUNG_OBJECTS)
    code = run(sys.argv[1:])
    gc.freeze()  # else Python would look through all that was imported once more, at its end
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Prints one line for whatever goes wrong."""
    try:
        from rollout_cli.program import make_app

        if shell := os.environ.get(COMPLETION_VARIABLE):
            from rollout_cli.completion import complete

            code = complete(make_app(), shell, args)
        else:
            code = make_app(_needed(args))(args=list(args), prog_name="rollout", standalone_mode=False) or FINE
        terminal.flush()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return int(code)
    except (terminal.OutputClosed, SystemExit):  # typer exits by itself only where a reader has gone
        terminal.abandon_output()
        return READER_GONE
    except Interrupted as stopped:
        terminal.print_error(f"rollout: interrupted; {stopped}")
        return INTERRUPTED
    except KeyboardInterrupt:
        terminal.print_error("rollout: interrupted; nothing was changed")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("ROLLOUT_TRACEBACK"):
            raise
        what, code = explain_failure(error)
        terminal.print_error(f"rollout: {what}")
        return code


def _needed(args: Sequence[str]) -> Iterable[str]:
    """The command that is asked for; all, where that or a list of them is unclear."""
    if args and args[0] in COMMANDS:
        return args[:1]
    return () if args and args[0] in {"-V", "--version"} else COMMANDS
