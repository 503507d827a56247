"""Real faults under a real session: what the log says about them is true, and opening it again recovers.

A session always writes the same bytes. `strace` makes its n-th call of a kind fail, for every n, or kills it there;
limits on the size of files and a full file system cut writes short at any byte. Whatever happened, the file is a
beginning of the whole session, it holds all that was acknowledged, and opened again it ends where a record ends.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from tests import children
from tests.sessions import a_store, lines_of, texts

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks, limits and strace are of POSIX systems")

STRACE = ("strace", "-f", "-qq", "-o", os.devnull)
RETRIED = "EINTR"  # Python makes such a call again by itself (PEP 475)
STEPS = {"create", "begin or end", "user", "append", "append_all", "compact", "compact in a turn", "rollback"}
ATOMIC = {"append_all", "compact", "compact in a turn"}
SYNCED_STEPS = {"create", "commit", "begin or end", "compact", "rollback"}


@functools.cache
def strace_is_missing() -> str | None:
    """Why no fault can be put into system calls here; None if one can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    inject = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1"]
    done = subprocess.run([*STRACE, *inject, "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()[-200:]}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[list[Any]]]:
    """The bytes of the session without a fault, and what it was told."""
    home = tmp_path_factory.mktemp("whole")
    said = children.run("at_every_size", home, 1 << 20)
    assert said[-1] == [1 << 20, "over"]
    return one_log(home).read_bytes(), said[:-1]


def one_log(home: Path) -> Path:
    (path,) = home.rglob("*.jsonl")
    return path


def sessions(said: list[list[Any]]) -> Iterator[tuple[int, list[list[Any]]]]:
    """What each session was told, by its number."""
    for number, words in itertools.groupby(said, lambda words: int(words[0])):
        yield number, [rest for _, *rest in words]


def failures(told: list[list[Any]]) -> list[list[Any]]:
    return [words for words in told if words[0] == "failed"]


def check_told(told: list[list[Any]]) -> None:
    """At most one call failed, it told what is durable, and every call after it was refused."""
    failed = failures(told)
    assert len(failed) <= 1
    assert not [words for words in told if words[0] == "done after a failure"]
    if failed and failed[0][1] not in {"create", "open"}:
        _, _, kind, durable, of_log = failed[0]
        assert kind == "WriteError"
        synced = [words[3] for words in told if words[0] == "acknowledged"][-1]
        assert durable == of_log == synced
        refused = {words[1]: words[2] for words in told if words[0] == "refused"}
        assert refused == dict.fromkeys(("commit", "record", "rollback", "compact", "turn", "fork"), "Poisoned")


def check_recovered(home: Path, told: list[list[Any]], session: tuple[bytes, list[list[Any]]]) -> None:
    """The log holds all that was acknowledged and nothing that was not written, and goes on."""
    whole, said = session
    acknowledged = max((words[2] for words in told if words[0] == "acknowledged"), default=0)
    found = list(home.rglob("*.jsonl"))
    if not found:
        assert not acknowledged
        return
    left = found[0].read_bytes()
    assert whole.startswith(left)
    with a_store(home, seed=2).open(found[0]) as log:
        recovered = log.recovered
        assert recovered is not None
        cut = recovered.cut + recovered.newline
        path = log.path
        with log.turn({"model": "later"}) as turn:
            turn.user("later")
        assert texts(log.resume_state())[-1] == "later"
    after = path.read_bytes()
    assert after[:cut] == whole[:cut]
    assert cut >= acknowledged
    assert cut == 0 or whole[cut - 1 : cut] == b"\n"
    assert not [
        words for before, words in itertools.pairwise(said) if words[2] in ATOMIC and before[3] < cut < words[3]
    ]
    assert left[cut:] == b"" or Path(log.kept or "").read_bytes() == left[cut:]
    assert rollout.verify(path).damaged_lines == 0
    closers = [line["payload"].get("type") for line in lines_of(path)[whole[:cut].count(b"\n") :]]
    assert closers in (
        [*aborted, "task_started", None, "message", "user_message", "task_complete"]
        for aborted in ([], ["message", "turn_aborted"])
    )


def put_into(call: str, fault: str, *arguments: object) -> list[list[Any]]:
    """What sessions said whose n-th call got the fault."""
    if reason := strace_is_missing():
        pytest.skip(reason)
    inject = f"inject={call}:{fault}:when={children.faulty_call(call)}"
    under = [*STRACE, "-e", f"trace={call}", "-e", inject]
    return children.run("at_every_call", *arguments, under=under)


@pytest.mark.parametrize(
    ("call", "fault", "times", "steps"),
    [
        ("write", "error=ENOSPC", 18, STEPS),
        ("write", "error=EIO", 18, STEPS),
        ("write", "error=EDQUOT", 18, STEPS),
        ("write", "retval=7", 18, STEPS),
        ("write", f"error={RETRIED}", 18, set()),
        ("lseek", "error=EIO", 16, STEPS),
        ("fdatasync", "error=EIO", 10, SYNCED_STEPS),
        ("fdatasync", "error=ENOSPC", 10, SYNCED_STEPS),
        ("fdatasync", f"error={RETRIED}", 10, set()),
        ("fsync", "error=EIO", 8, {"create"}),
        ("fsync", f"error={RETRIED}", 8, set()),
        ("flock", "error=ENOLCK", 3, {"create"}),
        ("flock", f"error={RETRIED}", 3, set()),
        ("mkdir", "error=ENOSPC", 8, {"create"}),
    ],
)
def test_a_fault_in_any_call_of_a_session_is_told_and_recovered_from(
    call: str, fault: str, times: int, steps: set[str], whole: tuple[bytes, list[list[Any]]], tmp_path: Path
) -> None:
    seen = set()
    last: list[list[Any]] = []
    for n, last in sessions(put_into(call, fault, tmp_path, "live", call, times)):
        check_told(last)
        check_recovered(tmp_path / str(n), last, whole)
        seen |= {words[1] for words in failures(last)}
    assert seen == steps
    assert last == [*(words for _, *words in whole[1]), ["over"]]  # the session is over before its last number


@pytest.mark.parametrize(("call", "times"), [("write", 18), ("fdatasync", 10), ("fsync", 8), ("flock", 3)])
def test_a_session_that_is_killed_in_any_call_is_recovered(
    call: str, times: int, whole: tuple[bytes, list[list[Any]]], tmp_path: Path
) -> None:
    told = dict(sessions(put_into(call, "signal=KILL", tmp_path, "live", call, times)))
    assert ["over"] in told[times]
    assert sum(["over"] not in told.get(n, []) for n in range(1, times + 1)) >= 1
    for n in range(1, times + 1):
        check_recovered(tmp_path / str(n), told.get(n, []), whole)


@pytest.mark.parametrize("fault", ["error=EIO", "error=ENOSPC", "signal=KILL"])
@pytest.mark.parametrize("call", ["write", "fdatasync", "fsync", "ftruncate", "flock"])
def test_a_fault_while_the_end_of_a_log_is_mended_loses_nothing(
    call: str, fault: str, whole: tuple[bytes, list[list[Any]]], tmp_path: Path
) -> None:
    data, said = whole
    ends = [words[3] for words in said if words[1] == "acknowledged"]
    name = next(line for line in data.splitlines()).decode()
    name = f"rollout-2026-03-20T10-00-02-{json.loads(name)['payload']['id']}.jsonl"
    torn = ends[4] - 30  # in the last line of a batch
    times = 8
    for n in range(1, times + 1):
        path = tmp_path / str(n) / "sessions/2026/03/20" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data[:torn])
    told = dict(sessions(put_into(call, fault, tmp_path, "reopen", call, times)))
    assert [words[0] for words in told[times]] == ["acknowledged", "over"]
    assert [n for n in range(1, times) if [words[0] for words in told.get(n, [])] != ["acknowledged", "over"]]
    for n in range(1, times + 1):
        path = one_log(tmp_path / str(n))
        with a_store(tmp_path / str(n), seed=2).open(path) as log:
            assert texts(log.resume_state())[:2] == ["q1", "a1"]
        after = path.read_bytes()
        assert after[: ends[3]] == data[: ends[3]]
        assert [line["payload"].get("type") for line in lines_of(path)[-2:]] == ["message", "turn_aborted"]
        assert after.count(b"turn_aborted") == 3  # once each: both tags of the text, and the event
        assert data[ends[3] : torn] in [kept.read_bytes() for kept in path.parent.glob("*.torn-*")]


def test_a_write_that_a_limit_cuts_short_anywhere_is_recovered_from(
    whole: tuple[bytes, list[list[Any]]], tmp_path: Path
) -> None:
    sizes = range(0, len(whole[0]) + 61, 61)
    seen = set()
    for size, told in sessions(children.run("at_every_size", tmp_path, *sizes)):
        check_told(told)
        check_recovered(tmp_path / str(size), told, whole)
        assert bool(failures(told)) == (size < len(whole[0]))
        seen |= {words[1] for words in failures(told)}
    assert seen == STEPS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 pages."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root mounts a small file system; the limits on file sizes are tested all the same")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system may not be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_is_full_keeps_what_was_acknowledged_and_gives_it_back_when_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    pads = range(1, 3600, 120)
    seen = set()
    for pad, told in sessions(children.run("on_a_full_disk", small_disk, *pads)):
        first = [words for words in told if words[:2] != ["failed", "open"]]
        check_told(first)
        assert failures(first)
        seen |= {words[1] for words in failures(first)}
        assert told[-2][:3] == ["failed", "open", "WriteError"] or told[-2][:2] == ["acknowledged", "open"]
        home = small_disk / str(pad)
        acknowledged = [words[2] for words in first if words[0] == "acknowledged" and words[1] != "open"]
        end = max(acknowledged, default=0)
        path = one_log(home)
        before = path.read_bytes()
        with a_store(tmp_path, seed=2).open(path) as log:
            assert log.end >= end
        assert path.read_bytes()[:end] == before[:end]
        assert rollout.verify(path).damaged_lines == 0
    assert len(seen) >= 4
