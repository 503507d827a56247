"""A session stepped through: each step as of its moment, judged as `explain` judges the log up to there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout.files.source import Origin
from rollout.limits import Limits
from tests import builders as b
from tests import homes, strategies
from tests.sessions import a_log, a_store, take_turn

LOGS = st.one_of(strategies.well_formed_logs(6), strategies.any_logs(20), strategies.damaged_logs(15))


def turn(name: str, *lines: bytes) -> bytes:
    return b.log(b.started(name), b.context(name), *lines, b.completed(name))


def places(playback: rollout.Playback, *, everything: bool = True) -> list[rollout.StepPosition]:
    """All of them, by steps from the first on."""
    found: list[rollout.StepPosition] = []
    at = playback.first(everything=everything)
    while at is not None:
        found.append(at)
        at = playback.after(at, everything=everything)
    return found


def arrive(search: Iterator[rollout.StepPosition | None]) -> rollout.StepPosition | None:
    return next((place for place in search if place is not None), None)


def fates(scene: rollout.PlaybackView) -> list[str]:
    """Of the messages."""
    return [step.status for step in scene.steps if step.name == "message"]


def names(scene: rollout.PlaybackView) -> list[tuple[str, str]]:
    return [(step.name, step.status) for step in scene.steps]


@settings(max_examples=15)
@given(data=LOGS, backward=st.booleans(), count=st.integers(1, 12))
def test_every_step_of_every_moment_is_what_explain_says_of_the_log_up_to_there(
    data: bytes, backward: bool, count: int
) -> None:
    with rollout.replay(data) as playback:
        stops = places(playback)
        for place in reversed(stops) if backward else stops:
            scene = playback.scene(place, count, everything=True, fold=False)
            told = {each.offset: each for each in rollout.explain(data[: place.end])}
            knows_thread = rollout.reconstruct(data[: place.end]).thread_id == playback.thread_id
            assert scene.step.position == place
            assert len(scene.steps) == min(count, stops.index(place) + 1)
            for step in scene.steps:
                explained = told.get(step.record.offset)
                if explained is None:  # bytes that are no line of their own
                    assert step.status in {"damaged", "blank"}
                    continue
                assert (step.status, step.by_offset) == (explained.status, explained.by_offset)
                if knows_thread:  # of which derived ids are made
                    assert step.turn_id == explained.turn_id


@settings(max_examples=10)
@given(data=LOGS)
def test_all_steps_are_what_explain_says_of_the_whole_log(data: bytes) -> None:
    told = {each.offset: each for each in rollout.explain(data)}
    with rollout.replay(data) as playback:
        for step in playback.steps():
            if step.record.offset in told:
                assert (step.status, step.turn_id) == (
                    told[step.record.offset].status,
                    told[step.record.offset].turn_id,
                )


@settings(max_examples=10)
@given(data=st.one_of(strategies.well_formed_logs(6), strategies.any_logs(20)), everything=st.booleans())
def test_the_steps_backward_are_those_forward(data: bytes, everything: bool) -> None:
    with rollout.replay(data, limits=Limits(first_chunk_bytes=64, chunk_bytes=128)) as playback:
        forward = places(playback, everything=everything)
        backward = []
        at = playback.last(everything=everything)
        while at is not None:
            backward.append(at)
            at = playback.before(at, everything=everything)
        assert backward[::-1] == forward


@settings(max_examples=10)
@given(data=LOGS, count=st.integers(1, 8))
def test_what_the_model_saw_at_a_place_is_the_end_of_the_history_up_to_there(data: bytes, count: int) -> None:
    with rollout.replay(data) as playback:
        for place in places(playback):
            seen, is_all = playback.seen(place, count)
            history = rollout.reconstruct(data[: place.end]).history
            assert list(seen) == list(history)[-count:]
            assert is_all == (len(history) <= count)


@settings(max_examples=10)
@given(data=strategies.well_formed_logs(6))
def test_the_next_turn_is_where_a_turn_opens_and_the_turn_before_leads_back(data: bytes) -> None:
    with rollout.replay(data) as playback:
        stops = places(playback)
        opens = [place for place in stops if playback.scene(place, 1, everything=True).turn_position == place]
        for i, place in enumerate(stops):
            later = next((each for each in opens if each in stops[i + 1 :]), None)
            assert arrive(playback.next_turn(place)) == later
        for before, place in zip([None, *opens], opens, strict=False):
            assert playback.turn_before(place) == before
        assert len(opens) == len(rollout.turns(data))


def test_an_item_is_undone_from_its_rollback_on_and_not_before() -> None:
    data = turn("t1", b.user("q1"), b.assistant("a1")) + b.log(b.rolled_back(1))
    with rollout.replay(data) as playback:
        end = playback.last()
        assert end is not None
        assert fates(playback.scene(end, 9)) == ["rolled_back"] * 2
        before = playback.before(end)
        assert before is not None
        assert fates(playback.scene(before, 9)) == ["visible"] * 2


def test_a_compaction_that_shares_its_line_with_another_record_counts_from_there_on() -> None:
    data = b.log(b.user("q1"), b.compacted([]) + b.assistant("a1"), b.assistant("a2"))
    with rollout.replay(data) as playback:
        first = playback.first()
        assert first is not None
        assert fates(playback.scene(first, 9)) == ["visible"]
        second = playback.after(first)
        assert second is not None
        assert fates(playback.scene(second, 9)) == ["replaced", "visible"]


def test_what_a_compaction_stands_for_is_folded_until_it_is_rolled_back() -> None:
    compacted = turn("t2", b.user("q2"), b.compacted([b.user_item("kept")]), b.assistant("a2"))
    data = turn("t1", b.user("q1")) + compacted + b.log(b.rolled_back(1))
    with rollout.replay(data) as playback:
        end = playback.last()
        assert end is not None
        assert not playback.scene(end, 20).folded
        before = playback.before(end)
        assert before is not None
        folded = playback.scene(before, 20)
        assert folded.folded
        assert [step.kind for step in folded.steps] == ["compaction", "item", "end"]
        unfolded = playback.scene(before, 20, fold=False)
        assert ("message", "replaced") in names(unfolded)


def test_jumps_and_searches_find_the_nearest_in_each_direction_or_nothing() -> None:
    data = turn("t1", b.user("Find ME"), b.call()) + b.log(b.rolled_back(1)) + turn("t2", b.user("find me"))
    with rollout.replay(data) as playback:
        first, last = playback.first(), playback.last()
        assert first is not None
        assert last is not None
        hit = arrive(playback.search(first, "FIND me"))
        assert hit is not None
        again = arrive(playback.search(hit, "find ME"))
        assert again is not None
        assert again > hit
        assert arrive(playback.search(again, "find me")) is None
        assert arrive(playback.search(again, "find me", back=True)) == hit
        marker = arrive(playback.jump(first, {"rollback"}))
        assert marker == arrive(playback.jump(last, {"rollback"}, back=True))
        assert arrive(playback.jump(first, {"compaction"})) is None


def test_a_scene_tells_tokens_model_and_when_the_turn_began() -> None:
    usage = {"total_token_usage": {"total_tokens": 90}, "last_token_usage": {"total_tokens": 40}}
    counted = b.event("token_count", info={**usage, "model_context_window": 200})
    with rollout.replay(turn("t1", b.user("q"), counted, b.assistant("a"))) as playback:
        last = playback.last()
        assert last is not None
        scene = playback.scene(last, 1)
        assert (scene.tokens, scene.last_usage) == (rollout.Tokens(total=90), rollout.Tokens(total=40))
        assert scene.window_tokens == 200
        assert (scene.model, scene.turn_id, scene.turn_began) == ("m1", "t1", b.TIME)


def test_both_ends_of_a_large_log_cost_a_few_chunks(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    one = turn("t", b.user("q"), b.event("noise", text="n" * 3000), b.assistant("a"))
    path.write_bytes(b.log(b.session_meta()) + one * 6000)
    with rollout.replay(path) as playback:
        opened = playback.bytes_read
        for place in (playback.first(), playback.last()):
            assert place is not None
            assert playback.scene(place, 20).steps
        assert playback.bytes_read - opened < path.stat().st_size / 10
        read = playback.bytes_read
        for _ in range(20):
            assert place is not None
            place = playback.before(place)
            assert place is not None
            playback.scene(place, 20)
        assert playback.bytes_read - read < 60 * 128 * 1024


def test_the_steps_of_a_fork_begin_in_its_parent(tmp_path: Path) -> None:
    with a_log(a_store(tmp_path)) as parent:
        take_turn(parent, "q1")
        with parent.fork() as child:
            take_turn(child, "q2")
    with rollout.replay(child.path, home=tmp_path) as playback:
        first, last = playback.first(), playback.last()
        assert first is not None
        assert last is not None
        assert playback.inherited(first) == parent.id
        assert playback.inherited(last) is None
        told = [(each.offset, each.status) for each in rollout.explain(child.path, home=tmp_path)]
        assert [(step.record.offset, step.status) for step in playback.steps()] == told
        scene = playback.scene(last, 100)
        texts = [part["text"] for step in scene.steps for part in (step.item or {}).get("content", [])]
        assert texts == ["q1", "answer to q1", "q2", "answer to q2"]


def test_a_refresh_sees_what_was_written_and_what_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(turn("t1", b.user("q1")))
    with rollout.replay(path) as playback:
        end = playback.last()
        assert end is not None
        assert not playback.refresh()
        with path.open("ab") as file:
            file.write(b.log(b.rolled_back(1)))
        assert playback.refresh()
        later = playback.after(end)
        assert later is not None
        assert ("message", "rolled_back") in names(playback.scene(later, 9))
        os.truncate(path, end.end)
        assert playback.refresh()
        assert not playback.holds(later)
        assert playback.last() == end
        path.unlink()
        with pytest.raises(rollout.NotFound):
            playback.refresh()
        assert playback.last() == end


def reverted(path: Path, kept: int, *lines: bytes) -> Path:
    """A new file of the thread of the first home's session, which goes on from the first `kept` bytes of `path`."""
    base = {"thread_id": homes.thread_id(1), "end_byte_offset": kept}
    home = path.parents[4]
    return homes.put_data(homes.path_of(home, 1, part=2, at=9), b.log(homes.meta_of(1, history_base=base), *lines))


