"""Homes that Codex forked, reverted, compacted and archived: each thread has the history that Codex sends for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.errors import InUse
from tests.test_cases import comparable

CHAINS = Path(__file__).resolve().parent.parent / "fixtures" / "chains"
PROMPTS = {path.parent.name: json.loads(path.read_text()) for path in sorted(CHAINS.glob("*/prompts.json"))}
THREADS = [(home, thread) for home, prompts in PROMPTS.items() for thread in prompts]


def prompt(thread: str, home: Path) -> object:
    state = rollout.reconstruct(thread, home=home)
    assert state.damage == ()
    return comparable(list(state.for_prompt()))


def test_all_recorded_threads_are_here() -> None:
    assert (len(PROMPTS), len(THREADS)) == (15, 52)


@pytest.mark.parametrize(("home", "thread"), THREADS)
def test_a_thread_of_a_recorded_home_has_the_history_that_codex_sends(home: str, thread: str) -> None:
    assert prompt(thread, CHAINS / home / "home") == comparable(PROMPTS[home][thread])


@pytest.fixture(params=PROMPTS)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Store, dict[str, object]]:
    """A copy of a recorded home, and what each thread of it is to send."""
    shutil.copytree(CHAINS / request.param / "home", tmp_path / "home")
    return Store(tmp_path / "home"), {id: comparable(items) for id, items in PROMPTS[request.param].items()}


def files(store: Store) -> set[str]:
    return {path.name.removesuffix(".zst") for path in store.home.rglob("rollout-*.jsonl*")}


def test_no_upkeep_of_a_recorded_home_changes_what_a_thread_sends(copied: tuple[Store, dict[str, object]]) -> None:
    store, sent = copied
    before = files(store)
    for upkeep in (store.seal, store.archive, store.unseal, store.unarchive):
        for thread in sent:
            upkeep(thread)
        assert {thread: prompt(thread, store.home) for thread in sent} == sent
        assert {row.damaged for row in store.list(forks=True, archived=None)} == {0}
    assert files(store) == before
    assert store.doctor().ok


def test_a_thread_that_another_one_needs_is_not_deleted_but_with_those_detached(
    copied: tuple[Store, dict[str, object]],
) -> None:
    store, sent = copied
    for thread in list(sent):
        needing = store.forks_of(thread)
        if not needing:
            continue
        before = files(store)
        with pytest.raises(InUse) as refused:
            store.delete(thread)
        assert all(path.name in str(refused.value) for path in needing[:3])
        assert files(store) == before
        assert {id: prompt(id, store.home) for id in sent} == sent
        store.delete(thread, detach_forks=True)
        del sent[thread]
        assert {id: prompt(id, store.home) for id in sent} == sent


def test_threads_are_deleted_from_the_newest_on_without_a_word(copied: tuple[Store, dict[str, object]]) -> None:
    store, sent = copied
    while rows := store.list(forks=True, archived=None).rows:
        newest = next(row.id for row in rows if not store.forks_of(row.id))
        store.delete(newest)
        sent.pop(newest, None)
        assert {id: prompt(id, store.home) for id in sent} == sent
    assert files(store) == set()


def test_a_fork_at_every_turn_of_a_recorded_thread_has_the_state_that_stood_there(
    copied: tuple[Store, dict[str, object]],
) -> None:
    store, sent = copied
    for thread in sent:
        with store.open(thread, "read") as log:
            for turn in log.resume_state().all_turns:
                with log.fork(at=turn.id) as child, log.fork(at=turn.id, copy=True) as copy:
                    assert list(child.resume_state().history) == list(copy.resume_state().history)
                    assert child.resume_state().damage == ()
            with log.fork() as child:
                pass
        assert prompt(child.id, store.home) == sent[thread]
