"""Commands that change or delete take rollouts only, and a word means a session before it means a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from rollout_cli.commands import COMMANDS

from rollout import Store, make_key
from tests.cli import run
from tests.cli.homes import run_on_terminal
from tests.foreign import A_LOG, FOREIGN, contents, make_foreign
from tests.sessions import a_log, a_store, take_turn

CHANGING: dict[str, list[list[str]]] = {
    "repair": [[], ["--apply"]],
    "name": [["a name"], ["--clear"]],
    "archive": [[]],
    "unarchive": [[]],
    "rm": [["--yes"], ["--yes", "--detach-forks"]],
    "seal": [[], ["--dry-run"]],
    "unseal": [[]],
    "encrypt": [[], ["--dry-run"], ["--detach-forks"]],
    "rekey": [[], ["--dry-run"]],
    "decrypt": [[], ["--dry-run"]],
}
"""The commands that change or delete what they are given, and what else they are given here."""
READING = set("reconstruct history turns explain verify replay show export diff tail du read serve".split())
NO_REFERENCE = set("ls tree search index stats doctor sessions mcp completion".split())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """That of the home of the environment, with a key; another folder is the current one."""
    make_key(tmp_path / "keys.json", "k1")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ROLLOUT_KEYS_FILE", str(tmp_path / "keys.json"))
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path / "home"))
    return a_store(tmp_path / "home")


def test_every_command_is_known_to_change_or_only_to_read() -> None:
    assert set(COMMANDS) == CHANGING.keys() | READING | NO_REFERENCE


@pytest.mark.parametrize("name", FOREIGN, ids=repr)
def test_what_is_no_rollout_is_told_in_a_line_and_left_alone(name: str, store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    make_foreign(Path(), name)
    before = contents(Path().absolute().parent)
    for command, options in CHANGING.items():
        for more in options:
            ran = run(command, name, *more)
            assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1), (command, more, ran)
            assert name in ran.err
            if command not in {"name", "repair"}:  # which take one
                ran = run(command, log.id, name, *more)
                assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1), (command, more, ran)
    assert contents(Path().absolute().parent) == before


def test_a_word_is_the_session_and_the_line_on_the_side_tells_how_to_name_the_file(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "a question of the session")
    store.rename(log.id, "notes")
    Path("notes").write_bytes(A_LOG)
    hint = "rollout: notes is a session; the file of that name is ./notes\n"
    for command in ("history", "show", "turns", "verify", "read", "export", "du", "explain", "reconstruct"):
        ran = run(command, "notes")
        assert (ran.code, ran.err.count(hint)) == (0, 1), (command, ran)
        assert "notes is a session" not in run(command, "./notes").err
    assert "a question of the session" in run("history", "notes").out
    assert "a question of the session" not in run("history", "./notes").out
    assert "a question of the session" not in run("export", "./notes").out
    ran = run("diff", "notes", "./notes")
    assert (ran.code, ran.err) == (0, hint)
    Path("notes@line:1").write_bytes(A_LOG)
    assert "a question" not in run("diff", "notes@line:1", "notes@line:1").out


def test_rm_deletes_the_session_of_that_name_and_asks_with_its_path(store: Store) -> None:
    with a_log(store) as log:
        pass
    store.rename(log.id, "notes")
    Path("notes").write_text("buy milk")
    ran = run_on_terminal(200, "rm", "notes", answer="y\n")
    assert f"Delete {log.path} (notes) for good? [y/N] " in ran.err
    assert "the file of that name is ./notes" in ran.err
    assert not log.path.exists()
    ran = run("rm", "notes", "--yes")
    assert ran.code == 3
    assert "notes: is no rollout, so it is left alone: neither its name nor its first line" in ran.err
    assert Path("notes").read_text() == "buy milk"


@pytest.mark.parametrize("digit", ["\uff11", "\u0661", "\U0001d7cf"])
def test_a_position_is_written_in_ascii_digits(digit: str, store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    for command in ("read", "history", "rm", "seal"):
        assert run(command, f"-{digit}").code == 2
        ran = run(command, *(["--yes"] if command == "rm" else []), "--", f"-{digit}")
        assert (ran.code, ran.out) == (3, "")
        assert "no rollout" in ran.err
    assert run("history", "-1", "--at", f"line:{digit}").code == 2
    assert run("ls", "--since", f"{digit}d").code == 2
    assert run("ls", "-n", digit).code == 2
    assert log.path.exists()
    Path("-1").write_bytes(A_LOG)
    assert run("verify", "-1", "--json").json["path"] == str(log.path)
    assert run("verify", "./-1", "--json").json["path"] == str(Path("-1").absolute())
