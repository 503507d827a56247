"""The index is a cache: it says what the files say, and reads no more of them than it must."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollout import Store
from rollout.errors import SourceError
from rollout.files import layout as homes
from rollout.files.disk import RealFileSystem
from rollout.files.port import AnyPath, ReadFile
from rollout.home.index.database import NAME
from rollout.limits import DEFAULT
from tests import builders as b
from tests.index_home import LATER_S, Home, append, turn


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.path.mkdir()
    return found


def test_a_warm_list_opens_no_rollout(home: Home) -> None:
    for n in range(5):
        home.add(n, b.user(f"q{n}"))
    first = home.digests()
    assert len(first) == 5
    assert home.opened_by_list() == []
    assert home.digests() == first


def test_who_stops_early_has_read_no_more_than_he_took(home: Home) -> None:
    for n in range(5):
        home.add(n, b.user(f"q{n}"))
    with home.open() as index:
        rows = index.entries(homes.scan(home.path))
        next(rows), next(rows)
    assert len(home.fs.opened) == 2


def test_of_a_file_that_grew_little_more_than_the_appended_bytes_is_read(home: Home) -> None:
    path = home.add(1, b.user("q"))
    for n in range(2000):
        append(path, turn(n, "some longer question "))
    home.digests()
    most = DEFAULT.first_chunk_bytes + 6000  # the head, and the last bytes of what was known
    for n in range(20):
        append(path, turn(9000 + n))
        assert home.opened_by_list() == [path.name]
        assert home.fs.bytes_read < most + 3 * len(turn(9000))
        home.digests()
    for n in range(3):
        append(path, turn(9100 + n) + b.rolled_back(2) + b"\n")
        assert home.opened_by_list() == [path.name]
        assert home.fs.bytes_read < 2 * most
        home.digests()


def test_a_rollback_that_is_appended_reaches_back_to_what_was_read_before(home: Home) -> None:
    path = home.add(1)
    for n in range(5):
        append(path, turn(n))
    assert home.digests()[path.name].turns == 5
    append(path, b.rolled_back(4) + b"\n")
    found = home.digests()[path.name]
    assert (found.turns, found.messages, found.first_message) == (1, 2, "q0")


def test_a_torn_end_is_not_remembered(home: Home) -> None:
    path = home.add(1, b.user("q"))
    append(path, b.assistant("a")[:40])
    assert home.digests()[path.name].damaged == 1
    os.truncate(path, path.stat().st_size - 40)
    append(path, b.assistant("another answer") + b"\n")
    found = home.digests()[path.name]
    assert (found.damaged, found.messages) == (0, 2)


def test_a_file_that_was_cut_replaced_or_deleted_is_seen_as_it_is(home: Home) -> None:
    cut, replaced, deleted, swapped = (home.add(n, b.user("first"), b.user("second")) for n in range(4))
    home.digests()
    os.truncate(cut, cut.stat().st_size - 30)
    replaced.with_name("new").write_bytes(b.log(b.session_meta(), *[b.user("third")] * 9))
    replaced.with_name("new").replace(replaced)
    deleted.unlink()
    swapped.write_bytes(swapped.read_bytes().replace(b"first", b"wurst") + b.user("x") + b"\n")
    found = home.digests()
    assert found[replaced.name].first_message == "third"
    assert deleted.name not in found
    with home.open() as index:
        assert index.refresh().entries == 3


def test_a_change_of_the_same_size_in_the_same_tick_is_not_missed(home: Home) -> None:
    path = home.add(1, b.user("before"))
    home.ahead_s = 0.0
    stamp = path.stat().st_mtime_ns
    assert home.digests()[path.name].first_message == "before"
    path.write_bytes(path.read_bytes().replace(b"before", b"behind"))
    os.utime(path, ns=(stamp, stamp))
    assert home.digests()[path.name].first_message == "behind"
    home.ahead_s = LATER_S
    home.digests()
    assert home.opened_by_list() == []


def test_scanning_a_file_once_more_that_did_not_change_keeps_its_id_and_other_contents_have_another(home: Home) -> None:
    path = home.add(1, b.user("q"))
    (file,) = homes.scan(home.path)
    home.ahead_s = 0.0

    def id_now() -> int:
        with home.open() as index:
            entry = index.stored(file)
            assert entry is not None
            return entry.id

    first = id_now()
    home.digests()
    append(path, turn(1))
    assert id_now() == first
    path.write_bytes(b.log(b.session_meta(), b.user("another")))
    assert id_now() != first


def test_an_archived_file_keeps_its_digest(home: Home) -> None:
    path = home.add(1, b.user("q"))
    home.digests()
    target = home.path / "archived_sessions" / path.name
    target.parent.mkdir()
    path.rename(target)
    assert home.opened_by_list() == []


def test_a_sealed_file_is_read_once_and_says_the_same(home: Home) -> None:
    path = home.add(1, b.user("q"), b.assistant("a"))
    plain = home.digests()[path.name]
    before = path.read_bytes()
    os.utime(path, (1e9, 1e9))
    Store(home.path).seal(path)
    found = home.digests()[f"{path.name}.zst"]
    assert (found.messages, found.text_bytes, found.first_message) == (2, len(before), plain.first_message)
    assert home.opened_by_list() == []


def a_fork(home: Home, base: Path, *lines: bytes) -> Path:
    """Refers to all of the base."""
    thread = base.name.removesuffix(".jsonl")[-36:]
    history_base = {"thread_id": thread, "end_ordinal_exclusive": None, "end_byte_offset": base.stat().st_size}
    return home.add(50, *lines, meta=b.session_meta("019d0000-0000-7000-8000-000000000050", history_base=history_base))


def test_a_fork_counts_what_it_refers_to_and_reads_it_again_only_where_that_is_taken_back(home: Home) -> None:
    base = home.add(1)
    for n in range(300):
        append(base, turn(n))
    fork = a_fork(home, base, *turn(299, "own").splitlines())
    found = home.digests()[fork.name]
    assert (found.turns, found.first_message) == (301, "q0")
    assert found.base_thread == base.name.removesuffix(".jsonl")[-36:]
    append(fork, turn(300))
    append(fork, b.rolled_back(1) + b"\n")
    assert home.opened_by_list() == [fork.name]
    assert home.fs.bytes_read < 2000
    assert home.digests()[fork.name].turns == 301
    append(fork, b.rolled_back(3) + b"\n")
    assert set(home.opened_by_list()) == {fork.name, base.name}
    assert home.digests()[fork.name].turns == 298
    append(fork, b.rolled_back(1) + b"\n")
    assert set(home.opened_by_list()) == {fork.name, base.name}
    assert home.digests()[fork.name].turns == 297


def test_a_fork_notices_that_its_base_went_away_and_came_back(home: Home) -> None:
    base = home.add(1, b.user("old"))
    fork = a_fork(home, base, b.user("own"))
    assert home.digests()[fork.name].turns == 2
    base.rename(home.path / "elsewhere")
    found = home.digests()[fork.name]
    assert (found.turns, found.damaged) == (1, 1)
    assert home.opened_by_list() == []
    (home.path / "elsewhere").rename(base)
    assert home.digests()[fork.name].turns == 2


@pytest.mark.parametrize(
    ("data", "trouble"),
    [(b"", "empty"), (b"%% no log\n", "no record of a rollout"), (b"\n\n", "no record of a rollout")],
)
def test_a_file_that_is_no_rollout_is_listed_with_its_trouble(home: Home, data: bytes, trouble: str) -> None:
    path = home.add(1)
    path.write_bytes(data)
    assert home.digests()[path.name].trouble == trouble


def test_a_file_that_cannot_be_read_is_listed_and_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.add(1, b.user("q"))
    with monkeypatch.context() as patched:
        patched.setattr(RealFileSystem, "open_read", _refuse)
        with home.open() as index:
            ((_, digest),) = index.entries(homes.scan(home.path))
    assert digest.trouble == "cannot be read: may not be read"
    assert home.digests()[path.name].trouble is None


def _refuse(self: RealFileSystem, path: AnyPath) -> ReadFile:
    raise SourceError("may not be read", path=path)


def test_a_file_that_goes_away_while_it_is_listed_is_left_out(home: Home) -> None:
    path = home.add(1, b.user("q"))
    entries = list(homes.scan(home.path))
    path.unlink()
    with home.open() as index:
        assert list(index.entries(entries)) == []


def test_the_status_tells_what_is_to_be_read(home: Home) -> None:
    path = home.add(1, b.user("q"))
    other = home.add(2, b.user("q"))
    with home.open() as index:
        status = index.status()
        assert (status.entries, status.files, status.stale) == (0, 2, 2)
        assert status.stale_bytes == path.stat().st_size + other.stat().st_size
        index.refresh()
    append(path, turn(1))
    with home.open() as index:
        status = index.status()
        assert (status.entries, status.stale, status.stale_bytes) == (2, 1, len(turn(1)))
        assert status.bytes == (home.path / NAME).stat().st_size
        assert index.refresh(rebuild=True).stale == 0


def test_progress_counts_the_bytes_that_are_read_and_ends_with_all(home: Home) -> None:
    for n in range(3):
        home.add(n, turn(n).rstrip(b"\n"))
    seen: list[tuple[int, int]] = []
    with home.open() as index:
        index.refresh(progress=lambda done, total: seen.append((done, total)))
    total = sum(entry.path.stat().st_size for entry in homes.scan(home.path))
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
