"""A home that is not there yet: it is made with all above it, or what is in its way is named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollout import Store
from rollout.errors import WriteError
from rollout.files.disk import RealFileSystem


def created(home: Path) -> Path:
    with Store(home).create(cwd="/p", model_provider="m") as log:
        assert log.path.is_file()
        assert log.path.stat().st_mode & 0o777 == 0o600
        return log.path


def test_a_home_is_made_with_all_that_is_missing_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for home in ("a/b/c/home", "real/x/home", "link/y/home", "link", "gone/../other/home"):
        path = created(Path(home))
        assert path.is_relative_to(tmp_path)
        assert Store(home).resolve("-1") == path
    made = tmp_path / "a" / "b"
    assert made.stat().st_mode & 0o777 == (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "real" / "y" / "home" / "sessions").is_dir()


@pytest.mark.parametrize("inside", [Path(), Path("home"), Path("x/y/home")], ids=str)
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (Path.touch, "is no folder, and a folder is needed there"),
        (os.mkfifo, "is no folder, and a folder is needed there"),
        (lambda path: path.symlink_to("nowhere"), "is a link that leads to no folder, and a folder is needed there"),
        (lambda path: path.symlink_to("file"), "is a link that leads to no folder, and a folder is needed there"),
    ],
    ids=["file", "pipe", "dangling", "link to a file"],
)
def test_what_is_in_the_way_of_a_home_is_named(
    make: Callable[[Path], object], what: str, inside: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    in_the_way = tmp_path / "way"
    make(in_the_way)
    for home in (in_the_way / inside, tmp_path):
        if home == tmp_path:  # below the home the same holds
            in_the_way = in_the_way.rename(tmp_path / "sessions")
        with pytest.raises(WriteError, match=what) as failed:
            created(home)
        assert failed.value.path == str(in_the_way)
        assert "home" in (failed.value.remedy or "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "sessions"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_folder_that_cannot_be_made_is_named_with_the_reason(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, mode: int) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(WriteError, match=f"no folder can be made in it: {os.strerror(number)}; check") as failed:
        created(tmp_path / "a" / "b" / "home")
    assert failed.value.path == str(tmp_path)


def test_only_what_leads_to_the_home_is_made_outside_of_it(tmp_path: Path) -> None:
    fs = RealFileSystem(tmp_path / "a" / "home")
    for path in (tmp_path / "b", tmp_path / "a2", tmp_path / "a" / ".." / "c", tmp_path / "a" / "home2"):
        with pytest.raises(WriteError, match="lies outside of"):
            fs.mkdir(path)
    fs.mkdir(tmp_path / "a")
    fs.mkdir(tmp_path / "a" / "home")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "home"]
