"""Room: what takes it, and what can be given back."""

from typing import Annotated

import typer

from rollout_cli.failures import FINE, interruptible
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


def vacuum(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it.")] = False,
    legacy_forks: Annotated[
        bool, typer.Option("--legacy-forks", help="Forks that Codex cannot go on with afterwards, too.")
    ] = False,
    event_images: Annotated[
        bool, typer.Option("--event-images", help="Pictures that events repeat, too; Codex shows them from there.")
    ] = False,
) -> int:
    """Show which copies can be taken out of sessions, or do it.

    Forks that copied their source refer to it instead, and data that stands twice goes once. A file is only replaced if
    what is read from it stays the same. Example: rollout vacuum --apply
    """
    from rollout_cli import documents_room, render_room

    store, out = open_store(home), Output()
    paths = resolve_all(store, refs) if refs else None
    left = "each file is either done or as it was; run it again to go on" if apply else "nothing was changed"
    with interruptible(left), progress() as advance:
        outcome = store.vacuum(
            paths, apply=apply, legacy_forks=legacy_forks, event_images=event_images, progress=advance
        )
    if json:
        out.print_json(documents_room.vacuum(outcome))
    else:
        out.print(render_room.vacuum(outcome), cut=False)
    return FINE