def test_a_refresh_goes_along_into_the_file_of_a_revert_and_says_so(tmp_path: Path) -> None:
    path = homes.put(tmp_path, 1, b.user("q1"))
    kept, now_s = path.stat().st_size, 0.0
    homes.grow(path, b.user("q2"))
    with rollout.replay(path, home=tmp_path, clock=lambda: now_s) as playback:
        first, last = playback.first(), playback.last()
        assert first is not None
        assert last is not None
        new = reverted(path, kept, b.user("q3"))
        assert not playback.refresh()  # the home was looked through just now
        now_s = 2.0
        assert playback.refresh()
        assert (playback.path, playback.notice) == (new, f"the thread goes on in {new.name}")
        assert (playback.holds(first), playback.holds(last)) == (True, False)
        newest = playback.last()
        assert newest is not None
        scene = playback.scene(newest, 9)
        assert [(step.item or {})["content"][0]["text"] for step in scene.steps if step.item] == ["q1", "q3"]
        now_s = 4.0
        assert not playback.refresh()
        assert playback.notice is None
        homes.grow(new, b.user("q4"))
        assert playback.refresh()


def test_a_refresh_goes_along_with_a_file_that_is_sealed_and_one_that_is_moved(tmp_path: Path) -> None:
    path, store = homes.put(tmp_path, 1, b.user("q1")), rollout.Store(tmp_path)
    with rollout.replay(path, home=tmp_path) as playback:
        last = playback.last()
        assert last is not None
        store.seal(path)
        assert playback.refresh()
        assert playback.notice == f"it is {path.name}.zst now"
        store.archive(homes.thread_id(1))
        assert playback.refresh()
        assert playback.notice == f"it is in {tmp_path / 'archived_sessions'} now"
        assert playback.holds(last)
        assert playback.last() == last


