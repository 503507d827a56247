"""What is done to a disk, cut short by a crash or a fault at any point of it: what is asked of each such scenario.

A test file says what is done, what has to be true afterwards, and which syncs may go, each with its reason. That every
state passes, and that without any other sync one of them does not, is asked here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from rollout.testing.crashes import Check, CrashFailure, Explored, Tree, Workload, explore, mutants
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk

ALL_MUTANTS = "ROLLOUT_MUTANTS" in os.environ
each_effect = pytest.mark.parametrize("effect", [Effect.FAIL, Effect.SHORT])


def once(check: Check) -> Check:
    """The same check, made of each state and what was acknowledged once: faults side by side leave much the same."""
    passed: set[tuple[object, str]] = set()

    def check_once(state: SimulatedDisk, acked: list[Any]) -> None:
        key = frozenset(state.tree().items()), repr(acked)
        if key not in passed:
            check(state, acked)
            passed.add(key)

    return check_once


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What is done to a disk that holds `start`, and the check of what a crash leaves.

    `harmless` are the syncs that nothing depends on, by the names of their faults, each with its reason: without one of
    them all states pass, more than `fewest`. `limit` is that of `explore`; where a sync is missing, `mutant_limit`.
    """

    name: str
    work: Workload
    check: Check
    start: Tree
    harmless: Mapping[str, str] = dataclasses.field(default_factory=dict)
    limit: int = 4000
    mutant_limit: int | None = None
    fewest: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", once(self.check))

    def explore(self, *, sector_bytes: int = 0) -> Explored:
        """Checks all that a crash may leave."""
        return explore(self.work, self.check, start=self.start, limit=self.limit, sector_bytes=sector_bytes)

    def check_sync(self, fault: Fault) -> None:
        """As the function."""
        limit = self.mutant_limit or self.limit
        check_sync(
            lambda: explore(self.work, self.check, start=self.start, faults=[fault], limit=limit, newest_first=True),
            self.harmless.get(name_fault(fault)),
            self.fewest,
        )

    def check_syncs(self) -> None:
        """Each of its syncs in one test."""
        for fault in mutants(self.work, start=self.start):
            self.check_sync(fault)

    def failing(self, effect: Effect) -> Iterator[SimulatedDisk]:
        """For each operation a disk on which it fails, or only three bytes of it are written."""
        whole = SimulatedDisk(self.start)
        self.work(whole, lambda _: None)
        for nth, kind in enumerate(whole.attempts):
            if effect is not Effect.SHORT or kind is OpKind.WRITE:
                yield SimulatedDisk(self.start, faults=[Fault(nth, effect, written=3)])


def check_sync(explored: Callable[[], Explored], why_harmless: str | None, fewest: int = 0) -> None:
    """Without this sync a crash loses something; where there is a reason why not, more than `fewest` states pass."""
    if why_harmless is not None:
        assert explored().states > fewest
        return
    with pytest.raises(CrashFailure):
        explored()


def each_sync(*scenarios: Scenario, tried: Callable[[Fault], bool] = lambda fault: True) -> pytest.MarkDecorator:
    """One test, of a `scenario` and a `fault`, for each sync of each that is left out or comes an operation later."""
    cases = []
    for scenario in scenarios:
        faults = {name_fault(fault): fault for fault in mutants(scenario.work, start=scenario.start)}
        assert scenario.harmless.keys() <= faults.keys(), "what is called harmless is there"
        for name, fault in faults.items():
            if tried(fault):
                cases.append(pytest.param(scenario, fault, id=f"{scenario.name}-{name}"))
    return pytest.mark.parametrize(("scenario", "fault"), cases)


def each(scenarios: Iterable[Scenario]) -> pytest.MarkDecorator:
    """One test for each `scenario`."""
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.name)


def name_fault(fault: Fault) -> str:
    """`drop sync 1`, `delay sync dir 0`."""
    assert fault.kind is not None
    return f"{fault.effect.value} {fault.kind.value} {fault.nth}"
