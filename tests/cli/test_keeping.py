"""name, archive, unarchive, rm, seal, unseal: what they do, what they say, and what they refuse."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rollout
from rollout import Store
from tests.cli import Ran, file_of, run, thread_id
from tests.cli.homes import DAMAGED, FORK, PLAIN, SUBAGENT, mixed_home, run_on_terminal

MOVED = ["id", "path", "error"]
SEALED = ["id", "path", "plain_bytes", "sealed_bytes", "error"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path))
    return mixed_home(tmp_path)


@pytest.fixture
def held(home: Path) -> Iterator[Path]:
    """The file of a session that somebody writes to."""
    with Store(home).open(thread_id(PLAIN)) as log:
        assert log.path is not None
        yield log.path


def names(home: Path) -> dict[str, str | None]:
    return {row["id"]: row["name"] for row in run("ls", "--json", "--forks", "--subagents").json["rows"]}


def test_a_name_is_kept_and_can_be_used_like_an_id_until_it_is_taken_away(home: Path) -> None:
    path = file_of(home, PLAIN)
    assert run("name", thread_id(PLAIN), " My session ").out == f"named My session  {path}\n"
    assert names(home)[thread_id(PLAIN)] == "My session"
    assert run("history", "my session", "-n", "1").code == 0
    ran = run("name", "My session", "--clear", "--json")
    assert list(ran.json) == ["id", "path", "name"]
    assert ran.json == {"id": thread_id(PLAIN), "path": str(path), "name": None}
    assert names(home)[thread_id(PLAIN)] is None
    assert run("history", "My session").code == 3
    assert run("name", thread_id(PLAIN), "--clear").out.startswith("has no name now")


@pytest.mark.parametrize(
    "words",
    [["-1"], ["-1", "x", "--clear"], ["-1", ""], ["-1", "a\nb"], ["-1", "\x1b[2J"], ["-1", "019d"], ["-1", "a/b"]],
    ids=repr,
)
def test_what_can_be_no_name_is_wrong_usage(words: list[str], home: Path) -> None:
    ran = run("name", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert not (home / "session_index.jsonl").exists()


def test_several_sessions_are_archived_and_taken_out_again(home: Path) -> None:
    ran = run("archive", thread_id(PLAIN), thread_id(DAMAGED))
    assert (ran.code, ran.err) == (0, "")
    assert [row.split()[0] for row in ran.out.splitlines()] == ["archived", "archived"]
    assert file_of(home, PLAIN).parent == file_of(home, DAMAGED).parent == home / "archived_sessions"
    ran = run("unarchive", thread_id(PLAIN), "--json")
    assert [list(each) for each in ran.json] == [MOVED]
    assert ran.json[0] == {"id": thread_id(PLAIN), "path": str(file_of(home, PLAIN)), "error": None}
    assert file_of(home, PLAIN).is_relative_to(home / "sessions")
    assert run("ls", "--json", "--archived").json["rows"][0]["id"] == thread_id(DAMAGED)


def test_positions_are_looked_up_before_anything_moves(home: Path) -> None:
    moved = run("archive", "-1", "-2", "-1", "--json").json
    assert [each["id"] for each in moved] == [thread_id(5), thread_id(4)]


def test_nothing_is_done_if_one_of_the_references_is_wrong(home: Path) -> None:
    for command in (["archive"], ["rm", "--yes"], ["seal"]):
        ran = run(*command, thread_id(PLAIN), "no such session")
        assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
    assert file_of(home, PLAIN).suffix == ".jsonl"
    assert file_of(home, PLAIN).is_relative_to(home / "sessions")


def test_what_stands_in_the_way_of_one_does_not_keep_the_others_from_it(home: Path, held: Path) -> None:
    ran = run("archive", str(held), thread_id(DAMAGED))
    assert ran.code == 3
    assert ran.out.startswith("archived   ")
    assert ran.err.startswith(f"rollout: {held}: ")
    ran = run("unarchive", thread_id(DAMAGED), "--json")
    ran = run("archive", str(held), thread_id(DAMAGED), "--json")
    assert (ran.code, ran.err) == (3, "")
    first, second = ran.json
    assert (first["path"], second["error"]) == (str(held), None)
    assert "lock" in first["error"] or "writ" in first["error"]


def test_rm_refuses_without_a_terminal_unless_told_not_to_ask(home: Path) -> None:
    ran = run("rm", thread_id(DAMAGED))
    assert (ran.code, ran.out) == (2, "")
    assert "--yes" in ran.err
    assert file_of(home, DAMAGED).exists()
    ran = run("rm", thread_id(DAMAGED), "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("deleted    ")
    assert run("history", thread_id(DAMAGED)).code == 3


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("YES\n", True), ("n\n", False), ("", False)])
def test_rm_asks_on_a_terminal_and_takes_only_yes_for_yes(answer: str, is_deleted: bool, home: Path) -> None:
    assert run("name", thread_id(DAMAGED), "to go").code == 0
    path = file_of(home, DAMAGED)
    ran = run_on_terminal(200, "rm", thread_id(DAMAGED), answer=answer)
    assert ran.code == 0
    assert ran.err == f"Delete {path} (to go) for good? [y/N] "
    assert ran.out.startswith("deleted") == is_deleted
    assert path.exists() != is_deleted


def test_rm_refuses_while_forks_need_the_file_and_names_the_way_out(home: Path) -> None:
    with Store(home).open(thread_id(PLAIN)) as log, log.fork() as child:
        child.event("note", text="x")
    ran = run("rm", thread_id(PLAIN), "--yes")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.endswith("; --detach-forks makes them stand alone first\n")
    ran = run("rm", thread_id(PLAIN), "--yes", "--detach-forks", "--json")
    assert (ran.code, list(ran.json[0])) == (0, MOVED)
    assert "fix the parser" in run("history", child.id).out


def test_a_session_is_sealed_read_as_before_and_unsealed(home: Path) -> None:
    path, before = file_of(home, PLAIN), run("history", thread_id(PLAIN), "--json").json
    size = path.stat().st_size
    ran = run("seal", thread_id(PLAIN), thread_id(DAMAGED))
    assert (ran.code, ran.err) == (0, "")
    assert [row.split()[0] for row in ran.out.splitlines()] == ["sealed", "sealed", "in"]
    assert not path.exists()
    assert run("history", thread_id(PLAIN), "--json").json == before
    ran = run("seal", thread_id(PLAIN), "--json")
    assert [list(each) for each in ran.json] == [SEALED]
    assert ran.json[0]["plain_bytes"] == size
    assert ran.json[0]["sealed_bytes"] == file_of(home, PLAIN).stat().st_size < size
    assert "sealed" in run("ls").out
    assert run("unseal", thread_id(PLAIN)).out == f"unsealed   {path}\n"
    assert path.stat().st_size == size
    assert list(run("unseal", thread_id(PLAIN), "--json").json[0]) == MOVED


def age(home: Path, *numbers: int) -> None:
    """Make it 40 days since these sessions were written."""
    for number in numbers:
        then = time.time() - 40 * 86400
        os.utime(file_of(home, number), (then, then))


def test_seal_older_than_seals_what_was_not_written_since_archived_forks_and_subagents_too(home: Path) -> None:
    assert run("archive", thread_id(DAMAGED)).code == 0
    age(home, DAMAGED, FORK, SUBAGENT)
    listed = run("seal", "--older-than", "30d", "--dry-run", "--json").json
    old = {thread_id(number) for number in (DAMAGED, FORK, SUBAGENT)}
    assert {each["id"] for each in listed} == old
    assert {each["sealed_bytes"] for each in listed} == {None}
    assert run("seal", "--older-than", "30d", "--dry-run").out.count("would seal") == 3
    assert all(path.suffix == ".jsonl" for path in home.rglob("rollout-2*"))
    assert {each["id"] for each in run("seal", "--older-than", "30d", "--json").json} == old
    assert {path.suffix for path in (file_of(home, number) for number in (DAMAGED, FORK, SUBAGENT))} == {".zst"}
    assert file_of(home, PLAIN).suffix == ".jsonl"
    ran = run("seal", "--older-than", "30d")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"rollout: no plain session in {home} is older than 30d\n"


def test_seal_older_than_seals_every_file_of_a_thread(home: Path) -> None:
    first = file_of(home, PLAIN)
    part = first.with_name(f"{first.stem}_019d0009-0000-7000-8000-00000000000b.jsonl")
    part.write_bytes(first.read_bytes())
    then = time.time() - 40 * 86400
    for path in (first, part):
        os.utime(path, (then, then))
    assert len(run("seal", "--older-than", "30d", "--json").json) == 2


def test_a_session_in_use_is_left_out_with_a_note_where_it_was_not_named(home: Path, held: Path) -> None:
    for path in home.rglob("rollout-2*"):
        os.utime(path, (0, 0))
    ran = run("seal", "--older-than", "30d")
    assert ran.code == 0
    assert ran.err.startswith(f"rollout: {held}: ")
    assert held.exists()
    assert file_of(home, DAMAGED).suffix == ".zst"
    assert run("seal", str(held)).code == 3


@pytest.mark.parametrize("words", [[], ["-1", "--older-than", "3d"], ["--older-than", "old"], ["-1", "--level", "0"]])
def test_seal_needs_either_ids_or_an_age(words: list[str], home: Path) -> None:
    ran = run("seal", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("command", "method"),
    [
        (["seal", thread_id(PLAIN)], "seal"),
        (["unseal", thread_id(PLAIN)], "unseal"),
        (["archive", thread_id(PLAIN)], "archive"),
        (["rm", thread_id(PLAIN), "--yes"], "delete"),
        (["name", thread_id(PLAIN), "x"], "rename"),
        (["index"], "refresh_index"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_interrupt_says_what_it_leaves(
    command: list[str], method: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout.Store, method, interrupt)
    ran: Ran = run(*command)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.startswith("rollout: interrupted; ")
    assert "nothing was changed" not in ran.err
    assert ran.err.count("\n") == 1
