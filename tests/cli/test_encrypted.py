"""The command line reads, encrypts and decrypts with the keys that $ROLLOUT_KEYS_FILE names, and says what it lacks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.files.encrypted.keys import KEYS_FILE
from tests.builders import log, session_meta, user
from tests.cli import run, write
from tests.cli.test_startup import imported, running
from tests.enciphering import a_secret_log
from tests.sessions import a_log, a_store, lines_of, take_turn
from tests.threads import a_revert, a_thread, says


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encrypted rollout, and the environment with its keys."""
    rollout.make_key(tmp_path / "keys.json", "mine")
    monkeypatch.setenv(KEYS_FILE, str(tmp_path / "keys.json"))
    with a_secret_log(Store(tmp_path / "home")) as made:
        take_turn(made, "a question of mine")
    return made.path


def test_with_the_keys_of_the_environment_commands_read_an_encrypted_rollout(path: Path) -> None:
    assert "a question of mine" in run("history", path).out
    assert run("verify", path).code == 0
    assert run("reconstruct", path, "--json").json["history"][0]["content"][0]["text"] == "a question of mine"


def test_without_a_key_a_command_names_it_and_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS_FILE)
    ran = run("history", path)
    assert (ran.code != 0, ran.out) == (True, "")
    assert "encrypted with key 'mine'" in ran.err
    assert KEYS_FILE in ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def plain(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plain rollout in the same home, with an archived one beside it."""
    keys = os.environ[KEYS_FILE]
    monkeypatch.delenv(KEYS_FILE)
    store = a_store(path.parents[4])
    logs = [a_log(store) for _ in range(2)]
    for made in logs:
        take_turn(made, "a plain question")
        made.close()
    store.archive(logs[0].id)
    monkeypatch.setenv(KEYS_FILE, keys)
    monkeypatch.setenv("ROLLOUT_HOME", str(store.home))
    return logs[1].path


def plain_files(home: Path) -> list[str]:
    return [found.name for found in home.rglob("*.jsonl") if b'"encrypted":' not in found.read_bytes()]


def test_a_session_is_encrypted_and_made_plain_again_line_for_line(plain: Path) -> None:
    before = [line["payload"] for line in lines_of(plain)]
    assert run("encrypt", plain).out == f"encrypted  {plain}\n"
    encrypted = plain.read_bytes()
    assert b"a plain question" not in encrypted
    assert "a plain question" in run("history", plain).out
    assert run("encrypt", plain).code == 0
    assert plain.read_bytes() == encrypted
    assert run("decrypt", plain, "--json").json == [{"id": plain.stem[-36:], "path": str(plain), "error": None}]
    assert [line["payload"] for line in lines_of(plain)] == before
    assert run("decrypt", plain).code == 0


def test_all_sessions_are_encrypted_archived_ones_too_and_a_dry_run_only_lists_them(plain: Path, path: Path) -> None:
    home = path.parents[4]
    ran = run("encrypt", "--all", "--dry-run")
    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert f"plan       {plain}" in ran.out
    assert len(plain_files(home)) == 2
    assert len(run("encrypt", "--all", "--json").json) == 2
    assert plain_files(home) == []
    assert "no session in" in run("encrypt", "--all").err
    assert len(run("decrypt", "--all").out.splitlines()) == 3
    assert len(plain_files(home)) == 3


def test_sessions_are_brought_under_the_key_that_is_current_now(path: Path, plain: Path) -> None:
    store = Store(path.parents[4])
    assert "is to be rekeyed" in run("rekey", "--all").err
    rollout.make_key(os.environ[KEYS_FILE], "newer")
    assert run("rekey", "--all", "--dry-run").out == f"plan       {path}\n"
    assert store.keys_of(path) == {"mine"}
    assert run("rekey", path).out == f"rekeyed    {path}\n"
    assert store.keys_of(path) == {"newer"}
    assert "a question of mine" in run("history", path).out
    ran = run("rekey", plain)
    assert ran.code == 2
    assert "is not encrypted; rollout encrypt does that" in ran.err


def test_a_session_that_forks_need_is_encrypted_once_they_stand_alone(plain: Path) -> None:
    with a_store(plain.parents[4]).open(plain) as log:
        fork = log.fork()
        fork.close()
    ran = run("encrypt", plain)
    assert ran.code == 3
    assert "--detach-forks makes them stand alone first" in ran.err
    assert run("encrypt", plain, "--detach-forks").code == 0
    assert b"history_base" not in fork.path.read_bytes()
    assert "a plain question" in run("history", fork.path).out


def test_what_a_revert_needs_is_encrypted_once_it_stands_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = os.environ[KEYS_FILE]
    monkeypatch.delenv(KEYS_FILE)
    store = a_store(path.parents[4])
    base = a_thread(store, "before the revert").path
    revert = a_revert(store, rollout.open_log(base, "read"))
    monkeypatch.setenv(KEYS_FILE, keys)
    before = says(revert)
    monkeypatch.setenv("ROLLOUT_HOME", str(store.home))
    ran = run("encrypt", base)
    assert (ran.code, base.name in plain_files(store.home)) == (3, True)
    assert "--detach-forks makes them stand alone first" in ran.err
    assert run("encrypt", base, "--detach-forks").code == 0
    assert base.name not in plain_files(store.home)
    assert says(revert) == before


def test_one_for_which_there_is_nothing_to_do_is_called_unchanged(path: Path, plain: Path) -> None:
    for more in ([], ["--dry-run"]):
        assert run("encrypt", path, *more).out == f"unchanged  {path}\n"
        assert run("rekey", path, *more).out == f"unchanged  {path}\n"
        assert run("decrypt", plain, *more).out == f"unchanged  {plain}\n"


@pytest.mark.parametrize("command", ["encrypt", "rekey", "decrypt"])
def test_without_a_key_or_a_session_a_command_says_what_to_give(
    path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ([], ["--all", str(path)]):
        ran = run(command, *words)
        assert (ran.code, ran.err) == (2, f"rollout: give ids, or --all; see rollout {command} --help\n")
    before = path.read_bytes()
    monkeypatch.delenv(KEYS_FILE)
    ran = run(command, path)
    assert ran.code == (3 if command == "decrypt" else 2)
    assert KEYS_FILE in ran.err
    assert path.read_bytes() == before


def test_nobody_pays_for_encryption_who_does_not_use_it(tmp_path: Path) -> None:
    plain = write(tmp_path, log(session_meta(), user("q")))
    assert "cryptography" not in imported(running("history", plain))
    assert "cryptography" not in imported("import rollout")
