"""The index of a home: how far it is, and made anew."""

from typing import Annotated

import typer

from rollout_cli.failures import FINE, interruptible
from rollout_cli.homes import open_store
from rollout_cli.options import Home, Json
from rollout_cli.terminal import Output, progress


def index(
    home: Home = None,
    json: Json = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Throw it away first.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only tell how far it is.")] = False,
) -> int:
    """Bring the index of lists and searches up to date.

    They do it themselves, as far as they need it. It can be deleted at any time. Example: rollout index --status
    """
    from rollout_cli import documents_store, render_store

    store, out = open_store(home), Output()
    if not status:
        with interruptible("what was indexed is kept"), progress() as advance:
            store.refresh_index(rebuild, progress=advance)
    found = store.index_status()
    if json:
        out.print_json(documents_store.index(found))
    else:
        out.print(render_store.index(found), cut=False)
    return FINE
