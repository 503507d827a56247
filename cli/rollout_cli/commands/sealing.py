"""Rollouts packed, and unpacked again."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout_cli import options
from rollout_cli.failures import FINE, UNREADABLE, interruptible, tell
from rollout_cli.homes import do_and_tell, do_each, open_store, resolve_all, walk
from rollout_cli.options import Home, Json, References, SomeReferences
from rollout_cli.terminal import Output, print_error, progress

if TYPE_CHECKING:
    import rollout

_LEFT = "each session is either sealed or as it was; run it again to go on"


def seal(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="All that were not written for so long: 30d, 12h.")
    ] = None,
    level: Annotated[int, typer.Option("--level", min=1, max=22, metavar="N", help="How hard to pack.")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be sealed.")] = False,
) -> int:
    """Pack sessions to a fraction of their size.

    They are read as before, also by any program that knows Zstandard. Writing to one unpacks it first.
    Example: rollout seal --older-than 30d --dry-run
    """
    from rollout.errors import Locked, UsageError
    from rollout_cli import documents_store, render_store

    if (older_than is None) == (not refs):
        raise UsageError("give ids, or --older-than", remedy="see rollout seal --help")
    store = open_store(home)
    if older_than is None:
        paths = resolve_all(store, refs or [])
    else:
        paths = list(_older(store, options.age(older_than)))

    def act(path: Path) -> "rollout.SealResult | None":
        if dry_run:
            return None
        with progress() as advance:
            return store.seal(path, level=level, progress=advance)

    out, done, failed = Output(), [], False
    with interruptible(_LEFT):
        for deed in do_each(paths, act):
            skipped = older_than is not None and isinstance(deed.error, Locked)  # in use: it will be old again
            failed = failed or (deed.error is not None and not skipped)
            done.append(deed)
            if deed.error is not None and not json:
                print_error(f"rollout: {tell(deed.error)}")
            elif not json:
                out.print([render_store.sealed(deed)], cut=False)
    if json:
        out.print_json(documents_store.sealed(done))
    else:
        out.print(render_store.sealed_in_sum(done))
        if not paths:
            print_error(f"rollout: no plain session in {store.home} is older than {older_than}")
    return UNREADABLE if failed else FINE


def unseal(refs: References, home: Home = None, json: Json = False) -> int:
    """Unpack sealed sessions: the plain files are there again.

    Example: rollout unseal -1
    """
    store = open_store(home)

    def act(path: Path) -> Path:
        with progress() as advance:
            return store.unseal(path, progress=advance)

    return do_and_tell(resolve_all(store, refs), "unsealed", act, json)


def _older(store: "rollout.Store", age: datetime.timedelta) -> Iterator[Path]:
    """The plain files that were last written that long ago, reverts and archived ones too."""
    before = datetime.datetime.now(datetime.UTC) - age
    with progress("sessions") as advance:
        nodes = store.tree(progress=advance)
    for _, _, node in walk(nodes):
        updated = node.row.updated
        if not node.row.sealed and updated is not None and datetime.datetime.fromisoformat(updated) < before:
            yield node.row.path
