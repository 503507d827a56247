"""The port: the real file system and the simulated one do the same."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from rollout.errors import Locked, NotARollout, NotFound, SourceError, WriteError
from rollout.files.disk import REAL, AnyPath, FileSystem, RealFileSystem, ShortWrite
from rollout.files.port import Holder
from rollout.testing.disk import SimulatedDisk
from tests.storage import ME


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and an empty directory on it: what holds for one must hold for the other."""
    if request.param == "real":
        return REAL, str(tmp_path)
    return SimulatedDisk({"/home": None}), "/home"


def names(fs: FileSystem, path: AnyPath) -> list[str]:
    return [listed.name for listed in fs.listed(path)]


def test_what_was_appended_is_read_back_from_any_offset(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    file = fs.open_append(f"{home}/a", create=True)
    assert file.append(b"one") == 3
    assert file.append(b"two") == 6
    file.sync()
    reader = fs.open_read(f"{home}/a")
    assert (reader.size(), reader.read_at(2, 3), reader.read_at(4, 99), reader.read_at(6, 1)) == (6, b"etw", b"wo", b"")
    assert reader.identity == file.identity
    file.truncate(4)
    assert (file.size(), reader.read_at(0, 9), file.append(b"!")) == (4, b"onet", 5)
    file.close()
    file.close()
    reader.close()


def test_names_change_as_they_are_told_to(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    fs.mkdir(f"{home}/d")
    fs.write_new(f"{home}/d/a", b"1")
    identity = fs.open_read(f"{home}/d/a").identity
    fs.write_new(f"{home}/d/b", b"1")
    fs.rename(f"{home}/d/a", f"{home}/c")
    fs.sync_dir(f"{home}/d")
    assert (names(fs, home), names(fs, f"{home}/d")) == (["c", "d"], ["b"])
    assert fs.open_read(f"{home}/c").identity == identity != fs.open_read(f"{home}/d/b").identity
    fs.write_new(f"{home}/d/new", b"2")
    fs.rename(f"{home}/d/new", f"{home}/c")
    fs.unlink(f"{home}/d/b")
    assert (names(fs, home), names(fs, f"{home}/d")) == (["c", "d"], [])
    assert fs.open_read(f"{home}/c").read_at(0, 9) == b"2"


def test_what_is_there_is_not_made_again_and_what_is_not_is_not_found(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    fs.write_new(f"{home}/a", b"")
    for again in (
        lambda: fs.write_new(f"{home}/a", b""),
        lambda: fs.open_append(f"{home}/a", create=True),
        lambda: fs.mkdir(f"{home}/a"),
    ):
        with pytest.raises(FileExistsError):
            again()
    for missing in (
        lambda: fs.open_append(f"{home}/x"),
        lambda: names(fs, f"{home}/x"),
        lambda: fs.unlink(f"{home}/x"),
        lambda: fs.rename(f"{home}/x", f"{home}/y"),
        lambda: fs.mkdir(f"{home}/x/y"),
        lambda: fs.sync_dir(f"{home}/x"),
    ):
        with pytest.raises(FileNotFoundError):
            missing()
    with pytest.raises(NotADirectoryError):
        names(fs, f"{home}/a")
    with pytest.raises(NotFound):
        fs.open_read(f"{home}/x")
    with pytest.raises(NotFound):
        fs.open_read(f"{home}/a/b")
    for wrong in (fs.open_read, fs.open_append):
        with pytest.raises(NotARollout, match="is a directory"):
            wrong(home)


def test_the_lock_has_one_holder_and_names_it_until_its_file_is_closed(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    first, second = fs.open_append(f"{home}/a", create=True), fs.open_append(f"{home}/a")
    first.lock(Holder(12, "there", "noon"))
    with pytest.raises(Locked, match=r"process 12 on there since noon.*close it there"):
        second.lock(ME)
    second.close()
    third = fs.open_append(f"{home}/a")
    with pytest.raises(Locked):
        third.lock(ME)
    first.close()
    third.lock(ME)
    third.close()
    assert names(fs, home) == ["a"]


def test_the_lock_follows_the_file_to_another_name(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    first = fs.open_append(f"{home}/a", create=True)
    first.lock(ME)
    fs.rename(f"{home}/a", f"{home}/b")
    with pytest.raises(Locked):
        fs.open_append(f"{home}/b").lock(ME)


def test_a_file_that_was_replaced_before_it_was_locked_is_not_written(place: tuple[FileSystem, str]) -> None:
    fs, home = place
    first = fs.open_append(f"{home}/a", create=True)
    fs.write_new(f"{home}/b", b"new")
    fs.rename(f"{home}/b", f"{home}/a")
    with pytest.raises(Locked, match="open it again"):
        first.lock(ME)
    fs.unlink(f"{home}/a")
    with pytest.raises(Locked, match="open it again"):
        first.lock(ME)


def test_kinds_of_files_that_are_no_rollouts_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for path, kind in ((tmp_path / "fifo", "FIFO"), (tmp_path / "socket", "socket"), (Path("/dev/null"), "device")):
        for open_it in (REAL.open_read, REAL.open_append):
            with pytest.raises(NotARollout, match=kind):
                open_it(path)


def test_a_file_that_may_not_be_read_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceError, match="may not be read; check the permissions"):
        REAL.open_read(tmp_path / "a")


def test_short_reads_are_completed_and_failed_ones_name_the_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    file = REAL.open_read(tmp_path / "a")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: pread(fd, min(n, 7), at))
    assert file.read_at(10, 50) == bytes(range(10, 60))
    assert file.read_at(90, 50) == bytes(range(90, 100))

    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceError, match="at byte 10"):
        file.read_at(10, 50)


def test_without_pread_the_same_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    file = REAL.open_read(tmp_path / "a")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "pread")
    found = file.read_at(90, 50), file.read_at(10, 50)
    monkeypatch.undo()
    assert found == (bytes(range(90, 100)), bytes(range(10, 60)))


def test_a_short_write_says_how_many_bytes_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = REAL.open_append(tmp_path / "a", create=True)
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    with pytest.raises(ShortWrite, match="only 3 of 5") as caught:
        file.append(b"12345")
    assert (caught.value.written, caught.value.wanted, file.size()) == (3, 5, 3)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        REAL.mkdir(tmp_path / "d")
        REAL.write_new(tmp_path / "d" / "new", b"")
        file = REAL.open_append(tmp_path / "d" / "a", create=True)
        file.lock(ME)
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / "d" / name).stat().st_mode) for name in ("a", "new", ".a.lock")}
    assert modes == dict.fromkeys(modes, 0o600)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
    file.close()


