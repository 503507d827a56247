"""Two states side by side: diff."""

from typing import Annotated

import typer

from rollout_cli.failures import FINE
from rollout_cli.options import Home, Json
from rollout_cli.terminal import Output, progress

_POINT = "@POINT is a turn id or the beginning of one, ordinal:N, line:N or offset:N."


def diff(
    before: Annotated[str, typer.Argument(metavar="A[@POINT]", help=f"A session, or a moment of it. {_POINT}")],
    after: Annotated[str, typer.Argument(metavar="B[@POINT]", help="Another; @POINT alone is a moment of A.")],
    home: Home = None,
    json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="Whole texts.")] = False,
    why: Annotated[bool, typer.Option("--why", help="What took away the items that went. Reads everything.")] = False,
) -> int:
    """Show what differs between two moments of a session, two sessions, or a fork and what it comes from.

    Items that came are marked +, those that went -; what only programs read of an item does not count.

    Example: rollout diff -1@line:40 -1

    Example: rollout diff 019d@01a1fff6-9aef @01a1fff6-9b19 --why
    """
    import rollout
    from rollout_cli import documents_diff, render_diff
    from rollout_cli.commands.reading import check_is_rollout
    from rollout_cli.points import reference_at

    out = Output()
    states = []
    for ref, at in (reference_at(before, home=home), reference_at(after, before, home)):
        with progress() as advance:
            states.append(rollout.reconstruct(ref, at=at, home=home, progress=advance))
        check_is_rollout(states[-1].path, states[-1].records_decoded > 0 or not states[-1].damage)
    found = rollout.diff(*states)
    fates = found.fates() if why else ()
    if json:
        out.print_json(documents_diff.diff(found, fates))
    else:
        out.print(render_diff.head(found), cut=False)
        out.print(render_diff.items(found, out.columns, fates, full=full))
    return FINE
