"""Who has keys writes no plain text into a log, whatever a crash has left there; and what he writes can be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import rollout
from rollout import NoKey, NotARollout, Store, UsageError
from rollout.adapters.agents import RolloutSession
from rollout.dialects.codex import encoder
from rollout.errors import WriteError
from rollout.files.encrypted.keys import Keys
from rollout.files.encrypted.lines import parts_of
from rollout.format.labels import UNLABELLED
from rollout.session.environment import Ports
from rollout.session.shared_log import SharedLog
from tests import builders as b
from tests import homes
from tests.enciphering import a_cipher, enciphered
from tests.sessions import take_turn, texts

META = b.session_meta(homes.thread_id(1), cwd="/p")
SECRET = enciphered([META, b.user("q")], thread=homes.thread_id(1))
HEAD = SECRET.partition(b"\n")[0]
NOTHING = {
    "empty": b"",
    "zeros": b"\0" * 5000,
    "blank lines": b"\n\r\n \n",
    "torn": META[:60],
    "torn in its first byte": META[:1],
    "torn, then zeros": META[:60] + b"\0" * 4096,
    "torn, encrypted": HEAD[: HEAD.index(b'"data"') + 40],
    "torn, encrypted, at its end": HEAD[:-2],
    "torn before what is encrypted": HEAD[: HEAD.index(b'"encrypted"')],
    "damaged": b"no record\n{\n" + META[:60] + b"\n",
    "damaged, then torn": b"no record\n" + META[:60],
    "damaged, encrypted": HEAD[: HEAD.index(b'"data"') + 8] + b"\n",
    "much damage": b"no record\n" * 9000,
    "one damaged line": b"x" * 200_000 + b"\n",
}
"""What a file can hold in which no record is."""
Write = Callable[[Path, Path, str], None]


def with_a_turn(home: Path, path: Path, text: str) -> None:
    with Store(home, cipher=a_cipher()).open(path) as log:
        take_turn(log, text)
        log.compact([b.user_item(f"{text}, short")])


def with_a_fork(home: Path, path: Path, text: str) -> None:
    store = Store(home, cipher=a_cipher())
    with store.open(path) as log:
        with log.fork() as fork:
            take_turn(fork, text)
        take_turn(log, text)


def with_a_repair(home: Path, path: Path, text: str) -> None:
    rollout.apply_repair(rollout.plan_repair(path))
    with_a_turn(home, path, text)


def from_a_seal(home: Path, path: Path, text: str) -> None:
    store = Store(home, cipher=a_cipher())
    store.seal(path)
    with_a_turn(home, store.resolve(path), text)
    store.seal(path)
    store.unseal(path)
    with_a_turn(home, store.resolve(path), text)


def encrypted_lines(path: Path) -> int:
    return sum(parts_of(line) is not None for line in path.read_bytes().splitlines())


def plain_places(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and b"hidden" in path.read_bytes()]


@pytest.mark.parametrize("write", [with_a_turn, with_a_fork, with_a_repair, from_a_seal])
@pytest.mark.parametrize("left", NOTHING)
def test_what_is_written_where_nothing_can_be_read_is_encrypted(tmp_path: Path, left: str, write: Write) -> None:
    path = homes.put_data(homes.path_of(tmp_path, 1), NOTHING[left])
    write(tmp_path, path, "hidden 1")
    assert plain_places(tmp_path) == []
    before = encrypted_lines(path)
    assert before
    with_a_turn(tmp_path, path, "hidden 2")
    assert plain_places(tmp_path) == []
    assert encrypted_lines(path) > before
    with Store(tmp_path, cipher=a_cipher()).open(path, "read") as log:
        state = log.resume_state()
    assert texts(state) == ["hidden 2, short"]
    said = rollout.reconstruct(path, cipher=a_cipher(), home=tmp_path)
    assert [damage for damage in said.damage if "missing" in damage.reason or "doubled" in damage.reason] == []
    assert {turn.user for turn in rollout.turns(path, cipher=a_cipher(), home=tmp_path)} >= {"hidden 1", "hidden 2"}
    with pytest.raises(NoKey):
        rollout.reconstruct(path, home=tmp_path)


@pytest.mark.parametrize("left", NOTHING)
def test_a_copy_of_it_is_encrypted_or_not_made(tmp_path: Path, left: str) -> None:
    path = homes.put_data(homes.path_of(tmp_path, 1), NOTHING[left])
    with Store(tmp_path, cipher=a_cipher()).open(path) as log:
        files = set(path.parent.iterdir())
        try:
            with log.fork(copy=True) as copy:
                take_turn(copy, "hidden")
        except WriteError as error:
            assert "cannot be encrypted" in str(error)  # noqa: PT017 - it may be made, too
            assert left.startswith(("damaged", "much", "one"))
            assert set(path.parent.iterdir()) == files
    assert plain_places(tmp_path) == []


@pytest.mark.parametrize("left", NOTHING)
def test_nor_does_an_agents_session_write_plain_text_there(tmp_path: Path, left: str) -> None:
    async def say(*more: str) -> list[str]:
        session = RolloutSession("a", tmp_path, cipher=a_cipher())
        for text in more:
            await session.add_items([{"role": "user", "content": text}])
        found = [item["content"] for item in await session.get_items()]
        session.close()
        return found

    asyncio.run(say("hidden 0"))
    (path,) = tmp_path.rglob("rollout-*.jsonl")
    path.write_bytes(NOTHING[left].replace(homes.thread_id(1).encode(), path.name[-42:-6].encode()))
    assert asyncio.run(say("hidden 1", "hidden 2")) == ["hidden 1", "hidden 2"]
    assert asyncio.run(say("hidden 3")) == ["hidden 1", "hidden 2", "hidden 3"]
    assert plain_places(tmp_path) == []


@pytest.mark.parametrize(
    "data",
    [b.log(META), META, b"no record\n" + b.log(META), b"\0" * 99 + b.log(b.user("q")), b.log(META) + HEAD[:99]],
    ids=["whole", "without a line end", "behind damage", "without a meta", "before an encrypted one"],
)
def test_a_plain_rollout_stays_plain(tmp_path: Path, data: bytes) -> None:
    path = homes.put_data(homes.path_of(tmp_path, 1), data)
    with_a_turn(tmp_path, path, "plain")
    assert encrypted_lines(path) == 0
    assert texts(rollout.reconstruct(path)) == ["plain, short"]


def test_a_plain_line_in_an_encrypted_log_does_not_make_it_plain(tmp_path: Path) -> None:
    for data in (b.log(META) + SECRET, SECRET + b.log(b.user("slipped in"))):
        path = homes.put_data(homes.path_of(tmp_path, 1), data)
        with_a_turn(tmp_path, path, "hidden")
        assert plain_places(tmp_path) == []


def test_without_keys_such_a_log_begins_anew_as_it_did(tmp_path: Path) -> None:
    path = homes.put_data(homes.path_of(tmp_path, 1), b"")
    with Store(tmp_path).open(path) as log:
        take_turn(log, "plain")
    assert b"plain" in path.read_bytes()


def test_where_nothing_tells_the_thread_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(b"")
    store = Store(tmp_path, cipher=a_cipher())
    for refused in (store.open, store.rekey):
        with pytest.raises(NotARollout):
            refused(path)
    shared = SharedLog(lambda: path, Ports(tmp_path, keys=Keys(a_cipher())), UNLABELLED, 0)
    with contextlib.closing(shared), pytest.raises(UsageError, match="tells no thread id"):
        shared.carry_out(lambda recorder: recorder.write([encoder.event_record("hidden", {})]))
    assert path.read_bytes() == b""
