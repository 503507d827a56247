"""Earlier sessions: which are listed, which is read, and that the current one never is."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

import rollout
from rollout import Store
from rollout.agent_tools import CURRENT_VARIABLES, Transcript, list_sessions, read_session, search_sessions
from rollout.errors import Ambiguous, NotARollout, NotFound, UsageError
from rollout.session.transcript import FRAME
from tests.builders import log, session_meta, user
from tests.sessions import DAY, a_log, a_store, take_turn

OTHER = "019f0000-0000-7000-8000-00000000000a"


@dataclasses.dataclass(frozen=True)
class Given:
    """A home with sessions, oldest first."""

    store: Store
    ids: list[str]
    paths: list[Path]

    @property
    def home(self) -> Path:
        return self.store.home

    def listed(self, limit: int = 20, **more: str | None) -> list[int]:
        """Which sessions are listed, by their places in `ids`."""
        return [self.ids.index(row.id) for row in list_sessions(limit, home=self.home, **more)]

    def read(self, ref: str | int | Path, current: str | Path | None = None, budget_bytes: int = 24_000) -> Transcript:
        return read_session(ref, home=self.home, current=current, budget_bytes=budget_bytes)


@pytest.fixture(autouse=True)
def no_current_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CURRENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    store, ids, paths = a_store(tmp_path / "home"), [], []
    for n in range(4):
        with a_log(store) as one:
            take_turn(one, f"question {n}")
        ids.append(one.id)
        paths.append(one.path)
    return Given(store, ids, paths)


def put(home: Path, thread: str, data: bytes, second: int = 59) -> Path:
    path = home / DAY / f"rollout-2026-03-20T10-00-{second:02}-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_sessions_are_listed_newest_first_and_read_by_id_prefix_position_and_path(given: Given) -> None:
    assert given.listed() == [3, 2, 1, 0]
    wanted = f"{FRAME}\n\n[user]\nquestion 2\n\n[assistant]\nanswer to question 2"
    for ref in (
        given.ids[2],
        given.ids[2].upper(),
        f" {given.ids[2]}\n",
        "-2",
        -2,
        given.paths[2],
        str(given.paths[2]),
    ):
        found = given.read(ref)
        assert (found.text, found.messages, found.left_out, found.cut) == (wanted, 2, 0, False)
        assert found.bytes == len(wanted)
        assert found.path == given.paths[2]
        assert found.session is not None
        assert (found.session.id, found.session.turns, found.session.messages) == (given.ids[2], 1, 2)


def test_a_row_tells_what_an_agent_chooses_by(given: Given) -> None:
    row = list_sessions(1, home=given.home)[0]
    assert (row.first_message, row.cwd, row.model, row.turns, row.messages) == ("question 3", "/p", "m1", 1, 2)
    assert row.created is not None
    assert row.created.startswith("2026-03-20T10:00:0")


@pytest.mark.parametrize("how", ["id", "prefix", "upper", "path", "spaces", "variable", "codex"])
def test_the_current_session_is_left_out_before_the_limit_and_the_positions_count(
    how: str, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, path = given.ids[3], given.paths[3]
    current: str | None = {
        "id": id,
        "prefix": id[:-1],
        "upper": id.upper(),
        "path": str(path),
        "spaces": f" {id} ",
    }.get(how)
    if current is None:
        monkeypatch.setenv("ROLLOUT_CURRENT_SESSION" if how == "variable" else "CODEX_THREAD_ID", id)
    assert given.listed(current=current) == [2, 1, 0]
    assert given.listed(2, current=current) == [2, 1]
    assert given.read(-1, current).path == given.paths[2]
    assert given.read("-3", current).path == given.paths[0]
    with pytest.raises(NotFound, match=r"-4 is not there: .* has 3 other sessions; give -1 to -3"):
        given.read(-4, current)


def test_a_current_session_in_the_middle_does_not_shift_those_before_it(given: Given) -> None:
    assert given.listed(2, current=given.ids[2]) == [3, 1]
    assert [given.read(n, given.ids[2]).path for n in (-1, -2)] == [given.paths[3], given.paths[1]]


def test_the_variable_of_this_project_counts_before_that_of_codex_and_a_given_one_before_both(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_THREAD_ID", given.ids[0])
    monkeypatch.setenv("ROLLOUT_CURRENT_SESSION", given.ids[1])
    assert given.listed() == [3, 2, 0]
    assert given.listed(current=given.ids[3]) == [2, 1, 0]
    assert given.listed(current="") == [3, 2, 1, 0]
    monkeypatch.setenv("ROLLOUT_CURRENT_SESSION", "")
    assert given.listed() == [3, 2, 1]


@pytest.mark.parametrize("current", ["019d0000-0000-7000-8000-ffffffffffff", "no such name", "/no/such/file.jsonl", ""])
def test_a_current_session_without_a_file_leaves_nothing_out(current: str, given: Given) -> None:
    assert given.listed(current=current) == [3, 2, 1, 0]
    assert given.read(-1, current).path == given.paths[3]


def test_a_current_session_without_a_file_is_refused_as_what_it_is(given: Given) -> None:
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read(OTHER, OTHER)
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read(OTHER, f"/not/yet/rollout-2026-03-20T10-00-59-{OTHER}.jsonl")


def test_a_position_cannot_be_the_current_session(given: Given) -> None:
    with pytest.raises(UsageError, match="-1 cannot be the current session: it counts the others; give its id"):
        given.listed(current="-1")


def test_the_current_session_is_refused_however_either_is_named(given: Given, tmp_path: Path) -> None:
    id, path = given.ids[1], given.paths[1]
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    names: list[str | Path] = [id, id[:-1], id.upper(), str(path), path, link, os.path.relpath(path)]
    for current in names:
        for ref in names:
            with pytest.raises(
                UsageError, match=r"is the session that you are in; give another one, or -1 for the newest"
            ):
                given.read(ref, current)


def test_names_name_the_current_session_and_the_one_to_read(given: Given) -> None:
    for n in (1, 2):
        given.store.rename(given.ids[n], f"name {n}")
    assert given.read("name 2", "name 1").path == given.paths[2]
    assert given.listed(current="name 2") == [3, 1, 0]
    assert given.read("-2", "name 2").path == given.paths[1]
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read("name 2", given.ids[2])
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read(given.ids[2], "name 2")


def test_another_file_of_the_current_thread_is_the_current_session_too(given: Given, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(given.paths[1].read_bytes())
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read(copy, given.ids[1])
    part = given.paths[1].with_name(given.paths[1].name.replace(".jsonl", f"_{OTHER}.jsonl"))
    part.write_bytes(given.paths[1].read_bytes())
    with pytest.raises(UsageError, match="is the session that you are in"):
        given.read(part, given.ids[1])
    assert given.listed(current=str(part)) == [3, 2, 0]


def test_what_is_unknown_ambiguous_or_no_reference_is_refused_clearly(given: Given, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"'nothing'.*; give "):
        given.read("nothing")
    with pytest.raises(Ambiguous, match="beginning of 4 thread ids"):
        given.read(given.ids[0][:4])
    with pytest.raises(NotARollout):
        given.read(tmp_path)
    for ref in (0, 7, True, "-0", "", " "):
        with pytest.raises(UsageError):
            given.read(ref)
    for far in ("-5", "-" + "9" * 5000):
        with pytest.raises(NotFound, match=r"is not there: .* has 4 other sessions"):
            given.read(far)


def test_a_home_without_sessions_has_an_empty_list_and_nothing_to_read(tmp_path: Path) -> None:
    assert list_sessions(home=tmp_path / "none") == ()
    with pytest.raises(NotFound, match="has 0 other sessions; there is nothing to read"):
        read_session(-1, home=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("limit", [0, -1, 101, True, 2.0, "5"])
def test_a_limit_is_1_to_100(limit: int, given: Given) -> None:
    with pytest.raises(UsageError, match="give 1 to 100"):
        given.listed(limit)


def test_the_list_holds_as_many_as_the_limit_says_and_20_without_one(tmp_path: Path) -> None:
    for n in range(110):
        put(tmp_path, f"{OTHER[:-3]}{n:03x}", log(session_meta(f"{OTHER[:-3]}{n:03x}"), user(f"q{n}")))
    assert len(list_sessions(home=tmp_path)) == 20
    assert len(list_sessions(100, home=tmp_path, current=f"{OTHER[:-3]}06d")) == 100
    assert list_sessions(1, home=tmp_path)[0].first_message == "q109"
    assert read_session("-101", home=tmp_path).text == f"{FRAME}\n\n[user]\nq9"


@pytest.mark.parametrize("budget_bytes", [199, 0, -1, True, 1e4])
def test_a_budget_is_200_bytes_or_more(budget_bytes: int, given: Given) -> None:
    with pytest.raises(UsageError, match="give 200 or more"):
        given.read(-1, budget_bytes=budget_bytes)


def test_the_budget_holds_the_note_and_24000_bytes_without_one(given: Given) -> None:
    with a_log(given.store) as one:
        for n in range(60):
            take_turn(one, f"{n} " + "ä" * 300)
    found = given.read(one.id)
    assert 24_000 - 700 < found.bytes <= 24_000
    assert found.text.startswith(f"{FRAME}\n\n[{found.left_out} older messages left out]\n\n[")
    assert found.messages + found.left_out == 120
    assert found.session is not None
    assert found.session.messages == 120
    assert given.read(one.id, budget_bytes=10**6).messages == 120
    small = given.read(one.id, budget_bytes=200)
    assert (small.cut, small.messages, small.left_out) == (True, 1, 119)
    assert small.bytes <= 200


def test_archived_sessions_and_those_of_subagents_are_not_listed_but_read_by_id(given: Given) -> None:
    archived = given.home / "archived_sessions" / given.paths[3].name
    archived.parent.mkdir()
    given.paths[3].rename(archived)
    source = {"subagent": {"thread_spawn": {"parent_thread_id": given.ids[0], "depth": 1}}}
    put(given.home, OTHER, log(session_meta(OTHER, source=source), user("sub")))
    assert given.listed() == [2, 1, 0]
    assert given.read(-1).path == given.paths[2]
    assert given.read(given.ids[3]).text.startswith(f"{FRAME}\n\n[user]\nquestion 3")
    assert given.read(OTHER).text == f"{FRAME}\n\n[user]\nsub"


def test_a_fork_is_listed_and_shows_what_it_has_from_its_source(given: Given) -> None:
    with given.store.open(given.ids[0]) as one, one.fork() as fork:
        take_turn(fork, "on")
    assert [row.id for row in list_sessions(home=given.home)] == [fork.id, *given.ids[::-1]]
    assert given.read(-1).text.split("\n")[3::3] == ["question 0", "answer to question 0", "on", "answer to on"]
    assert given.read(-1, current=fork.id).path == given.paths[3]


def test_sessions_are_listed_by_their_label(given: Given) -> None:
    with rollout.label("job-1"), a_log(given.store) as one:
        take_turn(one, "labelled")
    assert [row.id for row in list_sessions(home=given.home, session_id="job-1")] == [one.id]
    assert list_sessions(home=given.home, session_id="job-1", current=one.id) == ()
    with pytest.raises(UsageError, match="session_id"):
        list_sessions(home=given.home, session_id="job-1\n")


def test_files_that_are_empty_foreign_or_broken_are_listed_with_their_trouble_and_break_nothing(given: Given) -> None:
    put(given.home, OTHER, b"", 57)
    put(given.home, f"{OTHER[:-1]}b", b'{"some":"json"}\nand text\n', 58)
    rows = list_sessions(home=given.home)
    assert len(rows) == 6
    assert all(row.trouble for row in rows[:2])
    assert given.read(-2).text == f"{FRAME}\n\n[no messages]"
    assert given.read(-3).path == given.paths[3]


def test_the_home_can_be_a_store(given: Given) -> None:
    assert [row.id for row in list_sessions(1, current=given.ids[3], home=given.store)] == [given.ids[2]]
    assert read_session(-1, current=given.ids[3], budget_bytes=200, home=given.store).path == given.paths[2]
    assert {hit.id for hit in search_sessions("question", current=given.ids[3], home=given.store)} == {*given.ids[:3]}
    assert rollout.agent_tools.list_sessions(1, home=given.home)[0].id == given.ids[3]


def test_without_a_home_it_is_that_of_the_environment(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLOUT_HOME", str(given.home))
    assert [row.id for row in list_sessions(1)] == [given.ids[3]]
    assert read_session(-1).path == given.paths[3]
