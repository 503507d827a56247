"""`rollout repair`: the plan as text and as JSON, the deed, and the exit codes of both."""

from __future__ import annotations

from pathlib import Path

import pytest

import rollout
from rollout.files.disk import REAL
from rollout.files.port import Holder
from tests.builders import THREAD, log, session_meta, user
from tests.cli import NAME, run, write

META, ONE = session_meta(), user("one")
CHILD = THREAD[:-1] + "2"
AT = len(META) + 1


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A garbage line, two records in a line, a torn tail."""
    return write(tmp_path, log(META, b"\x1b[2J%%", ONE + ONE), b'{"torn')


def test_a_sound_file_has_nothing_to_repair_and_exits_with_zero(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, ONE))
    for more in ([], ["--apply"]):
        ran = run("repair", path, *more)
        assert (ran.code, ran.err) == (0, "")
        assert "nothing to repair" in ran.out
        assert run("repair", path, *more, "--json").json["steps"] == []
    assert [found.name for found in tmp_path.iterdir()] == [NAME]


def test_a_dry_run_shows_each_step_with_its_place_and_changes_nothing(broken: Path) -> None:
    before = broken.read_bytes()
    ran = run("repair", broken)
    assert (ran.code, ran.err) == (1, "")
    move, separate, cut, plan = ran.out.splitlines()
    assert move.startswith("move")
    assert f"line 2 (byte {AT}): " in move
    assert "moves to a file beside" in move
    assert "line 3 (byte " in separate
    assert "gets a line of its own" in separate
    assert "line 4 (byte " in cut
    assert "nothing was changed; --apply does it" in plan
    assert "\x1b" not in ran.out
    assert broken.read_bytes() == before
    assert [found.name for found in broken.parent.iterdir()] == [NAME]


def test_the_plan_as_json_has_stable_keys(broken: Path) -> None:
    ran = run("repair", broken, "--json")
    assert ran.code == 1
    assert list(ran.json) == ["path", "applied", "steps", "in_use", "torn", "damaged", "backup"]
    assert (ran.json["path"], ran.json["applied"], ran.json["backup"]) == (str(broken), False, None)
    steps = ran.json["steps"]
    assert [step["action"] for step in steps] == ["move", "separate", "cut"]
    assert {tuple(step) for step in steps} == {
        ("action", "line", "last_line", "offset", "bytes", "count", "inside", "reason")
    }
    assert (steps[0]["line"], steps[0]["offset"], steps[0]["bytes"], steps[0]["inside"]) == (2, AT, 6, True)


def test_apply_mends_the_file_and_names_the_files_beside(broken: Path) -> None:
    ran = run("repair", broken, "--apply")
    assert (ran.code, ran.err) == (0, "")
    assert broken.read_bytes() == log(META, ONE, ONE)
    for what in ("torn-1", "damaged-1", "backup-1"):
        assert f"{broken}.{what}" in ran.out
        assert Path(f"{broken}.{what}").exists()
    assert run("verify", broken).code == 0
    assert run("repair", broken).code == 0


def test_apply_as_json_names_the_files_beside(broken: Path) -> None:
    ran = run("repair", "--apply", "--json", broken)
    assert (ran.code, ran.json["applied"]) == (0, True)
    assert [ran.json[key] for key in ("torn", "damaged", "backup")] == [
        f"{broken}.{what}-1" for what in ("torn", "damaged", "backup")
    ]


def test_a_thread_id_and_a_position_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE), name=f"sessions/2026/03/20/{NAME}")
    assert run("repair", "-1", "--home", tmp_path).code == 1
    assert run("repair", "--home", tmp_path, "--apply", THREAD).code == 0
    assert path.read_bytes() == log(META, ONE)


def test_what_cannot_be_repaired_is_one_line_and_exits_with_three(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE))
    file = REAL.open_append(path)
    file.lock(Holder(7, "here", "now"))
    for name in (path, tmp_path / "none.jsonl", tmp_path):
        ran = run("repair", "--apply", name)
        assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)
        assert "; " in ran.err
    file.close()
    assert run("repair", path, "--appply").code == 2


def test_a_file_that_a_fork_needs_says_so_and_only_its_end_is_mended(tmp_path: Path) -> None:
    text = log(META, b"%%", ONE)
    path = write(tmp_path, text, b'{"torn')
    base = {"thread_id": THREAD, "end_ordinal_exclusive": None, "end_byte_offset": len(text)}
    child = write(tmp_path, log(session_meta(CHILD, history_base=base)), name=NAME.replace(THREAD, CHILD))
    ran = run("repair", path)
    assert ran.code == 1
    assert f"in use   {child}" in ran.out
    assert run("repair", path, "--json").json["in_use"] == [str(child)]
    ran = run("repair", path, "--apply")
    assert (ran.code, ran.out) == (3, "")
    assert str(child) in ran.err
    assert path.read_bytes() == text


def test_an_interrupted_repair_does_not_say_that_nothing_was_changed(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rollout, "apply_repair", interrupt)
    ran = run("repair", broken, "--apply")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "rollout: interrupted; run it again to see what is left to do\n"
