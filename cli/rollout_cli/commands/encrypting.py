"""Rollouts encrypted, brought under another key, and made plain again."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollout_cli.failures import FINE
from rollout_cli.homes import do_and_tell, open_store, resolve_all, walk
from rollout_cli.options import Home, Json, SomeReferences
from rollout_cli.terminal import print_error, progress

if TYPE_CHECKING:
    import rollout

_KEYS_FILE = "ROLLOUT_KEYS_FILE"
All = Annotated[bool, typer.Option("--all", help="All sessions of the home, archived ones too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be done.")]


def encrypt(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    everything: All = False,
    dry_run: DryRun = False,
    detach_forks: Annotated[
        bool, typer.Option("--detach-forks", help="First make the forks and reverts that need one stand alone.")
    ] = False,
) -> int:
    """Encrypt plain sessions with the current key of $ROLLOUT_KEYS_FILE.

    One that is encrypted stays as it is. Every command reads them as long as it has the key; Codex does not.
    What a fork or a revert goes on from is a file of its own, which stays plain unless it is named too, or --all.

    Example: rollout encrypt --all --dry-run
    """
    from rollout.errors import InUse

    _current_key()
    store = open_store(home)

    def change(path: Path) -> Path:
        try:
            return store.rekey(path, detach_forks=detach_forks)
        except InUse as error:
            if detach_forks:
                raise
            remedy = "--detach-forks makes them stand alone first"
            raise InUse(error.message, path=error.path, remedy=remedy) from error

    paths = _chosen(store, refs, everything, "encrypt", _is_plain)
    return _do(store, paths, "encrypted", _is_plain, change, dry_run, json)


def rekey(
    refs: SomeReferences = None, home: Home = None, json: Json = False, everything: All = False, dry_run: DryRun = False
) -> int:
    """Encrypt sessions anew with the current key of $ROLLOUT_KEYS_FILE.

    The file has to hold the keys that they are encrypted with, too. A plain session is left to rollout encrypt.

    Example: rollout rekey --all
    """
    from rollout.errors import UsageError

    current = frozenset({_current_key()})
    store = open_store(home)

    def is_due(keys: frozenset[str]) -> bool:
        return keys not in {frozenset(), current}

    paths = _chosen(store, refs, everything, "rekey", is_due)
    for path in paths if refs else ():
        if not store.keys_of(path):
            raise UsageError("is not encrypted", path=path, remedy="rollout encrypt does that")
    return _do(store, paths, "rekeyed", is_due, store.rekey, dry_run, json)


def decrypt(
    refs: SomeReferences = None, home: Home = None, json: Json = False, everything: All = False, dry_run: DryRun = False
) -> int:
    """Make encrypted sessions plain again, with the keys of $ROLLOUT_KEYS_FILE.

    One that is plain stays as it is.

    Example: rollout decrypt -1
    """
    store = open_store(home)
    paths = _chosen(store, refs, everything, "decrypt", bool)
    return _do(store, paths, "decrypted", bool, store.decrypt, dry_run, json)


Due = Callable[[frozenset[str]], bool]
"""Whether something is to be done to a session that is encrypted with these keys."""


def _is_plain(keys: frozenset[str]) -> bool:
    return not keys


def _current_key() -> str:
    """The id of the current key. UsageError if there is none, NoKey if it cannot be read."""
    from rollout import Cipher
    from rollout.errors import UsageError

    path = os.environ.get(_KEYS_FILE)
    if not path:
        remedy = f"name a file of keys in ${_KEYS_FILE}; rollout.make_key of the library makes one"
        raise UsageError("there is no key to encrypt with", remedy=remedy)
    return Cipher.from_file(path).current


def _chosen(store: "rollout.Store", refs: list[str] | None, everything: bool, command: str, is_due: Due) -> list[Path]:
    """The files that are named, or all for which something is due; of those that cannot be read it is said later."""
    from rollout.errors import RolloutError, UsageError

    if everything == bool(refs):
        raise UsageError("give ids, or --all", remedy=f"see rollout {command} --help")
    if not everything:
        return resolve_all(store, refs or [])
    with progress("sessions") as advance:
        nodes = store.tree(progress=advance)
    found = []
    for _, _, node in walk(nodes):
        try:
            if not is_due(store.keys_of(node.row.path)):
                continue
        except RolloutError:
            pass
        found.append(node.row.path)
    return found


def _do(
    store: "rollout.Store",
    paths: list[Path],
    word: str,
    is_due: Due,
    change: Callable[[Path], Path],
    dry_run: bool,
    json: bool,
) -> int:
    """Does what is due and tells it; the exit code."""

    def act(path: Path) -> Path:
        if not is_due(store.keys_of(path)):
            unchanged.add(path)
            return path
        return path if dry_run else change(path)

    unchanged: set[Path] = set()
    if not paths and not json:
        print_error(f"rollout: no session in {store.home} is to be {word}")
        return FINE
    return do_and_tell(paths, "plan" if dry_run else word, act, json, unchanged)
