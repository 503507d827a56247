"""The command line reads encrypted rollouts with the keys that $ROLLOUT_KEYS_FILE names, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.storage.cipher import KEYS_FILE
from tests.builders import log, session_meta, user
from tests.cli import run, write
from tests.cli.test_startup import imported, running
from tests.enciphering import a_secret_log
from tests.sessions import take_turn


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


def test_nobody_pays_for_encryption_who_does_not_use_it(tmp_path: Path) -> None:
    plain = write(tmp_path, log(session_meta(), user("q")))
    assert "cryptography" not in imported(running("history", plain))
    assert "cryptography" not in imported("import rollout")