def test_a_replay_of_an_earlier_moment_stays_at_it(tmp_path: Path) -> None:
    path, now_s = homes.put(tmp_path, 1, b.user("q1")), 0.0
    with rollout.replay(path, home=tmp_path, at=rollout.at_line(2), clock=lambda: now_s) as playback:
        reverted(path, path.stat().st_size, b.user("q2"))
        now_s = 2.0
        assert not playback.refresh()
        assert (playback.path, playback.notice) == (path, None)


def test_a_file_of_the_thread_that_cannot_be_opened_yet_is_gone_into_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now_s = homes.put(tmp_path, 1, b.user("q1")), 0.0
    with rollout.replay(path, home=tmp_path, clock=lambda: now_s) as playback:
        new, now_s = reverted(path, path.stat().st_size), 2.0
        opened = Origin.opened
        with monkeypatch.context() as patched:
            patched.setattr(Origin, "opened", lambda origin: opened(dataclasses.replace(origin, path=tmp_path / "no")))
            for _ in range(2):
                with pytest.raises(rollout.NotFound):
                    playback.refresh()
                assert (playback.path, playback.notice) == (path, None)
        assert playback.refresh()
        assert (playback.path, playback.notice) == (new, f"the thread goes on in {new.name}")


def test_a_record_whose_payload_is_no_object_tells_nothing_and_is_a_step() -> None:
    odd = [b.line(kind, "message") for kind in ("turn_context", "message", "session_meta")]
    with rollout.replay(b.log(*odd, b.user("q"))) as playback:
        last = playback.last()
        assert last is not None
        assert [step.name for step in playback.scene(last, 9, everything=True).steps] == [
            *["turn_context", "message", "session_meta", "message"],
        ]
        assert playback.turn_before(last) is None
        assert arrive(playback.next_turn(playback.scene(last, 9, everything=True).steps[0].position)) is not None


def test_an_empty_log_has_no_steps() -> None:
    with rollout.replay(b"") as playback:
        assert playback.first() is None
        assert playback.last() is None
        assert list(playback.steps()) == []
        assert playback.size_bytes == 0
