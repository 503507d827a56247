"""What a session keeps of a log between two calls: no more than is of use, and no longer than it holds."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from rollout.adapters.agents import RolloutSession
from rollout.limits import MIB
from tests.integrations.agent_sessions import run, say, says


def test_a_pop_behind_what_another_has_written_reads_nothing_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, real = 0, os.pread

    def counting(fd: int, n: int, offset: int) -> bytes:
        nonlocal read
        found = real(fd, n, offset)
        read += len(found)
        return found

    session, other = RolloutSession("s", tmp_path), RolloutSession("s", tmp_path)
    run(session.add_items(says(*(f"{n:0>4000}" for n in range(50)))))
    run(other.pop_item())
    monkeypatch.setattr(os, "pread", counting)
    for _ in range(10):
        run(session.add_items(says("a")))
        read = 0
        assert run(other.pop_item()) == say("a")
        assert read < 40_000


def test_no_more_is_held_than_a_few_mib_after_pops_of_small_and_of_large_items(tmp_path: Path) -> None:
    session, sizes = RolloutSession("s", tmp_path), [*[1 << 20] * 8, *[1] * 10]
    run(session.add_items([say(f"{n % 10}" * size) for n, size in enumerate(sizes)]))
    other = RolloutSession("s", tmp_path)
    tracemalloc.start()
    for size in reversed(sizes):
        assert len(run(other.pop_item())["content"]) == size
        assert tracemalloc.get_traced_memory()[0] < 6 * MIB
    tracemalloc.stop()


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
