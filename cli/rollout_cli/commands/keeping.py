"""Sessions kept: named, archived, removed, sealed, encrypted; what takes their space, and what is wrong with them."""

import datetime
import operator
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

import rollout
from rollout_cli import options
from rollout_cli.failures import DAMAGE_FOUND, FINE, interruptible
from rollout_cli.homes import Done, do_each, open_store, reference, resolve_all, thread_of, walk
from rollout_cli.options import Home, Json, Reference, References, SomeReferences
from rollout_cli.terminal import Output, Wrapped, fact, print_error, progress
from rollout_cli.units import size
from rollout_cli.views import encode, pick, show
from rollout_cli.views.totals import diagnosis_json, diagnosis_rows, usage_json, usage_rows

_KEYS_FILE = "ROLLOUT_KEYS_FILE"
_SEALS_LEFT = "each session is either sealed or as it was; run it again to go on"
_DETACH = "--detach-forks makes them stand alone first"
All = Annotated[bool, typer.Option("--all", help="All sessions of the home, archived ones too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be done.")]
DetachForks = Annotated[
    bool, typer.Option("--detach-forks", help="First make the forks and reverts that need one stand alone.")
]


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
    if (name is None) != clear:
        raise rollout.UsageError("give a name, or --clear", remedy="see rollout name --help")
    store = open_store(home)
    path = store.resolve(reference(ref, home), to_change=True)
    with interruptible():
        kept = store.rename(path, name)
    out = Output()
    if json:
        out.print_json([encode({"id": thread_of(path), "path": path, "name": kept})])
    else:
        out.print([Wrapped(("has no name now  " if kept is None else f"named {kept}  ", (str(path), "dim")))])
    return FINE


def archive(refs: References, home: Home = None, json: Json = False) -> int:
    """Move sessions to the archive.

    Lists leave them out then, all else still finds them. Example: rollout archive -1
    """
    store = open_store(home)
    return do_each(resolve_all(store, refs), lambda path: Done(store.archive(path), "archived"), json=json)


def unarchive(refs: References, home: Home = None, json: Json = False) -> int:
    """Take sessions out of the archive.

    Example: rollout unarchive parser
    """
    store = open_store(home)
    return do_each(resolve_all(store, refs), lambda path: Done(store.unarchive(path), "unarchived"), json=json)


def rm(
    refs: References,
    home: Home = None,
    json: Json = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    detach_forks: DetachForks = False,
) -> int:
    """Delete sessions for good.

    Asks first, and refuses while forks need one. Example: rollout rm 019d0001 --detach-forks
    """
    store = open_store(home)
    paths = resolve_all(store, refs)
    if not yes:
        names = store.names()
        paths = [path for path in paths if _confirm(path, names.get(thread_of(path) or ""))]
    delete = _detaching(store.delete, detach_forks)
    return do_each(paths, lambda path: Done(delete(path), "deleted"), json=json)


def seal(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="All that were not written for so long: 30d, 12h.")
    ] = None,
    level: Annotated[int, typer.Option("--level", min=1, max=22, metavar="N", help="How hard to pack.")] = 3,
    dry_run: DryRun = False,
) -> int:
    """Pack sessions to a fraction of their size.

    They are read as before, also by any program that knows Zstandard. Writing to one unpacks it first.
    Example: rollout seal --older-than 30d --dry-run
    """
    if (older_than is None) == (not refs):
        raise rollout.UsageError("give ids, or --older-than", remedy="see rollout seal --help")
    store = open_store(home)
    paths = resolve_all(store, refs or [])
    if older_than is not None:
        until = datetime.datetime.now(datetime.UTC) - options.age(older_than)
        written = [(row.path, row.updated) for row in _all_files(store) if not row.sealed]
        paths = [path for path, at in written if at is not None and datetime.datetime.fromisoformat(at) < until]
    sealed: list[rollout.SealResult] = []
    keys = "plain_bytes sealed_bytes"

    def act(path: Path) -> Done:
        if dry_run:
            return Done(path, "would seal", "bold yellow")
        with progress() as advance:
            done = store.seal(path, level=level, progress=advance)
        sealed.append(done)
        more = f"  {size(done.plain_bytes)} in {size(done.sealed_bytes)}"
        return Done(done.path, "sealed", "bold green", more, pick(done, keys))

    excused = () if older_than is None else (rollout.Locked,)  # in use: it will be old again
    code = do_each(paths, act, json=json, keys=keys, left=_SEALS_LEFT, excused=excused)
    if len(sealed) > 1 and not json:
        plain, packed = sum(each.plain_bytes for each in sealed), sum(each.sealed_bytes for each in sealed)
        Output().print([fact("in all", f"{len(sealed):,} sessions, {size(plain)} in {size(packed)}", columns=11)])
    if not paths and not json:
        print_error(f"rollout: no plain session in {store.home} is older than {older_than}")
    return code


def unseal(refs: References, home: Home = None, json: Json = False) -> int:
    """Unpack sealed sessions: the plain files are there again.

    Example: rollout unseal -1
    """
    store = open_store(home)

    def act(path: Path) -> Done:
        with progress() as advance:
            return Done(store.unseal(path, progress=advance), "unsealed")

    return do_each(resolve_all(store, refs), act, json=json)


def encrypt(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    everything: All = False,
    dry_run: DryRun = False,
    detach_forks: DetachForks = False,
) -> int:
    """Encrypt plain sessions with the current key of $ROLLOUT_KEYS_FILE.

    One that is encrypted stays as it is. Every command reads them as long as it has the key; Codex does not.
    What a fork or a revert goes on from is a file of its own, which stays plain unless it is named too, or --all.

    Example: rollout encrypt --all --dry-run
    """
    _current_key()
    store = open_store(home)
    paths = _chosen(store, refs, everything, "encrypt", operator.not_)
    change = _detaching(store.rekey, detach_forks)
    return _rewrite(store, paths, "encrypted", operator.not_, change, dry_run=dry_run, json=json)


