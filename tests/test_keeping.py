"""Whole threads are named, archived, brought back and deleted; what needs them goes on finding them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.errors import Ambiguous, InUse, Locked, NotARollout, NotFound, UsageError, WriteError
from rollout.files.layout import scan
from tests.sessions import DAY, take_turn
from tests.threads import PART, a_fork, a_revert, a_thread, files, says

# Names and references


def test_a_thread_is_found_by_its_name_and_no_longer_when_that_is_taken_away(store: Store) -> None:
    log, other = a_thread(store), a_thread(store)
    assert store.rename(log.id, " fix the tests ") == "fix the tests"
    store.rename(other.id, "Other")
    assert store.resolve("fix the tests") == store.resolve("FIX the Tests") == log.path
    assert rollout.open_log("other", "read", home=store.home).id == other.id
    assert store.names() == {log.id: "fix the tests", other.id: "Other"}
    assert rollout.reconstruct("Other", home=store.home).thread_id == other.id
    store.rename("fix the tests", None)
    with pytest.raises(NotFound, match="no rollout 'fix the tests'"):
        store.resolve("fix the tests")
    assert store.names() == {other.id: "Other"}


def test_a_name_goes_with_its_thread_into_the_archive_and_is_free_when_that_is_deleted(store: Store) -> None:
    log, other = a_thread(store), a_thread(store)
    store.rename(log.path, "mine")
    archived = store.archive("mine")
    assert store.resolve("mine") == archived
    with pytest.raises(UsageError, match="is the name of thread"):
        store.rename(other.id, "mine")
    store.delete("mine")
    store.rename(other.id, "mine")
    assert store.resolve("mine") == other.path


def index(store: Store, *lines: dict[str, str]) -> None:
    (store.home / "session_index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_name_in_the_same_case_counts_before_others_and_two_are_ambiguous_and_are_told(store: Store) -> None:
    logs = [a_thread(store) for _ in range(3)]
    names = ["Fix", "fix", "fix\x1b[31m\u202e"]
    index(store, *({"id": log.id, "thread_name": name} for log, name in zip(logs, names, strict=True)))
    assert store.resolve("fix") == logs[1].path
    with pytest.raises(Ambiguous, match=r"'FIX' is the name of 2 threads: .*; give the id") as refused:
        store.resolve("FIX")
    assert all(log.id in str(refused.value) for log in logs[:2])
    assert "('fix')" in str(refused.value)
    with pytest.raises(Ambiguous) as refused:
        store.resolve(logs[0].id[:6])
    assert "fix\\x1b[31m\\u202e" in str(refused.value)
    assert str(refused.value).isprintable()


def test_an_id_counts_before_a_name_and_a_name_before_the_beginning_of_several_ids(store: Store) -> None:
    first, second = a_thread(store), a_thread(store)
    shared = first.id[:9]
    assert second.id.startswith(shared)
    index(
        store,
        {"id": first.id, "thread_name": second.id},
        {"id": second.id, "thread_name": shared},
        {"id": PART, "thread_name": "gone"},
    )
    assert store.resolve(second.id) == second.path
    assert store.resolve(shared) == second.path
    with pytest.raises(NotFound):
        store.resolve("gone")


def test_a_name_of_another_program_that_looks_like_a_path_is_found_if_it_is_no_path(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = a_thread(store)
    index(store, {"id": log.id, "thread_name": "feature/x"})
    monkeypatch.chdir(tmp_path)
    assert store.resolve("feature/x") == log.path
    (tmp_path / "feature").mkdir()
    (tmp_path / "feature" / "x").touch()
    assert store.resolve("feature/x") == Path("feature/x")
    with pytest.raises(NotFound, match="no such file"):
        store.resolve("feature/y")


@pytest.mark.parametrize(
    "ref", ["x" * 100_000, "/" + "x" * 100_000, "é" * 9000, "\udcff", "../../missing", "%s{0}", "*"]
)
def test_a_strange_reference_is_not_found_and_is_told_in_one_short_line(store: Store, ref: str) -> None:
    a_thread(store)
    with pytest.raises(NotFound) as refused:
        store.resolve(ref)
    assert len(str(refused.value)) < 5000
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("ref", ["", "a\0b", "\0", True, None, 1.5])
def test_what_can_be_no_reference_is_a_usage_error_everywhere(store: Store, ref: str) -> None:
    for refused in (store.resolve, store.archive, store.unarchive, store.delete, store.detach, store.forks_of):
        with pytest.raises(UsageError):
            refused(ref)


# Archive


def test_an_archived_thread_has_all_its_files_in_the_archive_and_comes_back_to_their_days(store: Store) -> None:
    log = a_thread(store)
    revert = a_revert(store, log)
    os.utime(log.path, (1, 1))
    before, said = files(store), says(revert)
    target = store.archive(log.id)
    assert target == store.home / "archived_sessions" / revert.name
    assert files(store) == sorted(f"archived_sessions/{path.name}" for path in (log.path, revert))
    assert store.resolve(log.id) == target
    assert says(target) == said
    assert (target.parent / log.path.name).stat().st_mtime == 1
    with pytest.raises(NotFound, match="no sessions"):
        store.resolve(-1)
    assert store.archive(target) == target
    assert store.unarchive(log.id) == revert
    assert store.unarchive(revert) == revert
    assert files(store) == before
    assert log.path.stat().st_mtime == 1
    assert says(revert) == said


def test_a_log_of_the_archive_is_gone_on_with_there(store: Store) -> None:
    log = a_thread(store)
    target = store.archive(log.id)
    with store.open(log.id) as again:
        take_turn(again, "more")
        with pytest.raises(Locked):
            store.unarchive(log.id)
    assert says(store.unarchive(target))[-2:] == ["more", "answer to more"]


def test_forks_of_an_archived_thread_go_on_finding_it_and_are_found(store: Store) -> None:
    log = a_thread(store)
    child = a_fork(log)
    said = says(child.path)
    store.archive(log.id)
    assert says(child.path) == said
    assert store.forks_of(log.id) == [child.path]
    assert says(store.archive(child.id)) == said
    store.unarchive(log.id)
    assert store.forks_of(log.id) == [store.resolve(child.id)]
    assert says(store.resolve(child.id)) == said


def test_a_sealed_thread_and_one_with_both_files_are_kept_like_plain_ones(store: Store) -> None:
    log, both = a_thread(store), a_thread(store)
    said = says(log.path)
    shutil.copy(both.path, store.home / "copy")
    sealed = store.seal(both.id).path
    shutil.copy(store.home / "copy", both.path)
    assert store.seal(log.id).path == store.unarchive(store.archive(log.id))
    assert says(store.resolve(log.id)) == said
    assert store.archive(both.id).name == both.path.name
    assert not sealed.exists()
    for thread in (log.id, both.id):
        store.delete(thread)
    assert files(store) == ["copy"]


def test_a_file_of_that_name_in_the_archive_is_not_lost(store: Store) -> None:
    log = a_thread(store)
    revert = a_revert(store, log)
    taken = store.home / "archived_sessions" / revert.name
    taken.parent.mkdir()
    taken.write_text("of somebody else\n")
    before = files(store)
    with pytest.raises(WriteError, match=r"cannot be archived: .* is there already; compare the two"):
        store.archive(log.id)
    assert files(store) == before
    assert taken.read_text() == "of somebody else\n"


def test_what_lies_in_no_home_or_has_no_name_of_a_rollout_is_not_archived_and_not_named(
    store: Store, tmp_path: Path
) -> None:
    log = a_thread(store)
    outside, foreign = tmp_path / log.path.name, log.path.with_name("session.jsonl")
    for path in (outside, foreign):
        shutil.copy(log.path, path)
        for refused in (store.archive, store.unarchive, lambda path: store.rename(path, "name")):
            with pytest.raises(UsageError, match="is no rollout of the home"):
                refused(path)
    assert log.path.exists()
    store.delete(outside)
    store.delete(foreign)
    assert files(store) == [str(log.path.relative_to(store.home))]


def test_no_link_leads_what_is_archived_out_of_the_home(store: Store, tmp_path: Path) -> None:
    log = a_thread(store)
    (tmp_path / "elsewhere").mkdir()
    (store.home / "archived_sessions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WriteError, match="no link may lead out of the home"):
        store.archive(log.id)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert says(log.path) == ["q", "answer to q"]


def strange(store: Store, kind: str, tmp_path: Path) -> Path:
    """Something strange under a rollout's name."""
    path = store.home / DAY / f"rollout-2026-03-20T09-00-00-{PART}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        (tmp_path / "target.jsonl").write_bytes(b"precious\n")
        path.symlink_to(tmp_path / "target.jsonl")
    return path


