"""sessions and read, for an agent that is in a session itself; labels in history and turns; mcp's command line."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

import pytest

from rollout import Store, TurnContext
from rollout.session.transcript import FRAME
from tests.builders import log, session_meta, user
from tests.cli import run, thread_id, write_session
from tests.cli.homes import DAMAGED, EMPTY, FORK, PLAIN, SUBAGENT, mixed_home
from tests.cli.test_finding import ROW_KEYS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    for name in ("ROLLOUT_CURRENT_SESSION", "CODEX_THREAD_ID"):
        monkeypatch.delenv(name, raising=False)
    return mixed_home(tmp_path)


def test_sessions_lists_the_others_forks_too_and_subagents_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*args: str) -> list[str]:
        return [row["id"] for row in run("sessions", "--json", *args).json]

    assert listed() == [thread_id(number) for number in (EMPTY, FORK, DAMAGED, PLAIN)]
    assert listed("--current-session", thread_id(EMPTY), "--limit", "2") == [thread_id(FORK), thread_id(DAMAGED)]
    monkeypatch.setenv("ROLLOUT_CURRENT_SESSION", thread_id(FORK))
    assert listed("-n", "2") == [thread_id(EMPTY), thread_id(DAMAGED)]
    assert [list(row) for row in run("sessions", "--json").json] == [ROW_KEYS] * 3
    assert len(run("sessions").out.splitlines()) == 4


@pytest.mark.parametrize("limit", ["0", "101", "many"])
def test_a_limit_of_sessions_is_one_to_a_hundred(limit: str, home: Path) -> None:
    ran = run("sessions", "--limit", limit)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


def test_no_other_sessions_are_said_to_be_none(tmp_path: Path) -> None:
    ran = run("sessions", "--home", tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "", f"rollout: no other sessions in {tmp_path}\n")


def test_read_prints_what_was_said_and_json_tells_of_whom(home: Path) -> None:
    ran = run("read", thread_id(PLAIN))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{FRAME}\n\n[user]\nfix the parser\n\n[assistant]\nIt is fixed.\n"
    document = run("read", thread_id(PLAIN), "--json").json
    assert list(document) == ["path", "session", "text", "messages", "left_out", "cut", "bytes"]
    assert list(document["session"]) == ROW_KEYS
    assert document["text"] + "\n" == ran.out
    assert (document["messages"], document["left_out"], document["cut"]) == (2, 0, False)


def test_read_counts_among_the_others_and_refuses_the_current_session(home: Path) -> None:
    current = ["--current-session", thread_id(EMPTY)]
    assert "in a fork" in run("read", "-1", *current).out
    for ran in (run("read", thread_id(EMPTY), *current), run("read", "-9", *current), run("read", "none", *current)):
        assert ran.code in {2, 3}
        assert (ran.out, ran.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("text", ["a\u202eb" * 300, "word " * 300, "日本" * 300])
@pytest.mark.parametrize("budget", [200, 250, 400])
def test_what_read_prints_fits_the_budget_escapes_and_all(text: str, budget: int, tmp_path: Path) -> None:
    write_session(tmp_path, 1, log(session_meta(), user(text), user("the newest message")))
    ran = run("read", "-1", "--home", tmp_path, "--budget", str(budget))
    assert ran.code == 0
    assert len(ran.out.encode()) <= budget
    assert "the newest message" in ran.out
    assert run("read", "-1", "--home", tmp_path, "--budget", "10").code == 2


def test_turns_and_sessions_are_listed_by_their_labels(tmp_path: Path) -> None:
    with Store(tmp_path).create(cwd="/p", model_provider="m") as log:
        for session_id, tags in (("s1", {"a": "1"}), ("s2", {}), (None, {})):
            with log.turn(TurnContext(model="m1"), session_id=session_id, tags=tags) as turn:
                turn.user(f"of {session_id}")
    path = log.path
    turns = run("turns", path, "--json").json
    assert [(each["session_id"], each["tags"]) for each in turns] == [("s1", {"a": "1"}), ("s2", {}), (None, {})]
    assert len(run("turns", path, "--session-id", "s2", "--json").json) == 1
    assert len(run("turns", path, "--tag", "a=1", "--session-id", "s2").out.splitlines()) == 1
    assert len(run("sessions", "--home", tmp_path, "--session-id", "s1", "--json").json) == 1
    for wrong in (["--session-id", "a b"], ["--tag", "a"], ["--session-id", "s1", "--tag", "session_id=s2"]):
        assert run("turns", path, *wrong).code == 2


def test_mcp_serves_the_home_that_is_named_without_the_current_session(home: Path) -> None:
    with mock.patch("rollout.adapters.mcp.serve") as serve:
        assert run("mcp", "--home", home, "--current-session", thread_id(SUBAGENT)).code == 0
    serve.assert_called_once_with(str(home), current=thread_id(SUBAGENT))


def test_mcp_without_its_extra_says_what_to_install(home: Path) -> None:
    installed = [name for name in sys.modules if name.partition(".")[0] == "mcp"]  # by whatever ran before
    with mock.patch.dict(sys.modules, dict.fromkeys(["mcp", *installed])):
        ran = run("mcp")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "rollout[mcp]" in ran.err
