"""Vacuum: what it gives back, what it leaves alone and why, and that no reader can tell afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout import Store
from rollout.errors import NotFound
from rollout.storage.fs import REAL
from rollout.storage.holder import Holder
from tests import builders as b
from tests import strategies
from tests.builders import log
from tests.enciphering import a_secret_store
from tests.sessions import a_store
from tests.threads import a_fork, a_thread
from tests.vacuuming import (
    CHILD,
    DOUBLED,
    LATER,
    OTHER_URL,
    PICTURE,
    SOURCE,
    URL,
    apply,
    copied_by_codex,
    done,
    place,
    refused,
    state_of,
)

# Exact copies within a file


def test_doubled_records_that_say_the_same_twice_go_and_the_first_stays(tmp_path: Path) -> None:
    twice = [
        b.context("t"),
        b.world_state({"a": 1}),
        b.token_count(7),
        b.usage_record(8),
        b.compacted([b.user_item("s")]),
    ]
    renewed = [line.replace(b.TIME.encode(), LATER) for line in twice]
    doubled = [line for pair in zip(twice, renewed, strict=True) for line in (*pair, pair[0])]
    path = place(tmp_path, b.THREAD, log(b.session_meta(), b.started("t"), *doubled, b.user("q")))
    (step,) = apply(tmp_path)
    assert path.read_bytes() == log(b.session_meta(), b.started("t"), *twice, b.user("q"))
    assert (step.action, step.what) == ("thin", "without 10 records that are doubled")


@pytest.mark.parametrize(
    "line",
    [
        b.user("q"),
        b.assistant("a"),
        b.rolled_back(1),
        b.items_removed(1),
        b.legacy_compacted("S"),
        b.world_state({"a": 1}, full=False),
        b.event("agent_message", message="a"),
        b.line("token_usage_record", {}, ordinal=4),
        b.started("t"),
    ],
)
def test_records_that_can_be_meant_twice_stay(tmp_path: Path, line: bytes) -> None:
    place(tmp_path, b.THREAD, log(b.session_meta(), b.started("s"), line, line))
    assert apply(tmp_path) == []


def test_equal_records_with_something_between_them_stay(tmp_path: Path) -> None:
    place(tmp_path, b.THREAD, log(b.session_meta(), b.token_count(1), b.event("x"), b.token_count(1)))
    assert apply(tmp_path) == []


def pictures(*urls: str, thread: str = "t") -> bytes:
    item = b.line("response_item", {"type": "message", "role": "user", "content": [PICTURE]})
    event = b.event("user_message", message="q", images=list(urls), n=1.50)
    return log(b.session_meta(), b.started(thread), item, event, b.completed(thread))


def test_a_picture_that_an_event_repeats_goes_from_the_event_when_asked_for(tmp_path: Path) -> None:
    path = place(tmp_path, b.THREAD, pictures(URL, OTHER_URL, URL))
    assert apply(tmp_path, event_images=False) == []
    (step,) = apply(tmp_path)
    assert path.read_bytes() == pictures(OTHER_URL)
    assert step.what == "without 2 pictures that events repeat"


def test_a_picture_of_another_turn_or_in_an_odd_spelling_stays(tmp_path: Path) -> None:
    in_turn = pictures(URL)
    between = in_turn.replace(log(b.event("user_message", message="q", images=[URL], n=1.50)), b"")
    place(tmp_path, b.THREAD, between + log(b.started("u"), b.event("user_message", message="q", images=[URL])))
    place(tmp_path, CHILD, in_turn.replace(b'"images":[', b'"images": ['))
    assert apply(tmp_path) == []


# Sealed twins


def test_a_sealed_twin_with_the_same_text_goes_and_another_one_stays(tmp_path: Path) -> None:
    path = place(tmp_path, b.THREAD, SOURCE)
    twin = path.with_name(path.name + ".zst")
    for text, reason in ((SOURCE[:-1], True), (SOURCE + b"\n", True), (SOURCE, False)):
        twin.write_bytes(zstandard.compress(text))
        (step,) = Store(tmp_path).vacuum().steps
        assert (step.action, step.path, step.reason is not None) == ("twin", twin, reason)
        Store(tmp_path).vacuum(apply=True)
        assert twin.exists() is reason
    assert path.read_bytes() == SOURCE


def test_a_twin_that_is_cut_off_stays(tmp_path: Path) -> None:
    path = place(tmp_path, b.THREAD, SOURCE)
    path.with_name(path.name + ".zst").write_bytes(zstandard.compress(SOURCE)[:-5])
    (step,) = Store(tmp_path).vacuum(apply=True).steps
    assert not step.done


# What stands against it


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path: Path) -> None:
    files = {b.THREAD: SOURCE, CHILD: copied_by_codex(SOURCE, log(b.event("x"), b.token_count(1), b.token_count(1)))}
    paths = [place(tmp_path, thread, data) for thread, data in files.items()]
    plan = Store(tmp_path).vacuum(legacy_forks=True)
    assert [path.read_bytes() for path in paths] == list(files.values())
    assert not plan.applied
    assert not any(step.done for step in plan.steps)
    outcome = Store(tmp_path).vacuum(legacy_forks=True, apply=True)
    assert [step.action for step in outcome.steps] == [step.action for step in plan.steps] == ["refer", "thin"]
    assert (
        outcome.saved_bytes == plan.saved_bytes == sum(map(len, files.values())) - sum(p.stat().st_size for p in paths)
    )


def test_a_file_that_others_refer_to_behind_the_change_is_left_alone(tmp_path: Path) -> None:
    path = place(tmp_path, b.THREAD, DOUBLED)
    base = {"thread_id": b.THREAD, "end_byte_offset": len(DOUBLED)}
    child = place(tmp_path, CHILD, log(b.session_meta(CHILD, history_base=base)))
    assert child.name in refused(tmp_path, path)
    child.write_bytes(log(b.session_meta(CHILD, history_base={**base, "end_byte_offset": len(log(b.session_meta()))})))
    assert done(apply(tmp_path)) == [("thin", "0001")]


def test_a_file_that_somebody_writes_to_is_left_alone_and_so_is_a_fork_of_it(tmp_path: Path) -> None:
    path = place(tmp_path, b.THREAD, DOUBLED)
    child = place(tmp_path, CHILD, copied_by_codex(DOUBLED))
    file = REAL.open_append(path)
    file.lock(Holder(1, "here", "now"))
    try:
        steps = Store(tmp_path).vacuum(apply=True, legacy_forks=True).steps
    finally:
        file.close()
    assert {step.path: step.done for step in steps} == {path: False, child: False}
    assert all("another writer holds it" in (step.reason or "") for step in steps if step.action == "refer")


@pytest.mark.parametrize("damage", [b"%%\n", b"\n", b'{"torn'])
def test_a_file_that_needs_repair_is_left_alone(tmp_path: Path, damage: bytes) -> None:
    path = place(tmp_path, b.THREAD, DOUBLED + damage)
    (step,) = Store(tmp_path).vacuum(apply=True).steps
    assert step.reason == "is damaged; repair it first"
    assert path.read_bytes() == DOUBLED + damage


def test_a_file_without_its_base_is_left_alone(tmp_path: Path) -> None:
    base = {"thread_id": CHILD, "end_byte_offset": 9}
    place(tmp_path, b.THREAD, log(b.session_meta(history_base=base), b.token_count(1), b.token_count(1)))
    (step,) = Store(tmp_path).vacuum(apply=True).steps
    assert "is missing" in (step.reason or "")


def test_a_file_whose_turns_have_no_ids_is_left_alone_where_their_offsets_would_change(tmp_path: Path) -> None:
    doubled = log(b.token_count(1), b.token_count(1))
    path = place(tmp_path, b.THREAD, log(b.session_meta()) + doubled + log(b.user("q")))
    assert "turns without an id" in refused(tmp_path, path)
    path.write_bytes(log(b.session_meta(), b.user("q"), b.started("t")) + doubled)
    assert done(apply(tmp_path)) == [("thin", "0001")]


def test_a_sealed_copy_is_to_be_unsealed_first_and_a_sealed_source_will_do(tmp_path: Path) -> None:
    source, child = place(tmp_path, b.THREAD, SOURCE), place(tmp_path, CHILD, copied_by_codex(SOURCE))
    Store(tmp_path).seal(child)
    (step,) = Store(tmp_path).vacuum(apply=True, legacy_forks=True).steps
    assert step.reason == "it is sealed: unseal it first"
    Store(tmp_path).unseal(child)
    Store(tmp_path).seal(source)
    assert done(apply(tmp_path)) == [("refer", "0002")]


def test_an_encrypted_copy_is_to_be_decrypted_first(tmp_path: Path) -> None:
    source = a_fork(a_thread(a_store(tmp_path)))
    fork = a_fork(source)
    store = a_secret_store(tmp_path)
    store.detach(source.id)  # which makes its own fork a copy first
    for each in (source, fork):
        store.rekey(each.id)
    (step,) = store.vacuum(legacy_forks=True).steps
    assert (step.path, step.reason) == (fork.path, "it is encrypted: decrypt it first")


def test_a_difference_behind_a_later_rollback_alone_keeps_the_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollout.upkeeping.thinning._is_idempotent", lambda line, depth: True)
    removing = log(
        b.started("s"), b.user("q"), b.assistant("one"), b.assistant("two"), b.items_removed(), b.items_removed()
    )
    short = log(b.started("t"), b.user("r"), b.compacted([]))
    path = place(tmp_path, b.THREAD, log(b.session_meta()) + removing + short)
    data = path.read_bytes()
    (step,) = Store(tmp_path).vacuum(apply=True).steps
    assert step.reason == "would have another history: it was left as it is"
    assert path.read_bytes() == data
    before = state_of(path)
    path.write_bytes(data.replace(log(b.items_removed()), b"", 1))
    assert state_of(path) == before  # what the refused file says as it stands


def test_a_path_that_is_not_there_is_an_error_and_one_that_cannot_be_read_a_step(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Store(tmp_path).vacuum([tmp_path / "nothing"])
    bad = place(tmp_path, b.THREAD, zstandard.compress(SOURCE)[:9])
    place(tmp_path, CHILD, DOUBLED)
    steps = Store(tmp_path).vacuum(apply=True).steps
    assert [step.action for step in steps if step.path != bad] == ["thin"]


# Whatever the log says


def doubled_and_pictured(lines: list[bytes], doubles: list[int]) -> list[bytes]:
    found = [b.started("first"), *lines]
    for at in doubles:
        found.insert(at % len(found), found[at % len(found)])
    return found


some_lines = st.builds(doubled_and_pictured, strategies.well_formed_lines(4), st.lists(st.integers(0, 60), max_size=5))


@settings(max_examples=40)
@given(some_lines, some_lines, st.integers(0, 40), st.lists(st.integers(0, 3), max_size=3))
def test_no_reader_can_tell_nor_after_any_rollbacks(
    source: list[bytes], own: list[bytes], copied: int, backs: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        data = log(b.session_meta(), *source)
        prefix = log(*data.splitlines()[: 1 + copied])
        paths = [
            place(home, b.THREAD, data),
            place(home, CHILD, copied_by_codex(prefix, log(*own))),
        ]
        before = [path.read_bytes() for path in paths]
        apply(home)
        more = log(*map(b.rolled_back, backs))
        after = [path.read_bytes() for path in reversed(paths)]
        told_after = []
        for path, text in zip(reversed(paths), after, strict=True):
            path.write_bytes(text + more)
            told_after.append(state_of(path))
            path.write_bytes(text)
        for path, old in zip(paths, before, strict=True):
            path.write_bytes(old)
        for path, told, old in zip(reversed(paths), told_after, reversed(before), strict=True):
            path.write_bytes(old + more)
            assert state_of(path) == told