def rekey(
    refs: SomeReferences = None, home: Home = None, json: Json = False, everything: All = False, dry_run: DryRun = False
) -> int:
    """Encrypt sessions anew with the current key of $ROLLOUT_KEYS_FILE.

    The file has to hold the keys that they are encrypted with, too. A plain session is left to rollout encrypt.

    Example: rollout rekey --all
    """
    current = frozenset({_current_key()})
    store = open_store(home)

    def is_due(keys: frozenset[str]) -> bool:
        return keys not in {frozenset(), current}

    paths = _chosen(store, refs, everything, "rekey", is_due)
    for path in paths if refs else ():
        if not store.keys_of(path):
            raise rollout.UsageError("is not encrypted", path=path, remedy="rollout encrypt does that")
    return _rewrite(store, paths, "rekeyed", is_due, store.rekey, dry_run=dry_run, json=json)


def decrypt(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    everything: All = False,
    dry_run: DryRun = False,
    detach_forks: DetachForks = False,
) -> int:
    """Make encrypted sessions plain again, with the keys of $ROLLOUT_KEYS_FILE.

    One that is plain stays as it is. Lines move, so forks and reverts that go on from one have to stand alone first.

    Example: rollout decrypt -1
    """
    store = open_store(home)
    paths = _chosen(store, refs, everything, "decrypt", bool)
    change = _detaching(store.decrypt, detach_forks)
    return _rewrite(store, paths, "decrypted", bool, change, dry_run=dry_run, json=json)


def du(
    refs: SomeReferences = None,
    home: Home = None,
    json: Json = False,
    each: Annotated[bool, typer.Option("--each", help="Of every session, too.")] = False,
) -> int:
    """Show what takes the space on the disk, and what sealing would give back.

    Example: rollout du --each
    """
    store = open_store(home)
    paths = resolve_all(store, refs, to_change=False) if refs else None
    with progress() as advance:
        found = store.du(paths, progress=advance)
    return show(json, usage_json(found), lambda columns: usage_rows(found, columns, each=each))


def doctor(home: Home = None, json: Json = False) -> int:
    """Look over all sessions: what is wrong, and the command that helps.

    Names sessions that Codex does not resume, and why; damage, missing
    bases, copies, lost names, and what crashes have left.

    Changes nothing. Exits with 1 if there is a problem.

    Example: rollout doctor --json | jq '.findings[] | select(.resumes | not)'
    """
    store = open_store(home)
    with progress() as advance:
        found = store.doctor(progress=advance)
    show(json, diagnosis_json(found), lambda _: diagnosis_rows(found))
    return FINE if found.ok else DAMAGE_FOUND


Due = Callable[[frozenset[str]], bool]
"""Whether something is to be done to a session that is encrypted with these keys."""


def _confirm(path: Path, name: str | None) -> bool:
    """Ask on standard error, read standard input: yes only if the user says so. UsageError if nobody can be asked."""
    if sys.stdin is None or not sys.stdin.isatty() or sys.stderr is None:
        raise rollout.UsageError(
            "there is no terminal to ask on, and it is deleted for good", remedy="give --yes to do it"
        )
    named = f" ({name})" if name else ""
    print_error(f"Delete {path}{named} for good? [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _detaching(change: Callable[..., Path], detach_forks: bool) -> Callable[[Path], Path]:
    """What changes a file; where forks need it, the error says what helps, unless that is asked for already."""

    def act(path: Path) -> Path:
        try:
            return change(path, detach_forks=detach_forks)
        except rollout.InUse as error:
            if detach_forks:
                raise
            raise rollout.InUse(error.message, path=error.path, remedy=_DETACH) from error

    return act


def _all_files(store: "rollout.Store") -> "Iterator[rollout.SessionRow]":
    with progress("sessions") as advance:
        roots = store.tree(progress=advance)
    return (node.row for _, _, node in walk(roots))


def _current_key() -> str:
    """The id of the current key. UsageError if there is none, NoKey if it cannot be read."""
    path = os.environ.get(_KEYS_FILE)
    if not path:
        remedy = f"name a file of keys in ${_KEYS_FILE}; rollout.make_key of the library makes one"
        raise rollout.UsageError("there is no key to encrypt with", remedy=remedy)
    return rollout.Cipher.from_file(path).current


def _chosen(store: "rollout.Store", refs: list[str] | None, everything: bool, command: str, is_due: Due) -> list[Path]:
    """The files that are named, or all for which something is due; of those that cannot be read it is said later."""
    if everything == bool(refs):
        raise rollout.UsageError("give ids, or --all", remedy=f"see rollout {command} --help")
    if not everything:
        return resolve_all(store, refs or [])

    def may_be_due(path: Path) -> bool:
        try:
            return is_due(store.keys_of(path))
        except rollout.RolloutError:
            return True

    return [row.path for row in _all_files(store) if may_be_due(row.path)]


def _rewrite(
    store: "rollout.Store",
    paths: list[Path],
    word: str,
    is_due: Due,
    change: Callable[[Path], Path],
    *,
    dry_run: bool,
    json: bool,
) -> int:
    """Change the files for which that is due; the exit code."""

    def act(path: Path) -> Done:
        if not is_due(store.keys_of(path)):
            return Done(path, "unchanged")
        return Done(path, "plan") if dry_run else Done(change(path), word)

    if not paths and not json:
        print_error(f"rollout: no session in {store.home} is to be {word}")
        return FINE
    return do_each(paths, act, json=json)
