"""What changes or deletes takes rollouts only: a file of another kind is named, refused and left as it is."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Store, make_key
from rollout.errors import NotARollout, NotFound, RolloutError
from tests.foreign import A_LOG, FOREIGN, OWN, ROLLOUT_NAME, UUID, contents, make_foreign
from tests.sessions import a_store

CHANGING: dict[str, Callable[[Store, Any], object]] = {
    "open": lambda store, ref: store.open(ref).close(),
    "rename": lambda store, ref: store.rename(ref, "a name"),
    "archive": lambda store, ref: store.archive(ref),
    "unarchive": lambda store, ref: store.unarchive(ref),
    "detach": lambda store, ref: store.detach(ref),
    "delete": lambda store, ref: store.delete(ref),
    "seal": lambda store, ref: store.seal(ref),
    "unseal": lambda store, ref: store.unseal(ref),
    "rekey": lambda store, ref: store.rekey(ref),
    "decrypt": lambda store, ref: store.decrypt(ref),
    "rollout.open_log": lambda store, ref: rollout.open_log(ref, home=store.home).close(),
    "rollout.plan_repair": lambda store, ref: rollout.apply_repair(rollout.plan_repair(ref, home=store.home)),
}
"""What takes a reference, and changes or deletes what it names."""
READING = {"resolve", "forks_of", "keys_of", "du"}
READING_FUNCTIONS = {"reconstruct", "turns", "records", "explain", "verify", "replay", "summarize", "tail"} | {
    *("apply_repair", "diff")  # a plan is of what was looked at, a state of what was read
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """One with a key."""
    make_key(tmp_path / "keys.json", "k1")
    monkeypatch.setenv("ROLLOUT_KEYS_FILE", str(tmp_path / "keys.json"))
    return a_store(tmp_path / "home")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_every_public_call_that_takes_a_reference_is_known_to_change_or_only_to_read() -> None:
    methods = {name for name in dir(Store) if not name.startswith("_") and takes_reference(getattr(Store, name))}
    assert methods == READING | {name for name in CHANGING if "." not in name}
    functions = {name for name in rollout.__all__ if takes_reference(getattr(rollout, name))}
    assert functions == READING_FUNCTIONS | {name.partition(".")[2] for name in CHANGING if "." in name}


def takes_reference(function: Any) -> bool:
    if not inspect.isfunction(function):
        return False
    return not {"ref", "refs", "source", "plan", "before"}.isdisjoint(list(inspect.signature(function).parameters)[:2])


@pytest.mark.parametrize("name", FOREIGN, ids=repr)
@pytest.mark.parametrize("command", CHANGING)
def test_what_is_no_rollout_is_named_refused_and_left_alone(command: str, name: str, here: Path, store: Store) -> None:
    path = make_foreign(here, name)
    before = contents(here.parent)
    for ref in (path, str(path), f"./{name}", name):
        with pytest.raises((NotARollout, NotFound)) as refused:
            CHANGING[command](store, ref)
        assert Path(refused.value.path or "").name == name
        assert refused.value.remedy
        assert "\n" not in str(refused.value)
    assert contents(here.parent) == before


@pytest.mark.parametrize("command", CHANGING)
def test_what_no_file_of_a_folder_can_be_is_refused_too(command: str, store: Store) -> None:
    for ref in ("/dev/null", "/", ".", "..", "~", "/dev/full"):
        with pytest.raises((NotARollout, NotFound)):
            CHANGING[command](store, ref)
    assert Path("/dev/null").exists()


@pytest.mark.parametrize("command", CHANGING)
@pytest.mark.parametrize("name", OWN)
def test_a_rollout_by_its_name_or_its_beginning_is_taken_wherever_it_lies(
    command: str, name: str, here: Path, store: Store
) -> None:
    (here / name).write_bytes(OWN[name])
    try:
        CHANGING[command](store, f"./{name}")
    except NotARollout as error:
        pytest.fail(str(error))
    except RolloutError:  # it lies in no home, or has nothing to encrypt: it was looked at as a rollout
        pass


def test_sealed_and_encrypted_rollouts_of_other_names_are_known_by_how_they_begin(
    here: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "copy.jsonl").write_bytes(A_LOG)
    store.rekey("copy.jsonl")
    assert b"session_meta" in (here / "copy.jsonl").read_bytes()
    monkeypatch.delenv("ROLLOUT_KEYS_FILE")
    without_key = Store(store.home)
    sealed = without_key.seal("copy.jsonl").path
    assert without_key.delete("copy.jsonl") == sealed
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("command", CHANGING)
def test_a_session_that_shares_its_name_with_a_file_is_what_a_word_means(
    command: str, here: Path, store: Store
) -> None:
    with store.create(cwd="/p", model_provider="m") as log:
        pass
    store.rename(log.id, "notes")
    make_foreign(here, "notes")
    (here / log.id).write_text("mine")
    before = contents(here)
    for ref in ("notes", log.id, log.id[:13]):
        with contextlib.suppress(NotFound, NotARollout):  # it was deleted by the word before
            CHANGING[command](store, ref)
    assert contents(here) == before
    if command == "delete":
        assert not log.path.exists()


def test_a_file_of_that_name_can_be_named_and_read_all_the_same(here: Path, store: Store) -> None:
    with store.create(cwd="/p", model_provider="m") as log:
        pass
    store.rename(log.id, "notes")
    (here / "notes").write_bytes(A_LOG)
    assert rollout.reconstruct("notes", home=store.home).thread_id == log.id
    assert len(rollout.reconstruct("./notes", home=store.home).history) == 1
    make_foreign(here, "notes.txt")
    assert rollout.verify("notes.txt", home=store.home).damaged_lines == 1
    assert store.delete("./notes") == here / "notes"
    assert log.path.exists()


def test_a_link_is_told_apart_from_what_it_leads_to(here: Path, store: Store) -> None:
    target = here / ROLLOUT_NAME
    target.write_bytes(A_LOG)
    (here / "link").symlink_to(target)
    with pytest.raises(NotARollout, match=rf"is a symbolic link, not a rollout; give what it leads to: {target}"):
        store.delete("link")
    assert store.delete(target) == target
    assert UUID in target.name
