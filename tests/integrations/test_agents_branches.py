"""Branches, turns and usage of a session: what people meet."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout.adapters.agents import BranchError, RolloutSession
from rollout.adapters.agents import branches as branches_module
from rollout.adapters.agents.conversation import add_up
from rollout.errors import NotFound
from rollout.store import Store
from tests.builders import text_item
from tests.integrations.agent_sessions import file_of, run, say, says
from tests.integrations.branching import in_memory, opened, ran, talk, texts_of

MAIN = "main"


def test_a_branch_goes_on_from_its_source_by_reference_and_neither_sees_what_the_other_says(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.add_items(talk("a", "b", "c"))
        assert await session.create_branch_from_turn(2, "before") == "before"
        assert texts_of(await session.get_items()) == ["a", "a!"]
        await session.add_items(talk("x"))
        await session.switch_to_branch(MAIN)
        await session.create_branch_from_turn(2, "behind", after=True)
        assert texts_of(await session.get_items()) == ["a", "a!", "b", "b!"]
        assert texts_of(await session.get_items(branch_id="before")) == ["a", "a!", "x", "x!"]
        assert texts_of(await session.get_items(branch_id=MAIN)) == ["a", "a!", "b", "b!", "c", "c!"]
        rows = {row["branch_id"]: row for row in await session.list_branches()}
        assert [(name, row["message_count"], row["user_turns"], row["is_current"]) for name, row in rows.items()] == [
            (MAIN, 6, 3, False),
            ("before", 4, 2, False),
            ("behind", 4, 2, True),
        ]
        state = rollout.reconstruct(rows["behind"]["path"])
        assert state.session is not None
        assert state.session["history_base"]["thread_id"] == rows[MAIN]["thread_id"]
        assert [item["content"][0]["text"] for item in state.history] == ["a", "a!", "b", "b!"]
        session.close()
        assert RolloutSession("s", tmp_path).current_branch_id == "behind"

    run(work())


def test_a_branch_of_a_branch_can_leave_it_where_it_is_still_the_source(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.add_items(talk("a", "b", "c"))
        await session.create_branch_from_turn(3, "one")
        await session.create_branch_from_turn(2, "two")
        assert texts_of(await session.get_items()) == ["a", "a!"]
        await session.create_branch_from_turn(1, "three")
        assert await session.get_items() == []
        await session.add_items(talk("d"))
        await session.create_branch("four")
        assert texts_of(await session.get_items()) == ["d", "d!"]

    run(work())


def test_a_branch_of_many_generations_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches_module, "_MOST_BASES", 3)

    async def work() -> list[dict[str, Any]]:
        session = RolloutSession("s", tmp_path)
        for n in range(6):
            await session.add_items(talk(str(n)))
            await session.create_branch()
        assert texts_of(await session.get_items())[::2] == [str(n) for n in range(6)]
        return await session.list_branches()

    bases = ["history_base" in (rollout.reconstruct(row["path"]).session or {}) for row in run(work())]
    assert bases == [False, True, True, False, True, True, False]


def test_turns_that_a_compaction_put_there_or_a_rollback_left_can_be_branched_from(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.add_items(talk("a", "b", "c", "d"))
        await session.store_run_usage(ran(7))
        with Store(tmp_path).open(file_of(tmp_path)) as log:
            log.rollback(1)
        assert [row["full_content"] for row in await session.get_conversation_turns()] == ["a", "b", "c"]
        assert await session.get_session_usage() is None
        await session.store_run_usage(ran(9))
        assert await session.get_turn_usage(3) == await session.get_turn_usage(3, MAIN) != {}
        await session.create_branch_from_turn(2, "rolled back")
        assert texts_of(await session.get_items()) == ["a", "a!"]
        await session.switch_to_branch(MAIN)
        with Store(tmp_path).open(file_of(tmp_path)) as log:
            log.compact([text_item(item["role"], item["content"]) for item in talk("e", "f")])
        await session.add_items(talk("g"))
        await session.create_branch_from_turn(2, "compacted")
        assert texts_of(await session.get_items()) == ["e", "e!"]
        assert texts_of(await session.items_at_turn(2, MAIN)) == ["e", "e!", "f", "f!"]

    run(work())


@pytest.mark.parametrize("name", ["", "  ", "\t", MAIN, "used", "\ud800", 7])
def test_a_name_that_is_none_or_was_ever_used_makes_no_branch(name: Any) -> None:
    async def work() -> None:
        session = RolloutSession("s")
        await session.add_items(talk("a"))
        await session.create_branch("used")
        await session.delete_branch("used", force=True)
        before = await session.list_branches()
        with pytest.raises(BranchError):
            await session.create_branch(name)
        await session.clear_session()
        await session.add_items(talk("a"))
        with pytest.raises(BranchError):
            await session.create_branch_from_turn(1, name)
        assert issubclass(BranchError, ValueError)  # which the SDK raises
        assert [row["branch_id"] for row in before] == [MAIN]
        assert session.current_branch_id == MAIN

    run(work())


def test_what_is_not_there_cannot_be_branched_from_switched_to_or_deleted() -> None:
    async def work() -> None:
        session = RolloutSession("s")
        for turn in (0, 1, -1, True, "1", None):
            with pytest.raises(BranchError):
                await session.create_branch_from_turn(turn)  # type: ignore[arg-type]  # what is no number, too
        await session.add_items(talk("a"))
        await session.create_branch("b")
        for refused in (
            session.create_branch_from_turn(2),
            session.create_branch_from_content("z"),
            session.switch_to_branch("nowhere"),
            session.delete_branch("nowhere"),
            session.delete_branch("nowhere", force=True),
            session.delete_branch(MAIN, force=True),
            session.delete_branch("b"),
            session.delete_branch(" "),
            session.items_at_turn(2),
        ):
            with pytest.raises(BranchError):
                await refused
        assert session.current_branch_id == "b"
        assert texts_of(await session.get_items()) == ["a", "a!"]
        assert await session.get_items(branch_id="nowhere") == []

    run(work())


def test_who_is_on_a_branch_that_another_has_deleted_is_told_so_and_loses_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        one, other = RolloutSession("s", tmp_path), RolloutSession("s", tmp_path)
        await one.add_items(talk("a"))
        await one.create_branch("b")
        await one.create_branch("c")
        await other.switch_to_branch(MAIN)
        await other.delete_branch("c")
        for refused in (one.get_items(), one.add_items(talk("x")), one.pop_item(), one.create_branch()):
            with pytest.raises(NotFound, match="'c' was deleted"):
                await refused
        await one.switch_to_branch("b")
        await other.clear_session()
        await one.add_items(talk("y"))
        assert one.current_branch_id == MAIN
        assert texts_of(await other.get_items()) == ["y", "y!"]

    run(work())


def test_the_text_of_a_turn_is_found_whatever_its_case_and_its_shape() -> None:
    async def work() -> None:
        session = RolloutSession("s")
        parts = [{"type": "input_text", "text": "100% Sure_\n"}, {"type": "input_image", "image_url": "sure"}]
        await session.add_items(
            [say("x" * 200), {"role": "user", "content": parts}, say("SURE?"), say("sure", "developer")]
        )
        assert [row["turn"] for row in await session.find_turns_by_content("sure")] == [2, 3]
        assert [row["turn"] for row in await session.find_turns_by_content("0% S")] == [2]
        assert await session.find_turns_by_content("text") == []
        first, second, _ = await session.get_conversation_turns()
        assert (first["content"], first["full_content"]) == ("x" * 100 + "...", "x" * 200)
        assert second["full_content"] == parts
        assert first["timestamp"].endswith("Z")
        assert await session.create_branch_from_content("SURE") != MAIN
        assert len(await session.get_items()) == 1

    run(work())


def test_what_a_branch_shares_with_its_source_is_used_once(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        await session.store_run_usage(ran(1))
        await session.add_items(talk("a"))
        await session.store_run_usage(ran(10))
        await session.store_run_usage(ran(20))  # the same run, gone on
        await session.create_branch("side")
        await session.add_items(talk("b"))
        await session.store_run_usage(ran(300, requests=2))
        session.close()
        again = RolloutSession("s", tmp_path)
        rows = await again.get_turn_usage()
        assert isinstance(rows, list)
        assert [row["total_tokens"] for row in rows] == [20, 300]
        sums = [await again.get_session_usage(name) for name in (None, MAIN, "side", "nowhere")]
        assert [found and (found["total_tokens"], found["requests"], found["total_turns"]) for found in sums] == [
            (320, 3, 2),
            (20, 1, 1),
            (320, 3, 2),
            None,
        ]
        (path,) = [row["path"] for row in await again.list_branches() if row["is_current"]]
        totals = rollout.reconstruct(path).token_usage
        assert totals is not None
        assert totals["total_tokens"] == 320
        await again.pop_item()
        await again.pop_item()
        assert await again.get_turn_usage(2) == {}
        await again.store_run_usage(ran(1000))
        totals = rollout.reconstruct(path).token_usage
        assert totals is not None
        assert totals["total_tokens"] == 320 - 20 + 1000  # what was taken back was spent

    run(work())


def test_usage_that_cannot_be_recorded_is_logged_and_does_not_fail_the_run(caplog: pytest.LogCaptureFixture) -> None:
    session = RolloutSession("secret")
    session.close()
    with caplog.at_level(logging.ERROR):
        run(session.store_run_usage(ran(1)))
    assert "SessionClosed" in caplog.text
    assert "secret" not in caplog.text


def test_nothing_used_adds_up_to_nothing() -> None:
    assert add_up([]) is None


def test_replacing_the_newest_items_is_one_change_and_only_if_they_are_still_the_newest(tmp_path: Path) -> None:
    async def work() -> None:
        session = RolloutSession("s", tmp_path)
        assert not hasattr(session, "run_compaction")
        assert await session._get_compaction_snapshot(3) is None
        await session.add_items(says("a", "b", "c", "d"))
        snapshot = await session._get_compaction_snapshot(3)
        assert (texts_of(snapshot.items), snapshot.complete) == (["b", "c", "d"], False)
        assert await snapshot.replace_suffix(1, [say("cd")])
        assert texts_of(await session.get_items()) == ["a", "b", "cd"]
        assert not await snapshot.replace_suffix(1, [say("never")])
        assert not await snapshot.replace_suffix(3, [say("never")])
        whole = await session._get_compaction_snapshot(3)
        assert whole.complete
        await session.add_items(says("e"))
        assert not await whole.replace_suffix(0, [say("never")])
        assert texts_of(await session.get_items()) == ["a", "b", "cd", "e"]
        whole = await session._get_compaction_snapshot(9)
        assert await whole.replace_suffix(0, says("all", "of it"))
        assert await session._atomic_replace_items(says("x"))
        assert texts_of(await session.get_items()) == ["x"]
        assert await session.pop_item() == say("x")
        assert await session.pop_item() is None

    run(work())


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ("old old b c d", "b x"),
        ("old b c d", "b x"),
        ("old b b c d", "old b b x"),
        ("b old old c d", "b old old x"),
        ("old old c d", "x"),
        ("c d", "x"),
    ],
    ids=["more-go", "as-many-stay", "most-stay", "the-oldest-stays", "all-go", "none-is-older"],
)
def test_the_oldest_items_that_may_go_do_so_if_no_more_than_they_would_be_written_again(items: str, left: str) -> None:
    branches = opened(in_memory())
    branches.add(says(*items.split()))
    snapshot = branches.snapshot(2)
    assert snapshot is not None
    assert branches.replace(snapshot, 0, says("x"), lambda item: item["content"] == "old")
    assert texts_of(branches.items(None)) == texts_of(branches.read().items) == left.split()


def test_the_oldest_items_stay_where_usage_would_lose_its_turn() -> None:
    branches = opened(in_memory())
    branches.add(says("old", "b"))
    assert branches.record_usage(ran(7).context_wrapper.usage)
    branches.add(says("c"))
    snapshot = branches.snapshot(1)
    assert snapshot is not None
    assert branches.replace(snapshot, 0, says("x"), lambda item: item["content"] == "old")
    assert texts_of(branches.items(None)) == ["old", "b", "x"]
    assert list(branches.read().used) == [2]
