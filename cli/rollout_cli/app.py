"""The commands: what can be asked, and how the answer is printed.

What goes wrong is one line on standard error, `rollout: <what>; <what to do>`, and an exit code (see `failures`).
ROLLOUT_TRACEBACK=1 shows the traceback of an error in the program itself. A command imports what it needs when it runs.
"""

from __future__ import annotations

import enum
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from rollout_cli import terminal
from rollout_cli.failures import DAMAGE_FOUND, FINE, INTERRUPTED, READER_GONE, explain_failure
from rollout_cli.terminal import Output, progress

if TYPE_CHECKING:
    import rollout

_POSITION = re.compile(r"-[1-9][0-9]*")


class PositionCommand(TyperCommand):
    """A command whose argument may be a position: `-1` is the newest rollout, no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put positions behind `--`, unless they are the value of the option before them."""
        takes_value = {
            name
            for option in self.params
            if option.param_type_name == "option" and not getattr(option, "is_flag", False)
            for name in option.opts
        }
        end = args.index("--") if "--" in args else len(args)
        own: list[str] = []
        positions: list[str] = []
        for i, arg in enumerate(args[:end]):
            is_value = i > 0 and args[i - 1] in takes_value
            (positions if _POSITION.fullmatch(arg) and not is_value else own).append(arg)
        if positions or end < len(args):
            own += ["--", *positions, *args[end + 1 :]]
        return super().parse_args(ctx, own)


class Status(enum.StrEnum):
    """What can become of a line."""

    visible = "visible"
    replaced = "replaced"
    rolled_back = "rolled_back"
    removed = "removed"
    metadata = "metadata"
    event = "event"
    damaged = "damaged"
    blank = "blank"


Source = Annotated[
    str,
    typer.Argument(metavar="FILE|ID", help="Its path, its thread id or the beginning of one, or -1 for the newest."),
]
Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="Where the sessions are; else $ROLLOUT_HOME, $CODEX_HOME, ~/.codex."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]
Apply = Annotated[bool, typer.Option("--apply", help="Do it; a file that is written anew is backed up first.")]

