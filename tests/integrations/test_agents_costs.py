"""What a session asks of the system: the same, however many other sessions there are."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from rollout import Store, ids
from rollout.adapters.agents import RolloutSession
from rollout.adapters.agents.branches import Branches
from rollout.adapters.agents.itemlog import ItemLog
from rollout.adapters.agents.ledger import escape
from rollout.testing.disk import OpKind, SimulatedDisk
from tests.crashing import Scenario, each, each_sync
from tests.integrations.agent_sessions import files_of, run, says
from tests.integrations.branching import ran
from tests.integrations.test_agents_crashes import HOME, PART, opened

FOLDERS = (f"{HOME}/agent_sessions", f"{HOME}/sessions/2026/09/21")
CALLS = ("listdir", "scandir", "stat", "lstat", "open", "unlink", "mkdir", "fsync", "fdatasync", "write", "pread")
Use = Callable[[RolloutSession], Any]
NOW = datetime.datetime.now(datetime.UTC)


def put_sessions(home: Path, count: int) -> None:
    """Sessions of today, of nobody's concern: their files, ledgers and names."""
    folder = home / "sessions" / f"{NOW:%Y}" / f"{NOW:%m}" / f"{NOW:%d}"
    for needed in (folder, home / "agent_sessions"):
        needed.mkdir(parents=True, exist_ok=True)
    names, uuids = [], ids.Uuid7()
    for n in range(count):
        thread = uuids.make(round(NOW.timestamp() * 1000), os.urandom(10))
        path = folder / f"rollout-{NOW:%Y-%m-%dT%H-%M-%S}-{thread}.jsonl"
        path.write_text(json.dumps({"timestamp": "t", "type": "session_meta", "payload": {"id": thread}}) + "\n")
        told = {"branch": "main", "thread": thread, "path": str(path.relative_to(home)), "created": "t"}
        (home / "agent_sessions" / f"{escape(f'other {n}')}.jsonl").write_text(json.dumps(told) + "\n")
        names.append(json.dumps({"id": thread, "thread_name": f"other {n}", "updated_at": "t"}))
    (home / "session_index.jsonl").write_text("\n".join([*names, ""]))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the system was asked for what, and how many bytes were read."""
    found: Counter[str] = Counter()

    def count(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **keys: Any) -> Any:
            found[name] += 1
            answer = real(*args, **keys)
            found["bytes"] += len(answer) if name == "pread" else 0
            return answer

        return counting

    for name in CALLS:
        monkeypatch.setattr(os, name, count(name, getattr(os, name)))
    return found


def use(home: Path, counted: Counter[str], call: Use, session_id: str = "s") -> Counter[str]:
    """What a call of a fresh object costs."""
    session = RolloutSession(session_id, home)
    counted.clear()
    run(call(session))
    spent = counted.copy()
    session.close()
    return spent


def check_same(few: dict[str, Counter[str]], many: dict[str, Counter[str]]) -> None:
    for name, spent in few.items():
        read, also_read = spent.pop("bytes"), many[name].pop("bytes")
        assert spent == many[name]
        assert abs(read - also_read) < 100  # what chance has made of ids does not pack alike
        assert not spent["listdir"] + spent["scandir"]


USES: dict[str, Use] = {
    "add": lambda session: session.add_items(says("a")),
    "get": lambda session: session.get_items(),
    "newest": lambda session: session.get_items(2),
    "pop": lambda session: session.pop_item(),
    "clear": lambda session: session.clear_session(),
    "usage": lambda session: session.store_run_usage(ran(5)),
    "turns": lambda session: session.get_conversation_turns(),
}
MOVES: dict[str, Callable[[Path, str], object]] = {
    "in place": lambda home, thread: None,
    "sealed": lambda home, thread: Store(home).seal(thread),
    "archived": lambda home, thread: Store(home).archive(thread),
    "archived and sealed": lambda home, thread: Store(home).seal(Store(home).archive(thread)),
    "brought back": lambda home, thread: Store(home).unarchive(Store(home).archive(thread)),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_session_costs_the_same_beside_ten_others_and_beside_a_thousand(
    tmp_path: Path, counted: Counter[str], move: str
) -> None:
    costs = []
    for others in (10, 1000):
        home = tmp_path / f"{others:05}"
        put_sessions(home, others)
        spent = {"new": use(home, counted, USES["add"])}
        (thread,) = {path.name[28:64] for path in files_of(home)} - _others(home)
        MOVES[move](home, thread)
        for name, call in USES.items():
            spent[name] = use(home, counted, call)
        costs.append(spent)
    check_same(*costs)


def _others(home: Path) -> set[str]:
    lines = (home / "session_index.jsonl").read_text().splitlines()
    return {told["id"] for told in map(json.loads, lines) if told["thread_name"].startswith("other")}


def test_a_session_in_a_branch_of_a_branch_costs_the_same_too(tmp_path: Path, counted: Counter[str]) -> None:
    costs = []
    for others in (10, 1000):
        home = tmp_path / f"{others:05}"
        put_sessions(home, others)
        session = RolloutSession("s", home)
        for n in range(3):
            run(session.add_items(says(f"{n}")))
            run(session.create_branch())
        run(session.add_items(says("last")))
        costs.append({name: use(home, counted, call) for name, call in USES.items() if name != "clear"})
        assert run(session.get_items()) == says("0", "1", "2", "last")
    check_same(*costs)


def test_a_new_session_syncs_two_directories_and_what_it_writes(tmp_path: Path, counted: Counter[str]) -> None:
    first = use(tmp_path / "home", counted, USES["add"], "first of the home")
    another = use(tmp_path / "home", counted, USES["add"], "another")
    again = use(tmp_path / "home", counted, USES["add"], "another")
    assert (another["fsync"], another["fdatasync"]) == (2, 3)  # the log, the ledger's line, the item
    assert (again["fsync"], again["fdatasync"]) == (2, 2)
    assert first["fsync"] > another["fsync"]


def test_a_copy_of_a_home_is_not_taken_for_one_that_is_on_the_disk(tmp_path: Path, counted: Counter[str]) -> None:
    use(tmp_path / "home", counted, USES["add"], "a")
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    assert use(tmp_path / "copy", counted, USES["add"], "b")["fsync"] > 2
    assert use(tmp_path / "copy", counted, USES["add"], "c")["fsync"] == 2


# What the ledger says is only where to look first


def ledger_of(home: Path) -> Path:
    return home / "agent_sessions" / f"{escape('s')}.jsonl"


@pytest.mark.parametrize(
    "told", ["sessions/2020/01/01/gone.jsonl", "", "..", "agent_sessions", "{other}", "/etc/passwd"]
)
def test_a_ledger_that_lies_about_the_place_leads_to_no_other_file(tmp_path: Path, told: str) -> None:
    put_sessions(tmp_path, 1)
    (other,) = files_of(tmp_path)
    before = other.read_bytes()
    run(RolloutSession("s", tmp_path).add_items(says("a")))
    (line,) = [json.loads(line) for line in ledger_of(tmp_path).read_bytes().splitlines()]
    line["path"] = told.format(other=other.relative_to(tmp_path))
    ledger_of(tmp_path).write_text(json.dumps(line) + "\n")
    session = RolloutSession("s", tmp_path)
    assert run(session.get_items()) == says("a")
    run(session.add_items(says("b")))
    assert run(RolloutSession("s", tmp_path).get_items()) == says("a", "b")
    assert other.read_bytes() == before


def test_a_file_that_was_moved_by_hand_is_looked_for_once(tmp_path: Path, counted: Counter[str]) -> None:
    put_sessions(tmp_path, 10)
    run(RolloutSession("s", tmp_path).add_items(says("a")))
    path = files_of(tmp_path)[-1]
    elsewhere = tmp_path / "sessions" / "2001" / "01" / "01" / path.name
    elsewhere.parent.mkdir(parents=True)
    path.rename(elsewhere)
    session = RolloutSession("s", tmp_path)
    assert run(session.get_items()) == says("a")
    counted.clear()
    run(session.add_items(says("b")))
    assert run(session.get_items()) == says("a", "b")
    assert not counted["scandir"] + counted["listdir"]
    elsewhere.rename(path)
    assert run(session.get_items()) == run(RolloutSession("s", tmp_path).get_items()) == says("a", "b")


# Names


def test_a_session_takes_the_name_of_no_thread_that_has_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.create(cwd="/p", model_provider="mock") as theirs:
        pass
    store.rename(theirs.id, "support")
    run(RolloutSession("support", tmp_path).add_items(says("a")))
    assert store.resolve("support") == theirs.path
    assert store.names() == {theirs.id: "support"}
    store.rename(theirs.id, "another")
    assert store.resolve("support") != theirs.path
    with pytest.raises(Exception, match="'support' is the name of thread"):
        store.rename(theirs.id, "support")


def test_a_session_that_is_begun_anew_has_its_name_again(tmp_path: Path) -> None:
    session, store = RolloutSession("s1", tmp_path), Store(tmp_path)
    run(session.add_items(says("a")))
    store.delete("s1")
    run(session.clear_session())
    run(session.add_items(says("b")))
    assert run(RolloutSession("s1", tmp_path).get_items()) == says("b")
    assert store.resolve("s1") == files_of(tmp_path)[0]


def test_names_that_cannot_be_written_keep_no_session_from_beginning(tmp_path: Path) -> None:
    (tmp_path / "session_index.jsonl").mkdir()
    run(RolloutSession("s", tmp_path).add_items(says("a")))
    assert run(RolloutSession("s", tmp_path).get_items()) == says("a")


# A session that is begun beside another one, in folders that are known to be on the disk


SEEDS = itertools.count()


def begun(session_id: str, disk: SimulatedDisk) -> Branches:
    return opened(disk, next(SEEDS), session_id)


def home_with_one() -> dict[str, bytes | None]:
    """Its folders have the marks of what is known to be on the disk."""
    disk = SimulatedDisk({str(HOME): None})
    begun("first", disk).add(["a"])
    tree, marks = {path: data for path, data in disk.tree().items() if "/.synced-" not in path}, dict[str, bytes]()
    while True:  # a disk that is made of a tree numbers its folders anew
        disk = SimulatedDisk({**tree, **marks})
        found = {f"{folder}/.synced-{disk.status(folder).identity[1]}": b"" for folder in FOLDERS}
        if found == marks:
            return {**tree, **marks}
        marks = found


def begin_another(disk: SimulatedDisk, acknowledge: Callable[[Any], None]) -> None:
    branches = begun("second", disk)
    branches.add(["b"])
    acknowledge("b")


def die_before_the_first_item_and_begin_again(disk: SimulatedDisk, acknowledge: Callable[[Any], None]) -> None:
    doomed = begun("second", disk)
    with mock.patch.object(ItemLog, "write", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        doomed.add(["never"])
    disk.kill()
    begin_another(disk, acknowledge)


def check_both(disk: SimulatedDisk, acked: list[Any]) -> None:
    """The second session is there as far as it was acknowledged; what has begun has its session_meta, and goes on."""
    second, tree = begun("second", disk), disk.tree()
    assert all(b"}\n" in (data or b"") for path, data in tree.items() if "/rollout-" in path), "a part of a first line"
    found = second.items(None)
    assert found in (acked, ["b"])
    for branch, _ in second.list_all():
        assert b'"agent_session_id":"second"' in (tree[str(second.path_of(branch))] or b"").split(b"\n")[0]
    if zlib.crc32(repr(tree).encode()) % PART == 0:
        begun("second", disk).add(["z"])
        assert begun("second", disk).items(None) == [*found, "z"]
        assert begun("first", disk).items(None) == ["a"]


HARMLESS = {"delay sync dir 1": "its name is written in between, and nothing is acknowledged by that"}
SCENARIOS = [
    Scenario("begin", begin_another, check_both, home_with_one(), HARMLESS, limit=2),
    Scenario("begin again", die_before_the_first_item_and_begin_again, check_both, home_with_one(), limit=2),
]


@each(SCENARIOS)
def test_a_second_session_is_as_durable_as_the_first(scenario: Scenario) -> None:
    assert scenario.explore().states > 20


@each_sync(SCENARIOS[0])
def test_none_of_its_few_syncs_can_be_left_out(scenario: Scenario, fault: Any) -> None:
    scenario.check_sync(fault)


def test_it_syncs_two_directories() -> None:
    disk = SimulatedDisk(home_with_one())
    begun("second", disk).add(["b"])
    assert disk.attempts.count(OpKind.SYNC_DIR) == 2