@pytest.mark.parametrize("kind", ["FIFO", "directory", "symbolic link"])
def test_what_is_no_file_is_neither_moved_nor_removed(store: Store, kind: str, tmp_path: Path) -> None:
    log = a_thread(store)
    path = strange(store, kind, tmp_path)
    for operation in (store.archive, store.unarchive, store.delete, store.detach):
        with pytest.raises(NotARollout, match=kind):
            operation(path)
    assert store.archive(log.id).exists()
    assert os.path.lexists(path)
    store.delete(log.id)
    assert kind != "symbolic link" or (tmp_path / "target.jsonl").read_bytes() == b"precious\n"


def test_an_empty_file_is_a_thread_like_others_to_its_keeper(store: Store) -> None:
    path = store.home / DAY / f"rollout-2026-03-20T09-00-00-{PART}.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    store.rename(PART, "empty one")
    assert store.unarchive(store.archive("empty one")) == path
    store.delete(PART)
    assert files(store) == ["session_index.jsonl"]


# Delete


def test_a_thread_is_deleted_with_all_its_files_by_any_of_them(store: Store) -> None:
    for n in (0, 1):
        log = a_thread(store)
        revert = a_revert(store, log)
        assert store.forks_of(log.id) == []
        assert store.delete((log.path, revert)[n]) == revert
        assert files(store) == []