def test_a_symbolic_link_is_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "a").symlink_to(tmp_path / "target")
    with pytest.raises(NotARollout, match="symbolic link"):
        REAL.open_append(tmp_path / "a")
    with pytest.raises(FileExistsError):
        REAL.open_append(tmp_path / "a", create=True)
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / ".b.lock").symlink_to(tmp_path / "target")
    file = REAL.open_append(tmp_path / "b")
    file.lock(ME)
    assert (tmp_path / "target").read_bytes() == b""
    file.close()


def test_with_a_root_no_link_leads_out_of_it(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    fs = RealFileSystem(home)
    outside.mkdir()
    (outside / "a").write_bytes(b"")
    fs.mkdir(home)
    fs.mkdir(home / "in")
    (home / "out").symlink_to(outside)
    (home / "alias").symlink_to(home / "in")
    fs.write_new(home / "alias" / "a", b"inside")
    assert (home / "in" / "a").read_bytes() == b"inside"
    for act in (
        lambda: fs.open_append(home / "out" / "a"),
        lambda: fs.write_new(home / "out" / "new", b""),
        lambda: fs.mkdir(home / "out" / "d"),
        lambda: fs.unlink(home / "out" / "a"),
        lambda: fs.rename(home / "in" / "a", home / "out" / "a"),
        lambda: fs.write_new(home / ".." / "new", b""),
        lambda: fs.write_new(tmp_path / "home2", b""),
    ):
        with pytest.raises(WriteError, match="no link may lead out"):
            act()
    assert names(REAL, outside) == ["a"]
