"""Rollouts kept: named, archived, taken out of the archive, removed."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollout_cli.failures import FINE, interruptible
from rollout_cli.homes import do_and_tell, open_store, reference, resolve_all, thread_of
from rollout_cli.options import Home, Json, Reference, References
from rollout_cli.terminal import Output, print_error


def name(
    ref: Reference,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Its new name.", show_default=False)] = None,
    home: Home = None,
    json: Json = False,
    clear: Annotated[bool, typer.Option("--clear", help="Take its name away.")] = False,
) -> int:
    """Give a session a name, which can be used like an id.

    Example: rollout name -1 parser
    """
    from rollout.errors import UsageError
    from rollout_cli import documents_store

    if (name is None) != clear:
        raise UsageError("give a name, or --clear", remedy="see rollout name --help")
    store = open_store(home)
    path = store.resolve(reference(ref, home), to_change=True)
    with interruptible():
        kept = store.rename(path, name)
    out = Output()
    if json:
        out.print_json(documents_store.named(path, kept))
    else:
        out.print([("has no name now  " if kept is None else f"named {kept}  ", (str(path), "dim"))], cut=False)
    return FINE


def archive(refs: References, home: Home = None, json: Json = False) -> int:
    """Move sessions to the archive.

    Lists leave them out then, all else still finds them. Example: rollout archive -1
    """
    store = open_store(home)
    return do_and_tell(resolve_all(store, refs), "archived", store.archive, json)


def unarchive(refs: References, home: Home = None, json: Json = False) -> int:
    """Take sessions out of the archive.

    Example: rollout unarchive parser
    """
    store = open_store(home)
    return do_and_tell(resolve_all(store, refs), "unarchived", store.unarchive, json)


def rm(
    refs: References,
    home: Home = None,
    json: Json = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    detach_forks: Annotated[
        bool, typer.Option("--detach-forks", help="First make the forks that need it stand alone.")
    ] = False,
) -> int:
    """Delete sessions for good.

    Asks first, and refuses while forks need one. Example: rollout rm 019d0001 --detach-forks
    """
    from rollout.errors import InUse

    store = open_store(home)
    paths = resolve_all(store, refs)
    if not yes:
        names = store.names()
        paths = [path for path in paths if _confirm(path, names.get(thread_of(path) or ""))]

    def delete(path: Path) -> Path:
        try:
            return store.delete(path, detach_forks=detach_forks)
        except InUse as error:
            remedy = "--detach-forks makes them stand alone first"
            raise InUse(error.message, path=error.path, remedy=remedy) from error

    return do_and_tell(paths, "deleted", delete, json)


def _confirm(path: Path, name: str | None) -> bool:
    """Ask on standard error, read standard input: yes only if the user says so. UsageError if nobody can be asked."""
    from rollout.errors import UsageError

    if sys.stdin is None or not sys.stdin.isatty() or sys.stderr is None:
        raise UsageError("there is no terminal to ask on, and it is deleted for good", remedy="give --yes to do it")
    named = f" ({name})" if name else ""
    print_error(f"Delete {path}{named} for good? [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
