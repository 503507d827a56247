"""Room: what takes it, and what can be given back."""

from typing import Annotated

import typer

from rollout_cli.failures import FINE
from rollout_cli.homes import open_store, resolve_all
from rollout_cli.options import Home, Json, SomeReferences
from rollout_cli.terminal import Output, progress


def du(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    each: Annotated[bool, typer.Option("--each", help="Of every session, too.")] = False,
) -> int:
    """Tell what takes the room, and what sealing would give back.

    Example: rollout du --each
    """
    from rollout_cli import documents_room, render_room

    store, out = open_store(home), Output()
    paths = resolve_all(store, refs, to_change=False) if refs else None
    with progress() as advance:
        room = store.du(paths, progress=advance)
    if json:
        out.print_json(documents_room.room(room))
    else:
        out.print(render_room.room(room, out.columns, each=each))
    return FINE