app = typer.Typer(
    name="rollout",
    help="Read the session logs of coding agents: what the model sees, and why.",
    epilog="Exit codes: 0 fine, 1 damage found (verify, repair), 2 wrong usage, 3 could not read or write.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from rollout_cli import __version__

        Output().print([(f"rollout {__version__}",)])
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read the session logs of coding agents: what the model sees, and why."""


@app.command(cls=PositionCommand)
def reconstruct(source: Source, home: Home = None, json: Json = False) -> int:
    """Show the state to go on from."""
    from rollout_cli import documents, render

    out, state = Output(), _reconstruct(source, home)
    if json:
        out.print_json(documents.state(state))
    else:
        out.print(render.state(state, out.columns), cut=False)
    return FINE


@app.command(cls=PositionCommand)
def history(
    source: Source,
    home: Home = None,
    json: Json = False,
    newest: Annotated[int | None, typer.Option("-n", min=0, metavar="N", help="Only the newest N items.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="As it can be sent: each call with its output.")] = False,
) -> int:
    """List what the model sees."""
    from rollout_cli import documents, render

    out, state = Output(), _reconstruct(source, home)
    if prompt:
        items = state.for_prompt()
        items = items if newest is None else items[len(items) - min(newest, len(items)) :]
        if json:
            out.print_json(documents.prompt(items))
        else:
            out.print(render.history(items, out.columns, full=full))
    elif json:
        out.print_json(documents.history(state.history, newest))
    else:
        out.print(render.history(state.history, out.columns, newest=newest, full=full))
    return FINE


@app.command(cls=PositionCommand)
def turns(
    source: Source,
    home: Home = None,
    json: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Those that were undone, too.")] = False,
) -> int:
    """List the turns that stand."""
    import rollout
    from rollout_cli import documents, render

    out = Output()
    with progress() as advance:
        found = rollout.turns(_reference(source), home=home, progress=advance)
    if not found:
        _reconstruct(source, home)  # refuses what is no rollout at all
    listed = [turn for turn in found if turn.stands or everything]
    if json:
        out.print_json(documents.turns(listed))
    else:
        out.print(render.turns(listed, out.columns))
    return FINE


@app.command(cls=PositionCommand)
def explain(
    source: Source,
    home: Home = None,
    json: Json = False,
    line: Annotated[int | None, typer.Option("--line", min=1, metavar="N", help="Only line N, in a sentence.")] = None,
    status: Annotated[list[Status] | None, typer.Option("--status", help="Only lines of which this became.")] = None,
) -> int:
    """Tell for each line of the log why the model sees it, or does not."""
    import rollout
    from rollout_cli import documents, render
    from rollout_cli.kinds import name_kinds

    out = Output()
    with progress() as advance:
        lines = rollout.explain(_reference(source), home=home, progress=advance)
    has_records = any(each.status not in {Status.damaged, Status.blank} for each in lines)
    _check_is_rollout(next((each.path for each in lines), None), has_records)
    chosen: Iterable[rollout.Explained] = lines if line is None else _find_line(lines, line)
    if status:
        chosen = (each for each in chosen if each.status in status)
    places = name_kinds(chosen)
    if json:
        out.print_json(documents.explanation(places))
    elif line is None:
        out.print(render.explanation(places, out.columns))
    else:
        out.print(map(render.sentence, places), cut=False)
    return FINE


@app.command(cls=PositionCommand)
def verify(source: Source, home: Home = None, json: Json = False) -> int:
    """List all damage, and what else is odd. Exits with 1 if there is damage."""
    import rollout
    from rollout_cli import documents, render

    out = Output()
    with progress() as advance:
        report = rollout.verify(_reference(source), home=home, progress=advance)
    _check_is_rollout(report.path, report.records > 0 or not report.damage)
    if json:
        out.print_json(documents.report(report))
    else:
        out.print(render.report(report), cut=False)
    return DAMAGE_FOUND if report.damaged_lines else FINE


@app.command(cls=PositionCommand)
def repair(source: Source, home: Home = None, json: Json = False, apply: Apply = False) -> int:
    """Show how a damaged file can be mended, or do it. Exits with 1 if there is something to do."""
    import rollout
    from rollout_cli import documents, render

    out = Output()
    with progress() as advance:
        plan = rollout.plan_repair(_reference(source), home=home, progress=advance)
        done = rollout.apply_repair(plan, progress=advance) if apply and plan.steps else None
    if json:
        out.print_json(documents.repair(plan, done))
    else:
        out.print(render.repair(plan, done), cut=False)
    return FINE if done or not plan.steps else DAMAGE_FOUND


def main() -> NoReturn:
    """The entry point of `rollout`."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Prints one line for whatever goes wrong."""
    try:
        code = app(args=list(args), prog_name="rollout", standalone_mode=False) or FINE
        terminal.flush()
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return int(code)
    except (terminal.OutputClosed, SystemExit):  # typer exits by itself only where a reader has gone
        terminal.abandon_output()
        return READER_GONE
    except KeyboardInterrupt:
        left = "run it again to see what is left to do" if "--apply" in args else "nothing was changed"
        terminal.print_error(f"rollout: interrupted; {left}")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("ROLLOUT_TRACEBACK"):
            raise
        what, code = explain_failure(error)
        terminal.print_error(f"rollout: {what}")
        return code


def _reconstruct(source: str, home: str | None) -> rollout.State:
    import rollout

    with progress() as advance:
        state = rollout.reconstruct(_reference(source), home=home, progress=advance)
    _check_is_rollout(state.path, state.records_decoded > 0 or not state.damage)
    return state


def _check_is_rollout(path: str | os.PathLike[str] | None, has_records: bool) -> None:
    """Refuse a file that is all damage, unless its name says that it is a rollout: then it is a broken one."""
    if path is None or has_records or Path(path).name.startswith("rollout-"):
        return
    from rollout import NotARollout

    raise NotARollout(
        "no line of it is a record of a rollout", path=path, remedy="check the path, or give a thread id or -1"
    )


def _find_line(lines: Iterable[rollout.Explained], number: int) -> list[rollout.Explained]:
    """Line `number` of the log, and of each log that it goes on from."""
    from rollout.errors import UsageError

    found, last = [], 0
    for each in lines:
        if each.line == number:
            found.append(each)
        if each.inherited is None:
            last = each.line
    if not found:
        raise UsageError(f"there is no line {number}", remedy=f"give --line a number from 1 to {last}")
    return found


def _reference(source: str) -> str | int:
    """What the library takes: a position as an integer, all else as it is."""
    return int(source) if _POSITION.fullmatch(source) else source
