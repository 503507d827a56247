"""Names of threads: written beside other programs, read whatever the file holds."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from rollout.dialects.codex.names import THREAD_NAMES_FILE
from rollout.errors import NotARollout, UsageError, WriteError
from rollout.files.disk import RealFileSystem
from rollout.files.thread_names import Names, check_name, read_names
from rollout.limits import NAME_CHARACTERS
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk

ONE = "019d0000-0000-7000-8000-000000000001"
TWO = "019d0000-0000-7000-8000-000000000002"
WHEN = "2026-03-20T10:00:02.000Z"


def line(thread: str, name: object, **more: object) -> bytes:
    return json.dumps({"id": thread, "thread_name": name, **more}).encode() + b"\n"


def put(home: Path, *pieces: bytes) -> Path:
    (home / THREAD_NAMES_FILE).write_bytes(b"".join(pieces))
    return home


def rename(home: Path, thread: str, name: str | None, *, is_there: bool = True) -> str | None:
    return Names(home).write(thread, name, WHEN, is_there=lambda _: is_there)


# Reading


def test_the_last_line_for_an_id_wins(tmp_path: Path) -> None:
    put(tmp_path, line(ONE, "first"), line(TWO, "other"), line(ONE, "second", updated_at="1999"))
    assert read_names(tmp_path) == {ONE: "second", TWO: "other"}


def test_an_empty_name_takes_the_name_away(tmp_path: Path) -> None:
    assert read_names(put(tmp_path, line(ONE, "first"), line(TWO, "other"), line(ONE, " \t"))) == {TWO: "other"}


@pytest.mark.parametrize(
    "bad",
    [
        *(b"", b"\n\n", b"nothing\n", b"\xff\xfe\n", b"[]\n", b"{}\n", b"null\n", b'{"id":"x","thread_name":"y"}\n'),
        *(line(ONE, None), line(ONE, 5), line(ONE, ["x"]), b'{"thread_name":"y"}\n', b'{"id":7,"thread_name":"y"}\n'),
        b'{"id":"%s","thread_name":"\\ud800"}\n' % ONE.encode(),
        b'{"id":"%s","thread_name":"\xff"}\n' % ONE.encode(),
        *(b"[" * 100_000 + b"\n", b"x" * 70_000 + b"\n", line(ONE, "x" * 70_000), bytes(300_000) + b"\n"),
        line("../../" + ONE, "y"),
    ],
    ids=range(20),
)
def test_what_is_no_name_is_passed_over_and_what_stands_around_it_is_read(tmp_path: Path, bad: bytes) -> None:
    assert read_names(put(tmp_path, line(ONE, "before"), bad, line(TWO, "behind"))) == {ONE: "before", TWO: "behind"}


@pytest.mark.parametrize("cut", range(1, len(line(TWO, "torn")) - 1))
def test_a_torn_line_is_none_and_the_one_that_is_glued_behind_it_counts(tmp_path: Path, cut: int) -> None:
    torn = line(TWO, "torn")[:cut]
    assert read_names(put(tmp_path, line(ONE, "a"), torn)) == {ONE: "a"}
    assert read_names(put(tmp_path, line(ONE, "a"), torn, line(ONE, "b"))) == {ONE: "b"}
    assert read_names(put(tmp_path, line(ONE, "a"), torn, bytes(9), line(ONE, "c"))) == {ONE: "c"}


def test_a_last_line_without_its_end_counts_and_so_do_marks_spaces_and_foreign_keys(tmp_path: Path) -> None:
    data = line(ONE.upper(), "  a ", cwd={"x": [1]}, id2=ONE).replace(b"\n", b"\r\n")
    assert read_names(put(tmp_path, b"\xef\xbb\xbf", data, line(TWO, "b")[:-1])) == {ONE: "a", TWO: "b"}


def test_without_the_file_or_the_home_there_is_no_name(tmp_path: Path) -> None:
    assert read_names(tmp_path) == read_names(tmp_path / "missing") == read_names(tmp_path / "a" / "b") == {}
    assert Names(tmp_path).read().trouble is None


def test_a_folder_or_a_pipe_in_the_place_of_the_file_gives_no_name_and_says_why(tmp_path: Path) -> None:
    (tmp_path / THREAD_NAMES_FILE).mkdir()
    assert (read_names(tmp_path), Names(tmp_path).read().trouble) == ({}, "is a directory, not a rollout")
    (tmp_path / THREAD_NAMES_FILE).rmdir()
    os.mkfifo(tmp_path / THREAD_NAMES_FILE)
    assert (read_names(tmp_path), Names(tmp_path).read().trouble) == ({}, "is a FIFO, not a rollout")


def test_the_file_is_read_once_for_each_change_of_it(tmp_path: Path) -> None:
    opened = []

    class Counting(RealFileSystem):
        def open_read(self, path: str | os.PathLike[str]):  # type: ignore[no-untyped-def]  # as the real one
            opened.append(path)
            return super().open_read(path)

    fs = Counting()
    put(tmp_path, line(ONE, "a"))
    assert [read_names(tmp_path, fs)[ONE] for _ in range(3)] == ["a"] * 3
    assert len(opened) == 1
    Names(tmp_path, fs).write(ONE, "new", WHEN, is_there=lambda _: True)
    assert [read_names(tmp_path, fs)[ONE] for _ in range(3)] == ["new"] * 3
    assert len(opened) == 2
    (tmp_path / "new").write_bytes(line(ONE, "c"))
    (tmp_path / "new").replace(tmp_path / THREAD_NAMES_FILE)
    assert read_names(tmp_path, fs) == {ONE: "c"}


# Writing


def test_a_name_is_one_line_at_the_end_as_other_programs_write_it(tmp_path: Path) -> None:
    put(tmp_path, before := line(ONE, "theirs"))
    assert rename(tmp_path, TWO, "  grün \U0001f600 ") == "grün \U0001f600"
    data = (tmp_path / THREAD_NAMES_FILE).read_bytes()
    assert data.startswith(before)
    assert json.loads(data[len(before) :]) == {"id": TWO, "thread_name": "grün \U0001f600", "updated_at": WHEN}
    assert (data.count(b"\n"), data[-1:]) == (2, b"\n")
    assert rename(tmp_path, TWO, None) is None
    assert read_names(tmp_path) == {ONE: "theirs"}


def test_the_file_is_made_for_its_owner_alone_and_no_note_stays_beside_it(tmp_path: Path) -> None:
    rename(tmp_path, ONE, "new one")
    assert list(tmp_path.iterdir()) == [tmp_path / THREAD_NAMES_FILE]
    assert (tmp_path / THREAD_NAMES_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("tail", [b'{"id":"', line(TWO, "whole")[:-1], b"\0\0\0", b"\xff"])
def test_a_torn_end_of_somebody_else_gets_a_line_end_first(tmp_path: Path, tail: bytes) -> None:
    put(tmp_path, line(ONE, "a"), tail)
    rename(tmp_path, ONE, "b of mine")
    lines = (tmp_path / THREAD_NAMES_FILE).read_bytes().split(b"\n")
    assert lines[1] == tail
    assert json.loads(lines[2])["thread_name"] == "b of mine"
    assert read_names(tmp_path)[ONE] == "b of mine"


def test_a_name_that_another_thread_has_is_refused_while_that_is_there(tmp_path: Path) -> None:
    rename(tmp_path, ONE, "mine")
    before = (tmp_path / THREAD_NAMES_FILE).read_bytes()
    with pytest.raises(UsageError, match=f"'mine' is the name of thread {ONE}"):
        rename(tmp_path, TWO, "mine")
    assert (tmp_path / THREAD_NAMES_FILE).read_bytes() == before
    rename(tmp_path, ONE, "mine")
    rename(tmp_path, TWO, "Mine")
    assert rename(tmp_path, TWO, "mine", is_there=False) == "mine"


def test_a_file_that_is_a_link_or_none_at_all_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / THREAD_NAMES_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotARollout, match="symbolic link"):
        rename(tmp_path, ONE, "name")
    assert (tmp_path / "elsewhere").read_bytes() == b""
    (tmp_path / THREAD_NAMES_FILE).unlink()
    (tmp_path / THREAD_NAMES_FILE).mkdir()
    with pytest.raises(NotARollout, match="directory"):
        rename(tmp_path, ONE, "name")


def test_many_writers_at_once_lose_and_mix_no_name(tmp_path: Path) -> None:
    def write(n: int) -> None:
        for i in range(20):
            Names(tmp_path, RealFileSystem(tmp_path)).write(
                f"{ONE[:-2]}{n:02}", f"writer {n}, {i}", WHEN, is_there=lambda _: True
            )

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_names(tmp_path) == {f"{ONE[:-2]}{n:02}": f"writer {n}, 19" for n in range(8)}
    assert len([json.loads(line) for line in (tmp_path / THREAD_NAMES_FILE).read_bytes().splitlines()]) == 160


@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.SHORT])
def test_after_a_fault_the_next_name_goes_through_and_no_other_is_lost(effect: Effect) -> None:
    start = {f"/{THREAD_NAMES_FILE}": line(ONE, "a")}
    whole = SimulatedDisk(start)
    Names(Path("/"), whole).write(TWO, "t w o", WHEN, is_there=lambda _: True)
    for nth, kind in enumerate(whole.attempts):
        if effect is Effect.SHORT and kind is not OpKind.WRITE:
            continue
        disk = SimulatedDisk(start, faults=[Fault(nth, effect, written=9)])
        with pytest.raises(WriteError):
            Names(Path("/"), disk).write(TWO, "t w o", WHEN, is_there=lambda _: True)
        assert read_names(Path("/"), disk)[ONE] == "a"
        Names(Path("/"), disk).write(TWO, "again", WHEN, is_there=lambda _: True)
        assert read_names(Path("/"), disk) == {ONE: "a", TWO: "again"}


# Names that give way


def note(home: Path, thread: str, name: str) -> None:
    Names(home).note(thread, name, WHEN)


def test_a_noted_name_counts_while_no_other_thread_has_it(tmp_path: Path) -> None:
    note(tmp_path, ONE, "mine")
    assert read_names(tmp_path) == {ONE: "mine"}
    put(tmp_path, (tmp_path / THREAD_NAMES_FILE).read_bytes(), line(TWO, "mine"))  # as another program would
    assert read_names(tmp_path) == {TWO: "mine"}
    rename(tmp_path, TWO, "other")
    assert read_names(tmp_path) == {ONE: "mine", TWO: "other"}
    with pytest.raises(UsageError, match=f"'mine' is the name of thread {ONE}"):
        rename(tmp_path, TWO, "mine")
    rename(tmp_path, ONE, "given")
    note(tmp_path, TWO, "given")
    assert read_names(tmp_path) == {ONE: "given"}


def test_of_several_notes_of_one_name_the_newest_counts(tmp_path: Path) -> None:
    note(tmp_path, ONE, "mine")
    note(tmp_path, TWO, "mine")
    assert read_names(tmp_path) == {TWO: "mine"}
    note(tmp_path, ONE, "mine")
    assert read_names(tmp_path) == {ONE: "mine"}


@pytest.mark.parametrize("gives_way", [False, None, 1, "true", {}])
def test_only_what_says_so_gives_way(tmp_path: Path, gives_way: object) -> None:
    told = {"id": ONE, "thread_name": "mine", "updated_at": WHEN, "gives_way": gives_way}
    put(tmp_path, json.dumps(told).encode() + b"\n", line(TWO, "mine"))
    assert read_names(tmp_path) == {ONE: "mine", TWO: "mine"}


@pytest.mark.parametrize("name", ["", " mine", "mi\nne", "u\u0308ber", "-1", "a/b", ONE, "a\ud800"])
def test_what_would_not_be_kept_as_it_is_is_not_noted(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        note(tmp_path, ONE, name)
    assert not (tmp_path / THREAD_NAMES_FILE).exists()


def test_a_note_reads_a_byte_of_the_file_and_lists_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, *(line(f"{ONE[:-4]}{n:04}", f"name {n}") for n in range(1000)), b'{"id":')
    read, real = list[int](), os.pread

    def reading(fd: int, n: int, offset: int) -> bytes:
        read.append(n)
        return real(fd, n, offset)

    monkeypatch.setattr(os, "pread", reading)
    note(tmp_path, TWO, "mine")
    assert read == [1]
    assert len(read_names(tmp_path)) == 1000
    assert read_names(tmp_path)[TWO] == "mine"


# What can be a name


@pytest.mark.parametrize(
    "name", ["x", "fix the tests", "x" * NAME_CHARACTERS, "Ünï", "\U0001f469\u200d\U0001f4bb", "v1.2", "a~", "x.zst"]
)
def test_any_line_of_text_can_be_a_name(name: str) -> None:
    assert check_name(f" {name}\n") == name


def test_a_name_is_kept_in_one_form_of_its_letters() -> None:
    assert check_name("u\u0308ber") == "über"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "x" * (NAME_CHARACTERS + 1),
            "a\nb",
            "a\0b",
            "a\x1b[31mb",
            "a\x85b",
            "a\u2028b",
            "a\u202eb",
            "a\ud800b",
        ),
        *(
            "-1",
            "-",
            "--json",
            "a/b",
            "/",
            "..",
            ".",
            "a\\b",
            "x.jsonl",
            "x.jsonl.ZST",
            "session.jsonl.zst",
            "~",
            "~x",
            ".x",
        ),
        *("0", "cafe", "decade", "019d", ONE, ONE.upper(), ONE[:9], ONE[:20]),
    ],
)
def test_what_is_no_line_of_text_or_could_be_another_reference_can_be_no_name(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_name(name)
    assert "\n" not in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize("name", ["019d-", "cafe bar", "0x12", "2026-03-20", f"{ONE}0"])
def test_what_only_resembles_an_id_is_a_name(name: str) -> None:
    assert check_name(name) == name
