"""A home, and the several references that one command line can name in it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rollout_cli.failures import FINE, UNREADABLE, interruptible, tell
from rollout_cli.terminal import Output, print_error

if TYPE_CHECKING:
    import rollout

T = TypeVar("T")
_WHOLE_ID_COLUMNS = 160
_THREAD = re.compile(r"rollout-.{19}-(?P<thread>[0-9a-f-]{36})[._]")


class Deed(NamedTuple, Generic[T]):
    """What was done to one file: its `outcome`, or the `error` that was in the way."""

    path: Path
    outcome: T | None
    error: rollout.RolloutError | None

    @property
    def id(self) -> str | None:
        return thread_of(self.path)


def open_store(home: str | None) -> rollout.Store:
    """The store of a home. NotFound if the user names one that is not there."""
    from rollout import NotFound, Store

    if home is not None and not Path(home).expanduser().is_dir():
        raise NotFound("no such home", path=home, remedy="check --home: it is the folder that holds `sessions`")
    return Store(home)


def reference(word: str, home: str | os.PathLike[str] | None) -> str:
    """The word, which the library takes as it is. Says so where a session is meant though a file has that name, too."""
    if Path(word).name == word and os.path.lexists(word):
        from rollout import RolloutError, Store

        with contextlib.suppress(RolloutError):
            if Store(home).resolve(word).absolute() != Path(word).absolute():
                print_error(f"rollout: {word} is a session; the file of that name is {os.curdir}{os.sep}{word}")
    return word


def resolve_all(store: rollout.Store, refs: Iterable[str], *, to_change: bool = True) -> list[Path]:
    """The files that the references name, each once. All are looked up before any is touched: -1 stays what it was.

    NotARollout if one of them is none, unless it is only read.
    """
    return list(dict.fromkeys(store.resolve(reference(ref, store.home), to_change=to_change) for ref in refs))


def do_each(paths: Iterable[Path], act: Callable[[Path], T]) -> Iterator[Deed[T]]:
    """Act on each file; what stands in the way of one does not keep the others from it."""
    from rollout import RolloutError

    for path in paths:
        try:
            yield Deed(path, act(path), None)
        except RolloutError as error:
            yield Deed(path, None, error)


def do_and_tell(
    paths: list[Path], word: str, act: Callable[[Path], Path], json: bool, unchanged: Collection[Path] = ()
) -> int:
    """Act on each file, and tell what became of it: where it lies now, or what stood in the way. The exit code.

    `act` may put into `unchanged` those for which there was nothing to do.
    """
    from rollout_cli import documents_store

    out, failed = Output(), False
    done = []
    with interruptible():
        for deed in do_each(paths, act):
            failed = failed or deed.error is not None
            if json:
                done.append(deed)
            elif deed.error is not None:
                print_error(f"rollout: {tell(deed.error)}")
            else:
                told = "unchanged" if deed.path in unchanged else word
                out.print([((f"{told:<11}", "bold"), str(deed.outcome))], cut=False)
    if json:
        out.print_json(documents_store.moved(done))
    return UNREADABLE if failed else FINE


def walk(roots: Iterable[rollout.SessionTree]) -> Iterable[tuple[int, str | None, rollout.SessionTree]]:
    """Every node before its children: how deep it lies, and the id of the one above. A chain may be of any length."""
    waiting: list[tuple[int, str | None, rollout.SessionTree]] = [(0, None, node) for node in reversed(tuple(roots))]
    while waiting:
        depth, above, node = waiting.pop()
        yield depth, above, node
        waiting += [(depth + 1, node.row.id, child) for child in reversed(node.children)]


def short_ids(store: rollout.Store, out: Output, ids: Iterable[str]) -> dict[str, str]:
    """How ids are shown: on a terminal their shortest beginnings that are references, else whole."""
    return {} if out.columns is None or out.columns >= _WHOLE_ID_COLUMNS else store.shorten(set(ids))


def thread_of(path: Path) -> str | None:
    """The thread id in a file's name."""
    found = _THREAD.match(path.name)
    return None if found is None else found["thread"]