def test_a_fork_of_an_older_file_of_a_thread_keeps_all_of_them(store: Store) -> None:
    log = a_thread(store)
    revert = a_revert(store, log)
    child = a_fork(log)
    before = files(store)
    assert store.forks_of(log.id) == store.forks_of(revert) == [child.path]
    with pytest.raises(InUse, match=child.path.name):
        store.delete(log.id)
    assert files(store) == before
    os.utime(child.path, (5, 5))
    said = says(child.path)
    store.delete(log.id, detach_forks=True)
    assert files(store) == [str(child.path.relative_to(store.home))]
    assert says(child.path) == said
    assert child.path.stat().st_mtime == 5


def test_a_sealed_fork_is_made_to_stand_alone_too(store: Store) -> None:
    log = a_thread(store)
    child = a_fork(log)
    said = says(child.path)
    store.seal(child.id)
    store.delete(log.id, detach_forks=True)
    assert says(store.resolve(child.id)) == said


def test_a_fork_whose_base_is_missing_is_not_detached_and_stays_as_it_is(store: Store) -> None:
    log = a_thread(store)
    child = a_fork(log)
    log.path.unlink()
    before = child.path.read_bytes()
    with pytest.raises(NotFound, match="bring the base back"):
        store.detach(child.id)
    assert child.path.read_bytes() == before
    assert len(files(store)) == 1


# What a crash has left


def test_what_a_crash_has_left_is_never_listed_and_the_next_operation_mends_it(store: Store) -> None:
    log, other = a_thread(store), a_thread(store)
    half = log.path.with_name(f".{log.path.name}.new")
    half.write_bytes(b"half")
    gone = other.path.with_name(f".{other.path.name}.deleted")
    other.path.rename(gone)
    assert [entry.path for entry in scan(store.home)] == [log.path]
    store.archive(log.id)
    assert files(store) == [f"archived_sessions/{log.path.name}"]


def test_a_thread_that_was_half_deleted_comes_back_and_so_does_what_a_fork_needs(store: Store) -> None:
    log, source, third = a_thread(store), a_thread(store), a_thread(store)
    revert, child = a_revert(store, log), a_fork(source)
    said = says(revert), says(child.path)
    for path in (log.path, source.path):
        path.rename(path.with_name(f".{path.name}.deleted"))
    store.archive(third.id)
    assert (says(revert), says(child.path)) == said


def test_nothing_hidden_takes_the_place_of_what_is_there(store: Store) -> None:
    log, other = a_thread(store), a_thread(store)
    aside = log.path.with_name(f".{log.path.name}.deleted")
    aside.write_bytes(b"older\n")
    said = says(log.path)
    store.archive(other.id)
    assert says(log.path) == said
    assert aside.read_bytes() == b"older\n"
