"""A session followed while it is written."""

from typing import Annotated

import typer

from rollout_cli import options, terminal
from rollout_cli.failures import FINE
from rollout_cli.homes import reference
from rollout_cli.options import Home, Source, Status
from rollout_cli.terminal import Output, print_error


def tail(
    source: Source,
    home: Home = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys, an object a line.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    last: Annotated[
        int,
        typer.Option(
            "-n", min=0, metavar="N", help="The newest N lines to begin with; what chooses lines chooses among them."
        ),
    ] = 10,
    everything: Annotated[bool, typer.Option("--all", help="Begin with the first line.")] = False,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only such lines: message, turn_context, …")
    ] = None,
    status: Annotated[list[Status] | None, typer.Option("--status", help="Only lines of which this became.")] = None,
    turn: Annotated[str | None, typer.Option("--turn", metavar="ID", help="Only lines of this turn.")] = None,
    interval: Annotated[
        str,
        typer.Option("--interval", metavar="AGE", help="How often to look: 1s, 5s; four times a second unless said."),
    ] = "",
) -> int:
    """Print the newest lines of a session, and follow it as it is written.

    Tells too when the file is cut, replaced, sealed, moved or deleted, when
    the thread goes on in another file, and what a rollback or a compaction
    took from the model of the lines above.

    Example: rollout tail -f -1 --kind function_call --kind function_call_output
    """
    import rollout
    from rollout_cli import documents_tail, render_tail

    out, is_silent = Output(), True
    for told in rollout.tail(
        reference(source, home),
        last=None if everything else last,
        follow=follow,
        kinds=kind or (),
        statuses=[each.value for each in status or ()],
        turn=turn,
        home=home,
        interval_s=options.age(interval).total_seconds() if interval else 0.25,
    ):
        is_silent = False
        if json:
            out.print_json(documents_tail.told(told))
        else:
            out.print([render_tail.told(told, out.columns)])
        if follow:
            terminal.flush()
    if is_silent and (kind or status or turn) and not (json or everything):
        print_error(f"rollout: none of the newest {last} lines is one of these; --all looks at every line")
    return FINE
