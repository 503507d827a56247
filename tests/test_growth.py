"""Every read, list and export is linear: where the input doubles, the steps that it takes double and no more.

The shapes are those on which one step for each of so many others would show (see `tests.shapes`). By default each shape
is read in the ways that fold it, and those on which the other reads do something of their own in all; with
ROLLOUT_FUZZ all in all.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pytest

import rollout
from rollout.agent_tools import list_sessions
from rollout.files.source import find
from rollout.session.newest_items import recent_entries
from rollout.store import Store
from tests import homes, shapes
from tests.cli import run
from tests.steps import count_steps, growth_of

LIMIT = 2.3
SIZES = (1, 10, 20, 40)
IN_ALL = {"rollback at once", "compact and rollback", "one line glued", "one line with nul", "items removed at the end"}
IN_ALL |= set(shapes.LOGS) if int(os.environ.get("ROLLOUT_FUZZ", "1")) > 1 else set()


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
        playback.seen(last, 20)


def turns(path: Path) -> None:
    for turn in rollout.turns(path)[-3:]:
        drain(turn.items)


def export(form: str) -> Callable[[Path], None]:
    def work(path: Path) -> None:
        assert run("export", path, "-f", form).code == 0

    return work


FOLDS: dict[str, Callable[[Path], object]] = {
    "reconstruct": lambda path: rollout.reconstruct(path).for_prompt(),
    "turns": turns,
    "explain": lambda path: drain(rollout.explain(path)),
    "newest items": newest_items,
}
READS: dict[str, Callable[[Path], object]] = {
    **FOLDS,
    "verify": rollout.verify,
    "records": lambda path: drain(rollout.records(path)),
    "summarize": rollout.summarize,
    "diff": lambda path: rollout.diff(rollout.reconstruct(path), rollout.reconstruct(path, at=rollout.at_line(2))),
    "tail": lambda path: drain(rollout.tail(path, last=None)),
    "replay": play,
    "repair": rollout.plan_repair,
    **{f"export {form}": export(form) for form in ("html", "md", "json", "jsonl", "openai")},
}
LOOKS: dict[str, Callable[[Path], object]] = {
    "list": lambda home: Store(home).list(limit=1000, forks=True),
    "list again": lambda home: Store(home).list(limit=1000, forks=True),
    "tree": lambda home: Store(home).tree(),
    "stats": lambda home: Store(home).stats(),
    "search": lambda home: Store(home).search("question", limit=1000),
    "doctor": lambda home: Store(home).doctor(),
    "du": lambda home: Store(home).du(),
    "sessions": lambda home: list_sessions(100, home=home, current=""),
}


def beyond(reads: Mapping[str, Callable[[Path], object]], paths: list[Path]) -> dict[str, float]:
    """The reads whose work grows too fast over three paths, each twice as large as the one before; in their order.

    The first of the paths is small, and read before: what is imported on the way is no work of the others.
    """
    small, *paths = paths
    found = {}
    for name, read in reads.items():
        read(small)
        growth = growth_of([count_steps(partial(read, path)) for path in paths])
        if growth > LIMIT:
            found[name] = growth
    return found


@pytest.mark.parametrize("shape", shapes.LOGS)
def test_every_read_and_export_of_a_log_is_linear(shape: str, tmp_path: Path) -> None:
    paths = [homes.put_data(tmp_path / f"{n}.jsonl", shapes.LOGS[shape](n)) for n in SIZES]
    assert not beyond(READS if shape in IN_ALL else FOLDS, paths)


@pytest.mark.parametrize("shape", shapes.LOGS)
def test_every_look_at_a_home_with_such_a_log_is_linear(shape: str, tmp_path: Path) -> None:
    places = [tmp_path / str(n) for n in SIZES]
    for place in places:
        homes.put_data(homes.path_of(place, 1), shapes.LOGS[shape](int(place.name)))
    assert not beyond(LOOKS if shape in IN_ALL else {"list": LOOKS["list"]}, places)


@pytest.mark.parametrize("shape", shapes.HOMES)
def test_every_look_at_a_home_is_linear_in_its_sessions(shape: str, tmp_path: Path) -> None:
    places = [tmp_path / str(n) for n in SIZES]
    for place in places:
        shapes.HOMES[shape](place, int(place.name))
        for path in place.rglob("*.jsonl"):
            os.utime(path, (1.7e9, 1.7e9))  # long ago: the index need not ask whether it has just changed
    assert not beyond(LOOKS, places)
