"""A crash at any point of encrypting a rollout anew, or of appending to it: the old or the new one, never less."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollout import Cipher
from rollout.files.encrypted.keys import Keys
from rollout.files.lineage import holds_record
from rollout.files.shared_writer import SharedWriter
from rollout.files.source import Origin
from rollout.files.staging import new_file
from rollout.files.writer import holder, open_writer
from rollout.home.lifecycle import Keeper
from rollout.home.maintenance.rekey import decrypt, rekey
from rollout.home.maintenance.repair import fingerprint
from rollout.testing.crashes import explore
from rollout.testing.disk import SimulatedDisk
from tests import builders as b
from tests.crashing import Scenario
from tests.enciphering import KEY, OTHER_KEY, a_cipher, a_secret_log, a_secret_store, enciphered
from tests.sessions import take_turn, texts

PATH = f"/h/rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
HOME = Path("/nowhere")
PLAIN = [b.session_meta(), b.started("t"), b.user("q"), b.completed("t")]
BOTH = Keys(Cipher({"k1": KEY, "k2": OTHER_KEY}, "k2"))
Change = Callable[[Any, Path, Path, Keys], None]
STARTS = {"plain": b.log(*PLAIN), "encrypted": enciphered(PLAIN)}


@functools.cache
def told(data: bytes) -> dict[str, object]:
    disk = SimulatedDisk({"/h": None, PATH: data})
    return fingerprint(Origin(None, Path(PATH), HOME, fs=disk, keys=BOTH))


@pytest.mark.parametrize("change", [rekey, decrypt], ids=["rekey", "decrypt"])
@pytest.mark.parametrize("start", STARTS)
def test_after_a_crash_the_file_is_the_old_or_the_new_one(start: str, change: Change) -> None:
    old = {"/h": None, PATH: STARTS[start]}
    before, states = told(STARTS[start]), set()

    def work(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        change(disk, Path(PATH), HOME, BOTH)
        ack("changed")

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        data = disk.tree()[PATH]
        assert data is not None
        assert told(data) == before
        states.add(data == STARTS[start])
        is_done = b'"key":"k2"' in data if change is rekey else b"encrypted" not in data
        assert is_done or not acked

    scenario = Scenario("change", work, check, old)
    scenario.explore()
    if (start, change) != ("plain", decrypt):
        assert states == {True, False}
        scenario.check_syncs()


FILE = Path(f"/h/sessions/2026/03/20/{Path(PATH).name}")
FOLDERS = dict.fromkeys(map(str, [*list(FILE.parents)[::-1][1:]]))


@pytest.mark.parametrize("then", ["open", "share", "tidy", "tidy when it was sealed"])
@pytest.mark.parametrize("change", [rekey, decrypt], ids=["rekey", "decrypt"])
def test_what_a_crash_leaves_of_decrypting_goes_with_the_next_append_or_tidying(change: Change, then: str) -> None:
    """It may be the plain text of an encrypted log."""
    left = set()

    def work(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        change(disk, FILE, Path("/h"), BOTH)

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        left.add(has_half_made(disk))
        if then == "open":
            open_writer(disk, FILE, held_by=holder("noon"), root="/h").close()
        elif then == "share":
            with contextlib.closing(SharedWriter(disk, FILE, holds_record=holds_record, root="/h")) as writer:
                writer.carry_out(lambda: None, 0)
        else:
            if then != "tidy":
                disk.rename(FILE, f"{FILE}.zst")
            Keeper(Path("/h"), disk, lambda: "noon", BOTH).tidy()
        assert not has_half_made(disk)

    explore(work, check, start={**FOLDERS, str(FILE): STARTS["encrypted"]})
    assert left == {True, False}


def has_half_made(disk: SimulatedDisk) -> bool:
    return any(name.endswith(".new") for name in disk.tree())


def test_a_file_that_is_being_decrypted_is_not_tidied_away() -> None:
    disk = SimulatedDisk({**FOLDERS, str(FILE): STARTS["encrypted"]})
    with new_file(disk, FILE) as (file, _), contextlib.closing(file):
        Keeper(Path("/h"), disk, lambda: "noon").tidy()
        assert has_half_made(disk)
    Keeper(Path("/h"), disk, lambda: "noon").tidy()
    assert not has_half_made(disk)


def test_after_a_crash_an_encrypted_log_reads_as_far_as_it_was_acknowledged() -> None:
    def work(disk: SimulatedDisk, ack: Callable[[Any], None]) -> None:
        with a_secret_log(a_secret_store("/h", a_cipher(), fs=disk)) as log:
            ack(str(log.path))
            log.compact([b.user_item("short")])
            ack("short")

    def check(disk: SimulatedDisk, acked: list[Any]) -> None:
        if not acked:
            return
        torn = (disk.tree()[acked[0]] or b"").rpartition(b"\n")[2].rstrip(b"\0")
        if len(torn) % 9 and not torn.endswith((b"{", b"}", b'"')):
            return  # cut as the ones beside it are
        looked.append(len(torn))
        store = a_secret_store("/h", a_cipher(), fs=disk, start=1_774_000_900.0)
        with Origin(None, Path(acked[0]), Path("/h"), fs=disk, keys=Keys(a_cipher())).opened() as lineage:
            assert [damage for damage in lineage.damage() if damage.kind == "encrypted"] == []
        with store.open(Path(acked[0])) as log:
            take_turn(log, "after")
            state = log.resume_state()
        assert state.damage == ()
        said = texts(state)
        assert said[-2:] == ["after", "answer to after"]
        assert "short" not in acked or said[0] == "short"

    looked: list[int] = []
    explore(work, check, limit=4)
    assert {size > 0 for size in looked} == {True, False}
    assert len(looked) > 200
