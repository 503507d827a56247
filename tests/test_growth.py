"""Every read, list and export is linear: where the input doubles, the steps that it takes double and no more.

The shapes are those on which one step for each of so many others would show (see `tests.shapes`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import rollout
from rollout.core.recent import recent_entries
from rollout.storage.origin import find
from rollout.store import Store
from tests import homes, shapes
from tests.cli import run
from tests.steps import count_steps, growth_of

LIMIT = 2.3
N = 12
FEW = 6  # of shapes that hold many lines for one, and of reads that look at each line several times


def drain(found: Iterable[object]) -> None:
    deque(found, maxlen=0)


def newest_items(path: Path) -> None:
    origin = find(path)
    with origin.opened() as lineage:
        recent_entries(lineage, 20, origin.limits)


def play(path: Path) -> None:
    with rollout.replay(path) as playback:
        drain(playback.steps())
        last = playback.last(everything=True)
        assert last is not None
        playback.scene(last, 20)
        playback.seen(last, 20)


def items_of_turns(path: Path) -> None:
    for turn in rollout.turns(path)[-3:]:
        drain(turn.items)


def export(form: str) -> Callable[[Path], None]:
    def work(path: Path) -> None:
        assert run("export", path, "-f", form).code == 0

    return work


READS: dict[str, Callable[[Path], object]] = {
    "reconstruct": lambda path: rollout.reconstruct(path).for_prompt(),
    "turns": items_of_turns,
    "explain": lambda path: drain(rollout.explain(path)),
    "verify": rollout.verify,
    "records": lambda path: drain(rollout.records(path)),
    "summarize": rollout.summarize,
    "diff": lambda path: rollout.diff(rollout.reconstruct(path), rollout.reconstruct(path, at=rollout.Line(2))),
    "tail": lambda path: drain(rollout.tail(path, last=None)),
    "replay": play,
    "newest items": newest_items,
    "repair": rollout.plan_repair,
    **{f"export {form}": export(form) for form in ("html", "md", "json", "jsonl", "openai")},
}
LISTS: dict[str, Callable[[Store], object]] = {
    "list": lambda store: store.list(limit=1000, forks=True),
    "tree": Store.tree,
    "stats": Store.stats,
    "search": lambda store: store.search("question", limit=1000),
    "doctor": Store.doctor,
    "du": Store.du,
}


def grows(work: Callable[[int], Callable[[], object]], n: int) -> float:
    return growth_of([count_steps(work(n * times)) for times in (1, 2, 4)])


@pytest.mark.parametrize("shape", shapes.LOGS)
def test_every_read_and_export_of_a_log_is_linear(shape: str, tmp_path: Path) -> None:
    def log_of(n: int) -> Path:
        return homes.put_data(tmp_path / f"{n}.jsonl", shapes.LOGS[shape](n))

    paths = {n: log_of(n) for n in (N, 2 * N, 4 * N)}
    found = {name: grows(lambda n, read=read: lambda: read(paths[n]), N) for name, read in READS.items()}  # type: ignore[misc]  # a lambda takes its default from here
    assert not {name: growth for name, growth in found.items() if growth > LIMIT}


@pytest.mark.parametrize("shape", shapes.LOGS)
def test_every_look_at_a_home_with_such_a_log_is_linear(shape: str, tmp_path: Path) -> None:
    def store_of(n: int) -> Store:
        homes.put_data(homes.path_of(tmp_path / name / str(n), 1), shapes.LOGS[shape](n))
        return Store(tmp_path / name / str(n))

    found = {}
    for name in ("list", "search", "doctor"):
        stores = {n: store_of(n) for n in (N, 2 * N, 4 * N)}
        found[name] = grows(lambda n, look=LISTS[name], stores=stores: lambda: look(stores[n]), N)  # type: ignore[misc]  # a lambda takes its default from here
    assert not {name: growth for name, growth in found.items() if growth > LIMIT}
