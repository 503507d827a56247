"""The doctor: what it finds in a home, that it is right about Codex, and that the command it names helps."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import rollout
from rollout import Finding, SourceError, Store
from rollout.files.disk import AnyPath, ReadFile, RealFileSystem
from rollout.files.staging import ENDINGS
from rollout.home import doctor
from tests import builders as b
from tests import homes
from tests.cli import run, turn
from tests.enciphering import a_cipher, a_secret_store, enciphered

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
LONG_AGO_S = 1_700_000_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def settle(home: Path) -> None:
    """As if nobody had written to anything for years."""
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def findings(home: Path) -> list[Finding]:
    settle(home)
    return list(Store(home).doctor().findings)


def only(home: Path, kind: str) -> Finding:
    """The one finding that there is."""
    (found,) = findings(home)
    assert found.kind == kind
    return found


def obey(found: Finding, home: Path, *more: str) -> None:
    """Does what the finding says, after which it is gone."""
    assert found.command is not None
    program, *words = found.command
    if program == "rm":
        Path(words[0]).unlink()
    else:
        assert program == "rollout"
        ran = run(*words, *more)
        assert (ran.code, ran.err) == (0, "")
    assert found.kind not in {other.kind for other in findings(home)}


def whole(home: Path, n: int, *more: bytes) -> Path:
    """A session that nothing is wrong with, and more lines."""
    return homes.put(home, n, *turn("t", b.user("q"), b.assistant("a")).splitlines(), *more)


def test_a_home_of_whole_sessions_is_well(home: Path) -> None:
    for n in (1, 2):
        whole(home, n)
    settle(home)
    found = Store(home).doctor()
    assert (found.ok, found.findings, found.sessions, found.files) == (True, (), 2, 2)
    assert found.bytes == sum(path.stat().st_size for path in home.rglob("rollout-2*"))
    assert found.index.stale == 2
    assert Store(home).doctor().index.stale == 0


def test_a_home_that_is_not_there_is_well(home: Path) -> None:
    assert Store(home / "nowhere").doctor().findings == ()


def placed(case: Path, said: dict[str, Any], home: Path) -> Path:
    """The rollout of a case, in a home."""
    for folder in ("sessions", "archived_sessions"):
        if (case / folder).exists():
            shutil.copytree(case / folder, home / folder)
    if said["rollout"].startswith(("sessions", "archived")):
        return home.joinpath(said["rollout"])
    session = rollout.reconstruct(case / said["rollout"]).session
    assert session is not None
    name = f"rollout-2026-03-20T10-00-00-{session['id']}.jsonl{'.zst' * said['rollout'].endswith('.zst')}"
    return homes.put_data(home / "sessions/2026/03/20" / name, (case / said["rollout"]).read_bytes())


def test_the_doctor_is_right_about_which_recorded_sessions_codex_resumes(tmp_path: Path) -> None:
    refused = set()
    for case in sorted(path.parent for path in CASES.glob("*/expected.json")):
        said = json.loads((case / "expected.json").read_text())
        path = placed(case, said, tmp_path / case.name)
        resumes = all(found.resumes for found in findings(tmp_path / case.name) if found.path == path)
        is_archived = "archived" in said["codex"]["0.169.0"].get("error", "")  # Codex says how to go on with it
        assert resumes == (said["codex"]["0.169.0"]["resumes"] or is_archived), case.name
        if not resumes:
            refused.add(case.name)
    assert len(refused) == 8


def test_an_end_that_was_cut_short_is_mended_by_the_command(home: Path) -> None:
    path = whole(home, 1)
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026')
    found = only(home, "torn")
    assert (found.path, found.thread, found.resumes) == (path, homes.thread_id(1), True)
    obey(found, home)
    assert [found.kind for found in findings(home)] == ["kept"]


def test_an_end_that_is_just_being_written_is_left_alone(home: Path) -> None:
    path = whole(home, 1)
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026')
    now = 1774000800
    os.utime(path, (now, now))  # a whole number: a sum of others may be rounded down
    assert Store(home, clock=lambda: now + doctor.SETTLED_S - 1).doctor().ok
    assert not Store(home, clock=lambda: now + doctor.SETTLED_S).doctor().ok


def test_a_damaged_line_is_moved_away_by_the_command(home: Path) -> None:
    path = whole(home, 1, b"garbage", b.user("q2"), b"more garbage", b.user("q3"))
    found = only(home, "damaged")
    assert "damaged lines 7, 9" in found.what
    obey(found, home)
    assert b"garbage" not in path.read_bytes()


def test_bytes_that_are_no_text_keep_codex_from_resuming_until_they_are_moved_away(home: Path) -> None:
    whole(home, 1, b'{"type":"event_msg","payload":{"type":"x","y":"\xff"}}', b.user("q"))
    found = findings(home)
    assert [(each.kind, each.resumes) for each in found] == [("resume", False), ("damaged", True)]
    obey(found[0], home)
    assert all(each.resumes for each in findings(home))


def test_a_damaged_sealed_session_is_unsealed_first_and_mended_then(home: Path) -> None:
    path = whole(home, 1, b"garbage", b.user("q"))
    Store(home).seal(path)
    found = only(home, "damaged")
    assert found.command is not None
    assert "unseal" in found.command
    assert run(*found.command[1:]).code == 0
    obey(only(home, "damaged"), home)


def test_damage_of_a_base_is_not_that_of_its_fork(home: Path) -> None:
    path = whole(home, 1, b"garbage", b.user("q"))
    with Store(home).open(path) as log:
        log.fork().close()
    assert only(home, "damaged").path == path


def test_a_missing_base_is_named_with_its_thread(home: Path) -> None:
    path = whole(home, 1)
    with Store(home).open(path) as log, log.fork() as child:
        fork = child.path
    path.unlink()
    found = only(home, "base")
    assert (found.path, found.resumes, found.command) == (fork, False, None)
    assert homes.thread_id(1) in found.what


def test_an_empty_session_is_deleted_by_the_command(home: Path) -> None:
    whole(home, 2)
    homes.put_data(homes.path_of(home, 1), b"")
    obey(only(home, "empty"), home, "--yes")


@pytest.mark.parametrize("keys", [None, a_cipher()], ids=["plain", "with keys"])
@pytest.mark.parametrize("left", [b"\0" * 300, b'{"timestamp":"2026-03', b"{", homes.meta_of(1)[:-5] + b"\0" * 99])
def test_a_session_whose_creation_was_cut_short_is_deleted_by_the_command(
    home: Path, left: bytes, keys: rollout.Cipher | None
) -> None:
    homes.put_data(homes.path_of(home, 1), left)
    homes.put_data(homes.path_of(home, 2), enciphered([homes.meta_of(2)], thread=homes.thread_id(2))[:150])
    settle(home)
    found = Store(home, cipher=keys).doctor().findings
    assert [each.kind for each in found] == ["empty", "empty"]
    assert all("creation was cut short" in each.what for each in found)
    homes.path_of(home, 2).unlink()
    obey(only(home, "empty"), home, "--yes")


def test_what_is_left_of_making_a_key_is_told(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    monkeypatch.setenv("ROLLOUT_KEYS_FILE", str(keys / "k.json"))
    rollout.make_key(keys / "k.json", "k1")
    left = keys / ".k.json.new"
    for path in (left, keys / ".x.json.new", keys / "k.json.new", home / ".own.json.new"):
        path.write_bytes(b"{}")
    assert Store(home).doctor().findings == (), "somebody may be at work on them"
    settle(tmp_path)
    found = Store(home).doctor().findings
    assert [(each.path, each.command) for each in found] == [(left, ("rm", str(left)))]
    rollout.make_key(keys / "k.json", "k2")
    assert not left.exists()


def test_of_a_thread_with_an_empty_file_nothing_else_is_deleted(home: Path) -> None:
    path, empty = whole(home, 1), homes.put_data(homes.path_of(home, 1, part=3, at=9), b"")
    found = only(home, "empty")
    assert found.command == ("rm", str(empty))
    obey(found, home)
    assert path.exists()


def test_what_is_no_rollout_and_what_has_no_session_meta_is_told_apart(home: Path) -> None:
    homes.put_data(homes.path_of(home, 1), b"some text\n")
    homes.put_data(homes.path_of(home, 2), b.log(b.user("q")))
    homes.put_data(homes.path_of(home, 3), b.log(b.user("q"), homes.meta_of(3)))
    told = {found.thread: (found.kind, found.resumes) for found in findings(home)}
    kinds = {1: "foreign", 2: "resume", 3: "resume"}
    assert told == {homes.thread_id(n): (kind, False) for n, kind in kinds.items()}


def test_sessions_that_rest_are_sealed_by_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(home, 1)
    assert not findings(home)
    monkeypatch.setattr(doctor, "REST_BYTES", 100)
    found = only(home, "rest")
    assert "--older-than" in (found.command or ())
    obey(found, home)


def test_a_sealed_twin_is_removed_by_the_command(home: Path) -> None:
    path = whole(home, 1)
    data = path.read_bytes()
    sealed = Store(home).seal(path).path
    path.write_bytes(data)
    obey(only(home, "leftover"), home)
    assert not sealed.exists()


@pytest.mark.parametrize("ending", sorted(ending[1:] for ending in ENDINGS))
def test_what_a_crash_left_goes_with_the_command(home: Path, ending: str) -> None:
    path = whole(home, 1)
    whole(home, 2)
    left = path.rename(path.with_name(f".{path.name}.{ending}"))
    obey(only(home, "leftover"), home)
    assert not left.exists()


def test_what_a_command_is_at_work_on_is_not_left_over(home: Path) -> None:
    path = whole(home, 1)
    path.with_name(f".{path.name}.new").write_bytes(b"")
    assert not [found for found in Store(home).doctor().findings if found.kind == "leftover"]


def test_names_that_are_lost_and_names_that_two_threads_have_are_told(home: Path) -> None:
    for n in (1, 2):
        whole(home, n)
    lines = [{"id": homes.thread_id(n), "thread_name": name, "updated_at": "x"} for n, name in ((1, "A"), (2, "a"))]
    names = home / "session_index.jsonl"
    names.write_bytes(b.log(*map(b.dump, lines)) + b'{"id":"019d0000-0000-70')
    lost, same = findings(home)
    assert (lost.kind, lost.path, lost.is_problem) == ("names", names, True)
    assert (same.kind, same.thread) == ("name", homes.thread_id(1))
    obey(same, home)
    assert Store(home).resolve("a") == homes.path_of(home, 2)


def test_what_is_passed_over_is_told_with_why(home: Path) -> None:
    path = whole(home, 1)
    path.with_name("notes.jsonl").write_bytes(b"")
    path.with_name("link.jsonl").symlink_to(path)
    assert sorted((found.what, found.remedy) for found in findings(home)) == [
        ("is a symbolic link: not followed", "take it out of the home"),
        ("its name is not that of a rollout", "give it the name of a rollout, or take it out of the home"),
    ]


class Closed(RealFileSystem):
    """A file system on which a rollout may not be read."""

    def open_read(self, path: AnyPath) -> ReadFile:
        if "rollout-" in os.fspath(path):
            raise SourceError("may not be read", path=path)
        return super().open_read(path)


def test_a_file_that_may_not_be_read_is_a_problem(home: Path) -> None:
    path = whole(home, 1)
    (found,) = Store(home, fs=Closed(home)).doctor().findings
    assert (found.kind, found.path, found.resumes) == ("unreadable", path, False)
    assert "may not be read" in found.what


def test_an_encrypted_session_without_its_key_is_unreadable_and_with_it_well(home: Path) -> None:
    with a_secret_store(home).create(cwd="/p", model_provider="m") as log, log.turn({"model": "m"}) as made:
        made.user("q")
    settle(home)
    assert Store(home, cipher=a_cipher()).doctor().ok
    assert only(home, "unreadable").path == log.path


def test_a_command_names_the_home_unless_it_is_the_default_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole(home, 1, b"garbage", b.user("q"))
    thread = homes.thread_id(1)
    assert only(home, "damaged").command == ("rollout", "repair", "--apply", thread, "--home", str(home))
    monkeypatch.setenv("ROLLOUT_HOME", str(home))
    assert only(home, "damaged").command == ("rollout", "repair", "--apply", thread)


def test_problems_come_before_advice(home: Path) -> None:
    whole(home, 1, b"garbage", b.user("q")).with_name("notes.jsonl").write_bytes(b"")
    homes.put_data(homes.path_of(home, 2), b"")
    assert [found.kind for found in findings(home)] == ["empty", "damaged", "odd"]
