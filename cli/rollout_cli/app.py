"""The program: which commands there are, and what one run of it comes to.

What goes wrong is one line on standard error, `rollout: <what>; <what to do>`, and an exit code (see `failures`).
ROLLOUT_TRACEBACK=1 shows the traceback of an error in the program itself.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, NoReturn

import typer

from rollout_cli import terminal
from rollout_cli.cells import NARROW_COLUMNS
from rollout_cli.failures import FINE, INTERRUPTED, READER_GONE, Interrupted, explain_failure
from rollout_cli.options import PositionCommand, Program
from rollout_cli.terminal import NARROWEST_COLUMNS, Output

COMPLETION_VARIABLE = "_ROLLOUT_COMPLETE"
"""Set by the shell's completion function to `complete_<shell>`: then the arguments are words to be completed."""
COMMANDS = {  # in the order of --help: the module in `commands` that has the function, and what it is listed under
    **dict.fromkeys(("reconstruct", "history", "turns", "explain", "verify", "repair"), ("reading", "Read a session")),
    "replay": ("replaying", "Read a session"),
    "show": ("showing", "Read a session"),
    "export": ("exporting", "Read a session"),
    "diff": ("comparing", "Read a session"),
    "tail": ("tailing", "Read a session"),
    **dict.fromkeys(("ls", "tree", "search"), ("finding", "Find sessions")),
    "index": ("indexing", "Find sessions"),
    "stats": ("showing", "Find sessions"),
    **dict.fromkeys(("name", "archive", "unarchive", "rm"), ("keeping", "Keep them")),
    **dict.fromkeys(("seal", "unseal"), ("sealing", "Keep them")),
    **dict.fromkeys(("encrypt", "rekey", "decrypt"), ("encrypting", "Keep them")),
    **dict.fromkeys(("du", "vacuum"), ("room", "Keep them")),
    "doctor": ("health", "Keep them"),
    **dict.fromkeys(("sessions", "read", "mcp"), ("context", "For agents")),
    "serve": ("serving", "For agents"),
    "completion": ("shell", "For the shell"),
}


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; each takes a while to build."""
    names, columns = tuple(names), shutil.get_terminal_size().columns
    is_narrow = len(names) == 1 and columns < NARROW_COLUMNS  # the frames of a command's help would cut its options
    context: dict[str, object] = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(
        name="rollout",
        cls=Program,
        help="Read and keep the session logs of coding agents: what the model sees, and why.",
        epilog="Exit codes: 0 fine, 1 damage found (verify, repair, doctor), 2 wrong usage, 3 could not read or write.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=context | ({"terminal_width": max(columns, NARROWEST_COLUMNS)} if is_narrow else {}),
        rich_markup_mode=None if is_narrow else "rich",
    )
    app.callback()(_options)
    for name in names:
        module, panel = COMMANDS[name]
        function = getattr(importlib.import_module(f"rollout_cli.commands.{module}"), name)
        app.command(name, cls=PositionCommand, rich_help_panel=panel)(function)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from rollout_cli import __version__

        Output().print([(f"rollout {__version__}",)])
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read and keep the session logs of coding agents: what the model sees, and why."""


def main() -> NoReturn:
    """The entry point of `rollout`."""
    code = run(sys.argv[1:])
    gc.freeze()  # at its end Python looks for garbage in all that was imported: as long as many a command takes
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Prints one line for whatever goes wrong."""
    try:
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
