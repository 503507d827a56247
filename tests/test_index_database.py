"""The database of the index can be lost, spoilt or impossible: lists are right even so."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from rollout.files import layout as homes
from rollout.home.index.database import NAME
from rollout.home.index.index import Index, with_index
from tests import builders as b
from tests.index_home import Home, append, turn


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.path.mkdir()
    return found


def spoil_at_random(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 20, 500))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data)


def make_garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(10_000))


def cut_short(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def number_otherwise(path: Path, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 99")


def lose_a_table(path: Path, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE checkpoints")


SPOILERS = [spoil_at_random] * 20 + [make_garbage, cut_short, cut_short, number_otherwise, lose_a_table]


@pytest.mark.parametrize(("seed", "spoil"), list(enumerate(SPOILERS)))
def test_a_corrupt_index_is_built_anew(home: Home, seed: int, spoil: Callable[[Path, random.Random], None]) -> None:
    paths = [home.add(n, b.user(f"q{n}"), turn(n).rstrip(b"\n")) for n in range(8)]
    first = home.digests()
    spoil(home.path / NAME, random.Random(seed))
    append(paths[3], turn(9))
    again = home.digests()
    assert {name: digest for name, digest in again.items() if name != paths[3].name} == {
        name: digest for name, digest in first.items() if name != paths[3].name
    }
    assert home.using(lambda index: index.refresh()).path == home.path / NAME
    assert home.opened_by_list() == []


@pytest.mark.parametrize("kind", ["directory", "fifo", "link", "dangling link", "journal link"])
def test_what_lies_in_its_place_is_never_followed_nor_touched(home: Home, tmp_path: Path, kind: str) -> None:
    home.add(1, b.user("q"))
    place, target = home.path / NAME, tmp_path / "target"
    if kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        if kind == "link":
            target.write_bytes(b"")
        (place if kind != "journal link" else place.with_name(f"{NAME}-journal")).symlink_to(target)
    assert len(home.digests()) == 1
    assert home.using(lambda index: index.status()).path is None
    assert not target.exists() or target.read_bytes() == b""


def test_no_home_is_made_for_an_index(tmp_path: Path) -> None:
    with Index(tmp_path / "none") as index:
        assert index.status().files == 0
    assert not (tmp_path / "none").exists()


def test_the_index_is_for_its_owner_alone(home: Home) -> None:
    home.add(1, b.user("q"))
    home.digests()
    assert (home.path / NAME).stat().st_mode & 0o777 == 0o600


def test_on_a_full_disk_the_index_goes_on_in_memory(home: Home) -> None:
    for n in range(60):
        home.add(n, turn(n).rstrip(b"\n"))

    def work(index: Index) -> tuple[int, Path | None]:
        if index.status().path is not None:
            index.database.connection.execute("PRAGMA max_page_count = 1")
        return len(home.digests_in(index)), index.status().path

    assert home.using(work) == (60, None)


def test_errors_of_the_connection_of_others_are_recovered_from(home: Home) -> None:
    home.add(1, b.user("q"))
    home.digests()
    tries = 0

    def work(index: Index) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            index.database.connection.execute("SELECT * FROM no_such_table")
        return len(list(index.entries(homes.scan(home.path))))

    assert with_index(home.path, home.fs, work) == 1
    assert tries == 2
