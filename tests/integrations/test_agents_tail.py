"""What a session keeps of a log between two calls: no more than is of use, and no longer than it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.adapters.agents import RolloutSession, itemlog
from rollout.adapters.agents.tail import KEPT_BYTES
from rollout.files.lineage import Lineage
from rollout.fold.history import Entry
from rollout.session.newest_items import recent_entries
from tests.integrations.agent_sessions import run, say, says


def test_a_pop_behind_what_another_has_written_reads_nothing_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def recording(lineage: Lineage, count: int, limits: rollout.Limits) -> list[Entry] | None:
        asked.append(count)
        return recent_entries(lineage, count, limits)

    session, other = RolloutSession("s", tmp_path), RolloutSession("s", tmp_path)
    run(session.add_items(says(*map(str, range(20)))))
    monkeypatch.setattr(itemlog, "recent_entries", recording)
    for _ in range(5):
        run(session.add_items(says("a")))
        assert run(other.pop_item()) == say("a")
    assert asked == [1] * 5


def test_no_more_is_held_than_a_few_mib_after_pops_of_small_and_of_large_items(tmp_path: Path) -> None:
    session, large = RolloutSession("s", tmp_path), [say(f"{n}" * (1 << 20)) for n in range(8)]
    run(session.add_items([*large, *says(*map(str, range(10)))]))
    other = RolloutSession("s", tmp_path)
    log: Any = other._call(lambda branches: branches._log())
    for expected in [*reversed(says(*map(str, range(10)))), *reversed(large)]:
        assert run(other.pop_item()) == expected
        assert log._tail is None or log._tail.size_bytes == sum(map(len, log._tail.entries)) <= KEPT_BYTES


def test_what_a_base_holds_is_there_again_when_the_base_is(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.add_items(says("a", "b"))
        (row,) = await session.list_branches()
        await session.create_branch()
        await session.add_items(says("c"))
        other, base = RolloutSession("s", tmp_path), Path(row["path"])
        aside = base.rename(tmp_path / "aside")
        assert await other.get_items(9) == says("c")
        aside.rename(base)
        assert await other.get_items(9) == says("a", "b", "c")
        aside, other = base.rename(tmp_path / "aside"), RolloutSession("s", tmp_path)
        assert [await other.pop_item(), await other.pop_item()] == [say("c"), None]
        aside.rename(base)
        assert [await other.pop_item() for _ in range(3)] == [say("b"), say("a"), None]

    run(work())


@pytest.mark.parametrize("limit", [1, 9])
def test_what_a_missing_base_holds_outlives_what_is_replaced_meanwhile(tmp_path: Path, limit: int) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.add_items(says("a", "b"))
        (row,) = await session.list_branches()
        await session.create_branch()
        await session.add_items(says("c", "d"))
        base = Path(row["path"])
        aside = base.rename(tmp_path / "aside")
        snapshot = await session._get_compaction_snapshot(limit, prune_prefix=lambda item: True)
        assert await snapshot.replace_suffix(0, says("e"))
        aside.rename(base)
        assert await session.get_items() == says("a", "b", *("c" * (limit == 1)), "e")

    run(work())
