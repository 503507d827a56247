"""The program as typer builds it: the commands of the table, how they read their words, the options before them."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rollout_cli import __version__
from rollout_cli.cells import NARROW_COLUMNS
from rollout_cli.commands import COMMANDS, module_of
from rollout_cli.terminal import NARROWEST_COLUMNS, Output

POSITION_AT = re.compile(r"-[1-9][0-9]*(@.*)?", re.DOTALL)
"""A word that is no option, though it begins as one: a position, or a moment of it. Only ASCII digits count."""


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; each takes a while to build."""
    names, columns = tuple(names), shutil.get_terminal_size().columns
    is_narrow = len(names) == 1 and columns < NARROW_COLUMNS  # the frames of a command's help would cut its options
    context: dict[str, object] = {"help_option_names": ["-h", "--help"]}
    app = typer.Typer(
        name="rollout",
        cls=Program,
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
        Output().print([(f"rollout {__version__}",)])
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read and keep the session logs of coding agents: what the model sees, and why."""


class PositionCommand(TyperCommand):
    """A command whose arguments may be positions: `-1` is the newest rollout, no option."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Every argument and option."""
        return _spared(super().get_params(ctx))

    def make_parser(self, ctx: Any) -> Any:
        """One that takes a position as an argument wherever it stands."""
        parser: Any = super().make_parser(ctx)
        take_option = parser._process_opts

        def take(word: str, state: Any) -> None:
            if POSITION_AT.fullmatch(word):
                state.largs.append(word)
            else:
                take_option(word, state)

        parser._process_opts = take
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; what is wrong with them says whose they are, which the lack of a value would not."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            told: Any = error
            told.ctx = ctx
            raise


class Program(TyperGroup):
    """The commands, and the options that stand before them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Every option."""
        return _spared(super().get_params(ctx))


def _spared(params: list[Any]) -> list[Any]:
    """Let typer convert only what is not of its type already: for that it imports pydantic, which takes its time."""
    for param in params:
        if "process_value" not in vars(param):
            param.process_value = functools.partial(_process_value, param, param.process_value)
    return params


def _process_value(param: Any, convert: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    if ctx.resilient_parsing:  # a line that is being completed
        return value
    wanted = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if value is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif not (isinstance(wanted, type) and isinstance(value, wanted)):
        return convert(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)
