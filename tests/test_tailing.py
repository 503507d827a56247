"""`tail -f`: what is told of a session while others write it, cut it, seal it, move it, go on elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout import FollowEvent, Limits, Record, Store
from rollout.files.recovery import mark_batch
from tests import builders as b
from tests import homes
from tests.enciphering import a_cipher, a_secret_store
from tests.index_home import Watched

Deed = Callable[[], object]
TURN = (b.started("t1"), b.context("t1"), b.user("q1"), b.assistant("a1"), b.completed("t1"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session of one turn, in a home."""
    return homes.put(tmp_path, 1, *TURN)


class NoMore(Exception):
    """All deeds are done."""


def follow(path: Path, *deeds: Deed, last: int | None = 0, **more: Any) -> list[FollowEvent]:
    """All that is told while these deeds are done, one between two looks, which are five seconds apart."""
    left, now_s = list(deeds), 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += 5
        if left:
            left.pop(0)()
        else:
            raise NoMore

    told = []
    with contextlib.suppress(NoMore):
        for each in rollout.tail(path, last=last, follow=True, sleep=sleep, clock=lambda: now_s, **more):
            told.append(each)
    return told


def write(path: Path, *lines: bytes) -> Deed:
    return lambda: homes.grow(path, *lines)


def write_raw(path: Path, data: bytes) -> Deed:
    def deed() -> None:
        with path.open("ab") as file:
            file.write(data)

    return deed


def brief(told: list[FollowEvent]) -> list[object]:
    """Each line as (number, kind, status), each notice as its name."""
    return [
        each.happened if each.record is None else (each.record.line, each.record.kind or each.record.type, each.status)
        for each in told
    ]


def record_of(told: FollowEvent) -> Record:
    assert told.record is not None
    return told.record


def text_of(told: FollowEvent) -> str:
    """The text of a message."""
    return str(record_of(told).payload["content"][0]["text"])


def test_the_newest_lines_are_told_with_number_place_and_fate(path: Path) -> None:
    explained = {each.line: each for each in rollout.explain(path)}
    for last in (0, 1, 3, 6, 7, None):
        told = list(rollout.tail(path, last=last))
        count = 6 if last is None else min(last, 6)
        assert [each.record.line for each in told if each.record] == list(range(7 - count, 7))
        for each in told:
            assert each.record is not None
            said = explained[each.record.line]
            assert (each.record.offset, each.status, each.turn_id) == (said.offset, said.status, said.turn_id)
            assert path.read_bytes()[each.record.offset :].startswith(each.record.raw)


