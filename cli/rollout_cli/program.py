"""The program as typer builds it: the commands of the table, and the options that stand before them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Annotated

import typer

from rollout_cli.cells import NARROW_COLUMNS
from rollout_cli.commands import COMMANDS, module_of
from rollout_cli.options import PositionCommand, Program
from rollout_cli.terminal import NARROWEST_COLUMNS, Output


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
        app.command(name, cls=PositionCommand, rich_help_panel=COMMANDS[name])(getattr(module_of(name), name))
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