@given(
    data=st.lists(st.sampled_from([*TURN, b"", b"garbage", b"\0\0", b.rolled_back(1)]), max_size=12),
    last=st.integers(0, 14),
)
def test_the_newest_lines_are_those_that_stand_last_whatever_the_chunks(data: list[bytes], last: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = homes.put(Path(folder), 1, *data)
        told = rollout.tail(path, last=last, limits=Limits(first_chunk_bytes=7, chunk_bytes=11))
        whole = path.read_bytes().split(b"\n")[:-1]
        expected = b"".join(line + b"\n" for line in whole[len(whole) - min(last, len(whole)) :])
        assert b"".join(each.record.raw for each in told if each.record) == expected


def test_lines_are_told_as_they_are_written(path: Path) -> None:
    told = follow(path, write(path, b.started("t2"), b.user("q2")), lambda: None, write(path, b.completed("t2")))
    assert brief(told) == [(7, "task_started", "event"), (8, "message", "visible"), (9, "task_complete", "event")]
    assert {each.turn_id for each in told} == {"t2"}


def test_a_line_is_told_when_it_has_its_end(path: Path) -> None:
    line = b.user("q2")
    told = follow(path, write_raw(path, line[:20]), write_raw(path, line[20:]), write_raw(path, b"\n"))
    assert brief(told) == [(7, "message", "visible")]


@given(lines=st.lists(st.sampled_from([*TURN, b"", b"garbage", b.rolled_back(1), b.compacted([])])), data=st.data())
def test_each_line_is_told_once_with_its_fate_however_the_bytes_come(lines: list[bytes], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = homes.put(Path(folder), 1)
        text = b.log(*lines)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
        pieces = [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]
        expected: list[object] = []

        def write_piece(piece: bytes) -> Deed:
            def deed() -> None:
                known = path.read_bytes().rfind(b"\n") + 1
                with path.open("ab") as file:
                    file.write(piece)
                ended = path.read_bytes().rfind(b"\n") + 1
                now = rollout.explain(path.read_bytes()[:ended])
                expected.extend(
                    (each.line, each.offset, each.status, each.turn_id)
                    for each in now
                    if known <= each.offset < ended and each.status not in {"blank", "damaged"}
                )

            return deed

        told = [each for each in follow(path, *map(write_piece, pieces)) if each.record is not None]
        assert b"".join(record_of(each).raw for each in told) == text
        assert [
            (record_of(each).line, record_of(each).offset, each.status, each.turn_id)
            for each in told
            if each.status not in {"blank", "damaged"}
        ] == expected


def test_a_batch_is_told_when_it_is_whole(path: Path) -> None:
    one, two = mark_batch([b.user("q2") + b"\n", b.assistant("a2") + b"\n"])
    assert brief(follow(path, write_raw(path, one))) == []
    assert brief(follow(path, write_raw(path, two))) == [(7, "message", "visible"), (8, "message", "visible")]


def test_what_a_rollback_and_a_compaction_take_away_is_told(path: Path) -> None:
    told = follow(path, write(path, b.rolled_back(1)), write(path, b.user("q2")), write(path, b.compacted([])), last=2)
    assert brief(told[2:]) == [
        *((7, "thread_rolled_back", "event"), "undone"),
        (8, "message", "visible"),
        *((9, "compacted", "metadata"), "undone"),
    ]
    assert [each.what for each in told if each.what] == [
        "1 line above the model no longer sees: 1 rolled back",
        "1 line above the model no longer sees: 1 compacted away",
    ]


def test_a_cut_is_told_and_what_is_written_behind_it_too(path: Path) -> None:
    size = path.stat().st_size
    told = follow(
        path,
        write(path, b.user("q2")),
        write_raw(path, b"torn"),
        lambda: os.truncate(path, path.stat().st_size - 4),
        lambda: os.truncate(path, size),
        write(path, b.user("q3")),
    )
    assert brief(told) == [(7, "message", "visible"), "cut", "cut", (7, "message", "visible")]
    first = next(each for each in told if each.happened == "cut")
    assert first.what == "4 bytes less: a write that was cut short is gone"
    assert text_of(told[-1]) == "q3"


def test_what_takes_the_place_of_cut_lines_between_two_looks_is_told(path: Path) -> None:
    size = path.stat().st_size

    def cut_and_write() -> None:
        os.truncate(path, size)
        homes.grow(path, b.user("another, longer question"))

    told = follow(path, write(path, b.user("q2")), cut_and_write)
    assert brief(told) == [(7, "message", "visible"), "replaced", (7, "message", "visible")]


def test_sealing_and_unsealing_are_told_and_followed(path: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    told = follow(path, lambda: store.seal(path), lambda: store.unseal(path), write(path, b.user("q2")))
    assert brief(told) == ["sealed", "unsealed", (7, "message", "visible")]
    assert [each.path.suffix for each in told] == [".zst", ".jsonl", ".jsonl"]


def test_a_session_that_is_archived_is_followed_there(path: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archived_sessions" / path.name
    told = follow(path, lambda: Store(tmp_path).archive(path), lambda: homes.grow(archive, b.user("q2")))
    assert brief(told) == ["moved", (7, "message", "visible")]
    assert told[-1].path == archive


def test_a_revert_is_followed_into_its_own_file(path: Path, tmp_path: Path) -> None:
    new = homes.path_of(tmp_path, 1, part=2, at=9)
    told = follow(
        path,
        lambda: homes.put_data(new, b.log(homes.meta_of(1))),
        lambda: homes.grow(new, b.user("q2")),
        write(path, b.user("too late")),
    )
    assert brief(told) == ["continued", (1, "session_meta", "metadata"), (2, "message", "visible")]
    assert told[-1].path == new


def test_a_file_that_is_deleted_ends_it(path: Path) -> None:
    told = follow(path, path.unlink, lambda: pytest.fail("it went on"))
    assert brief(told) == ["deleted"]


def test_of_a_file_that_is_replaced_only_what_is_new_is_told(path: Path) -> None:
    def replace() -> None:
        other = path.with_name("other")
        shutil.copy(path, other)
        homes.grow(other, b.user("q2"))
        other.replace(path)

    assert brief(follow(path, replace)) == [(7, "message", "visible")]


def test_a_file_with_other_bytes_in_its_place_is_followed_from_its_end(path: Path) -> None:
    def replace() -> None:
        other = homes.put_data(path.with_name("other"), b.log(homes.meta_of(1), b.user("x" * 2000)))
        other.replace(path)

    assert brief(follow(path, replace, write(path, b.user("q2")))) == ["replaced", (3, "message", "visible")]


def test_kinds_fates_and_a_turn_choose_lines_but_not_notices(path: Path) -> None:
    more = write(path, b.started("t2"), b.user("q2"), b.rolled_back(1))
    assert brief(follow(path, more, kinds=["message"], last=None)) == [
        *((4, "message", "visible"), (5, "message", "visible"), (8, "message", "rolled_back")),
    ]
    os.truncate(path, path.stat().st_size)
    assert [each.status for each in rollout.tail(path, last=None, statuses=["visible"])] == ["visible"] * 2
    assert [record_of(each).line for each in rollout.tail(path, last=None, turn="t2")] == [7, 8, 9]


def test_an_encrypted_session_is_followed_with_its_key(tmp_path: Path) -> None:
    log = a_secret_store(tmp_path).create(cwd="/p", model_provider="m")

    def write_turn() -> None:
        with log.turn({"model": "m"}) as turn:
            turn.user("a secret")

    told = follow(log.path, write_turn, cipher=a_cipher(), kinds=["message"])
    log.close()
    assert [(each.status, text_of(each)) for each in told] == [("visible", "a secret")]


def test_only_new_bytes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = homes.put(tmp_path, 1, *TURN * 2000)
    watched = Watched()
    monkeypatch.setattr("rollout.files.source.REAL", watched)
    read = []

    def look() -> None:
        read.append(watched.bytes_read)

    assert len(follow(path, look, write(path, b.user("q2")), look, last=1)) == 2
    assert 0 < read[1] - read[0] < 200_000 < path.stat().st_size


def test_a_number_below_zero_and_bytes_in_memory_are_wrong_usage(path: Path) -> None:
    for source, last in ((path, -1), (path.read_bytes(), 1)):
        with pytest.raises(rollout.UsageError):
            list(rollout.tail(source, last=last))  # type: ignore[arg-type]  # that is what is tested
