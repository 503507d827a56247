"""A home full of rollouts: which file an id, the beginning of one, a position or a path names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rollout.errors import Ambiguous, NotFound, UsageError
from rollout.files.layout import default_home, find_thread, heads, home_of, position, resolve, scan
from rollout.files.source import find, locate
from rollout.files.thread_names import Names
from rollout.ids import ThreadId

ONE = "019d0000-0000-7000-8000-000000000001"
TWO = "019d0000-0000-7000-8000-000000000002"
OTHER = "11111111-0000-7000-8000-000000000001"
PART = "019e0000-0000-7000-8000-000000000009"


def put(
    home: Path, thread: str, day: int = 20, *, part: str = "", archived: bool = False, sealed: bool = False
) -> Path:
    """An empty rollout of a day in March."""
    folder = home / "archived_sessions" if archived else home / "sessions" / "2026" / "03" / f"{day:02}"
    folder.mkdir(parents=True, exist_ok=True)
    end = f"{'_' if part else ''}{part}.jsonl{'.zst' if sealed else ''}"
    path = folder / f"rollout-2026-03-{day:02}T10-00-00-{thread}{end}"
    path.touch()
    return path


def names(home: Path) -> list[str]:
    return sorted(entry.path.name for entry in scan(home))


# Ids and their beginnings


def test_an_id_names_its_file_in_any_case_and_with_space_around(tmp_path: Path) -> None:
    path = put(tmp_path, OTHER)
    put(tmp_path, ONE)
    assert resolve(tmp_path, OTHER) == path
    assert resolve(tmp_path, f" {OTHER.upper()}\n") == path


@pytest.mark.parametrize("beginning", ["1", "1111", OTHER[:-1]])
def test_the_beginning_of_an_id_that_no_other_has_names_its_file(tmp_path: Path, beginning: str) -> None:
    path = put(tmp_path, OTHER)
    put(tmp_path, ONE)
    assert resolve(tmp_path, beginning) == path


def test_a_beginning_of_more_than_one_id_is_ambiguous_and_says_of_which(tmp_path: Path) -> None:
    put(tmp_path, ONE)
    put(tmp_path, TWO, archived=True)
    with pytest.raises(Ambiguous) as caught:
        resolve(tmp_path, "019d")
    assert ONE in str(caught.value)
    assert TWO in str(caught.value)
    assert "give more of the id" in str(caught.value)


def test_of_many_ids_the_message_names_a_few(tmp_path: Path) -> None:
    for n in range(9):
        put(tmp_path, f"{ONE[:-1]}{n}")
    with pytest.raises(Ambiguous) as caught:
        resolve(tmp_path, "019d")
    assert "9 thread ids" in str(caught.value)
    assert str(caught.value).count("019d0000-") == 4


@pytest.mark.parametrize("reference", ["2", "zz", "", " ", "%", "019d.*", f"{ONE}0", "--1", "+1", "-1x", "- 1"])
def test_what_begins_no_id_is_not_found_and_says_what_to_give(tmp_path: Path, reference: str) -> None:
    put(tmp_path, ONE)
    with pytest.raises(NotFound) as caught:
        resolve(tmp_path, reference)
    assert "-1 for the newest" in str(caught.value)
    assert "\n" not in str(caught.value)


# Positions


def test_positions_count_threads_from_the_newest(tmp_path: Path) -> None:
    paths = [put(tmp_path, thread, day) for day, thread in enumerate((TWO, OTHER, ONE), 1)]
    assert [resolve(tmp_path, f"-{n}") for n in (1, 2, 3)] == paths[::-1]


def test_a_position_beyond_the_sessions_says_how_many_there_are(tmp_path: Path) -> None:
    put(tmp_path, ONE)
    for reference in ("-2", "-9", "-0", "-" + "9" * 30):
        with pytest.raises(NotFound, match="has 1 session; give -1 to -1"):
            resolve(tmp_path, reference)


def test_archived_threads_have_ids_and_no_position(tmp_path: Path) -> None:
    archived = put(tmp_path, OTHER, 25, archived=True)
    path = put(tmp_path, ONE)
    assert resolve(tmp_path, "-1") == path
    assert resolve(tmp_path, OTHER) == archived
    with pytest.raises(NotFound):
        resolve(tmp_path, "-2")


def test_a_home_without_sessions_says_so(tmp_path: Path) -> None:
    for home in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFound, match=f"{home}: holds no sessions; set ROLLOUT_HOME or give a path"):
            resolve(home, "-1")
        assert list(scan(home)) == []


@pytest.mark.parametrize(
    ("text", "n"),
    [
        *(("-1", 1), ("-20", 20), ("-007", 7), ("-0", 0), ("-" + "9" * 99, 10**9 - 1)),
        *((text, None) for text in ("1", "-", "-1a", "--1", "-1\n", "-1_0", "- 1", "")),
        *((f"-{digit}", None) for digit in ("\uff11", "\u0661", "\u0967", "\u00b2", "\U0001d7cf")),  # digits to `int`
    ],
)
def test_a_position_is_a_minus_and_ascii_digits(text: str, n: int | None) -> None:
    assert position(text) == n


# Several files of a thread


def test_a_thread_goes_on_in_its_newest_file(tmp_path: Path) -> None:
    first = put(tmp_path, ONE, 1)
    revert = put(tmp_path, ONE, 3, part=PART)
    put(tmp_path, TWO, 2)
    assert resolve(tmp_path, ONE) == revert
    assert resolve(tmp_path, "-1") == revert
    assert [entry.path for entry in find_thread(tmp_path, ONE)] == [revert, first]
    assert len(heads(tmp_path, archived=True)) == 2


def test_of_two_files_of_one_second_the_revert_is_the_newer(tmp_path: Path) -> None:
    put(tmp_path, ONE, 1)
    revert = put(tmp_path, ONE, 1, part=PART)
    assert resolve(tmp_path, ONE) == revert


def test_of_a_plain_file_and_its_sealed_twin_the_plain_one_counts(tmp_path: Path) -> None:
    sealed = put(tmp_path, ONE, sealed=True)
    assert resolve(tmp_path, ONE) == sealed
    plain = put(tmp_path, ONE)
    assert resolve(tmp_path, ONE) == plain
    assert names(tmp_path) == [plain.name]


def test_an_entry_tells_what_its_name_says(tmp_path: Path) -> None:
    path = put(tmp_path, ONE, part=PART, sealed=True)
    (entry,) = scan(tmp_path)
    told = (entry.path, entry.thread, entry.time, entry.parts.part, entry.sealed, entry.archived)
    assert told == (path, ThreadId(ONE), "2026-03-20T10-00-00", PART, True, False)


def test_the_ids_of_a_name_are_told_in_small_letters(tmp_path: Path) -> None:
    path = put(tmp_path, ONE.upper(), part=PART.upper())
    (entry,) = scan(tmp_path)
    assert (entry.path, entry.thread, entry.parts.part, entry.parts.file) == (path, ThreadId(ONE), PART, PART)
    assert resolve(tmp_path, ONE) == path


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_copies_of_a_file_the_one_that_is_not_archived_counts(tmp_path: Path, reverse: bool) -> None:
    for archived in sorted([False, True], reverse=reverse):
        path = put(tmp_path, ONE, archived=archived)
    path = put(tmp_path, ONE)
    assert resolve(tmp_path, ONE) == path == find_thread(tmp_path, ONE)[0].path


# What is passed over


@pytest.mark.parametrize(
    "name",
    [
        "session.jsonl",
        f"rollout-{ONE}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE}.json",
        f"rollout-2026-03-20T10-00-00-{ONE}.jsonl.gz",
        f"rollout-2026-03-20T10-00-00-{ONE}.jsonl.torn-1",
        f"rollout-2026-03-20T10-00-00-{ONE}.jsonl\n",
        f"rollout-2026-03-20T10-00-00-{ONE[:-1]}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE}_.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE}_{TWO}_{OTHER}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE}-{TWO}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE.replace('-', '')}.jsonl",
        f"rollout-2026-03-20t10-00-00-{ONE}.jsonl",
        f"rollout-\uff12026-03-20T10-00-00-{ONE}.jsonl",
        f"rollout-2026-03-20T10-00-00-{ONE}.JSONL",
        f"arollout-2026-03-20T10-00-00-{ONE}.jsonl",
        "rollout-\udcff.jsonl",
    ],
)
def test_a_file_of_another_name_is_no_rollout(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, TWO)
    (path.parent / name).touch()
    assert names(tmp_path) == [path.name]


def test_only_the_known_places_are_looked_at(tmp_path: Path) -> None:
    path = put(tmp_path, ONE)
    for folder in (tmp_path, tmp_path / "other", path.parent / "deeper", tmp_path / "archived_sessions" / "deeper"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name.replace(ONE, TWO)).touch()
    assert names(tmp_path) == [path.name]


def test_no_symbolic_link_is_followed_below_the_home(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", OTHER)
    home = tmp_path / "home"
    path = put(home, ONE)
    (path.parent / path.name.replace(ONE, TWO)).symlink_to(outside)
    (path.parent.parent / "21").symlink_to(outside.parent)
    (home / "sessions" / "2027").symlink_to(tmp_path / "outside" / "sessions" / "2026")
    assert names(home) == [path.name]


def test_a_folder_or_a_pipe_under_the_name_of_a_rollout_is_passed_over(tmp_path: Path) -> None:
    path = put(tmp_path, ONE)
    (path.parent / path.name.replace(ONE, TWO)).mkdir()
    os.mkfifo(path.parent / path.name.replace(ONE, OTHER))
    assert names(tmp_path) == [path.name]


def test_a_file_where_a_folder_should_be_is_passed_over(tmp_path: Path) -> None:
    path = put(tmp_path, ONE)
    (tmp_path / "sessions" / "2027").touch()
    (tmp_path / "archived_sessions").touch()
    assert names(tmp_path) == [path.name]


# Which home


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"ROLLOUT_HOME": "/a", "CODEX_HOME": "/b"}, Path("/a")),
        ({"CODEX_HOME": "/b"}, Path("/b")),
        ({"ROLLOUT_HOME": "", "CODEX_HOME": "/b"}, Path("/b")),
        ({"ROLLOUT_HOME": "~/x"}, Path.home() / "x"),
        ({}, Path.home() / ".codex"),
    ],
)
def test_the_home_is_named_by_the_environment(environ: dict[str, str], home: Path) -> None:
    assert default_home(environ) == home


def test_the_home_of_a_file_is_above_its_sessions(tmp_path: Path) -> None:
    assert home_of(put(tmp_path, ONE)) == tmp_path
    assert home_of(put(tmp_path, ONE, archived=True)) == tmp_path
    assert home_of(Path("/elsewhere/rollout.jsonl")) is None


def test_bases_of_a_file_in_no_home_are_looked_for_in_the_default_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLOUT_HOME", str(tmp_path / "home"))
    (tmp_path / "a.jsonl").touch()
    assert find(tmp_path / "a.jsonl").home == tmp_path / "home"
    assert find(tmp_path / "a.jsonl", home=tmp_path).home == tmp_path


# What a word names: a position, an id, a name, a path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a session named `notes`, next to the current directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    home = tmp_path / "home"
    put(home, ONE)
    Names(home).write(ONE, "notes", "2026-03-20T10:00:00Z", is_there=lambda thread: True)
    return home


@pytest.mark.parametrize("word", [ONE, ONE.upper(), "019d", "-1", "notes", "NOTES", " notes "])
def test_a_word_is_a_position_an_id_or_a_name_before_it_is_a_file(word: str, here: Path) -> None:
    session = locate(ONE, here)
    for make in (Path.touch, Path.unlink, Path.mkdir, Path.rmdir, lambda path: path.symlink_to("nowhere")):
        make(Path(word))
        assert locate(word, here) == session
        if os.path.lexists(word):
            assert locate(f"./{word}", here).name == word
            assert locate(Path(word), here) == Path(word).absolute()


def test_a_word_that_names_no_session_is_the_file_of_that_name(here: Path) -> None:
    for word in ("other", "019e", "a note", "notes2"):
        with pytest.raises(NotFound, match="no thread here has that name or an id that begins so"):
            locate(word, here)
        Path(word).touch()
        assert locate(word, here) == Path(word).absolute()
    Path("-9").touch()
    with pytest.raises(NotFound, match="-9 is not there: the home has 1 session; give -1 to -1"):
        locate("-9", here)
    assert locate("./-9", here) == Path("-9").absolute()


def test_where_a_word_fits_several_sessions_and_a_file_it_says_how_to_name_either(here: Path) -> None:
    put(here, TWO)
    Path("019d").touch()
    with pytest.raises(Ambiguous, match=r"give more of the id, or \./019d for the file"):
        locate("019d", here)


@pytest.mark.parametrize("text", ["a/b", "./a", ".a", "~a", "a.jsonl", "a.JSONL", "a.jsonl.zst", "a\\b"])
def test_what_looks_like_a_path_is_one_and_else_exactly_the_name_that_another_program_gave(
    text: str, here: Path
) -> None:
    line = {"id": TWO, "thread_name": text, "updated_at": "2026-03-20T10:00:00Z"}
    (here / "session_index.jsonl").write_text(json.dumps(line) + "\n")
    session = put(here, TWO)
    assert locate(text, here) == session
    with pytest.raises(NotFound, match="no such file"):
        locate(text.replace("a", "b"), here)
    Path(text).parent.mkdir(exist_ok=True)
    Path(text).touch()
    assert locate(text, here).samefile(text)


def test_a_tilde_is_the_home_of_the_user_unless_a_file_is_named_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here.parent))
    session = locate(ONE, here)
    assert locate(f"~/home/{session.relative_to(here)}", here) == session
    with pytest.raises(NotFound):
        locate("~nobody-is-named-so/x", here)
    Path("~").mkdir()
    Path("~/x").touch()
    assert locate("~/x", here).samefile(Path("~/x"))


def test_what_a_reference_names_is_named_by_its_path_as_a_text_too(here: Path) -> None:
    for word in ("notes", "other", "x.jsonl", "-1"):
        Path(word).touch()
        for source in (Path(word), f"./{word}"):
            assert locate(str(locate(source, here)), here).samefile(word)


@pytest.mark.parametrize("text", ["a/b", "./a", "missing.jsonl", "missing.jsonl.zst", "/", f"x/{ONE}"])
def test_a_text_that_looks_like_a_path_is_never_taken_for_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text == "/":
        assert locate(text, tmp_path) == Path("/")
        return
    with pytest.raises(NotFound, match="no such file; check the path") as caught:
        locate(text, tmp_path)
    assert caught.value.path == text


def test_a_path_object_is_always_a_path(tmp_path: Path) -> None:
    put(tmp_path, ONE)
    assert locate(Path(ONE), tmp_path) == Path(ONE).absolute()


@pytest.mark.parametrize("source", ["", "a\0b", True, None, 1.5, object(), 0, 7])
def test_what_can_never_name_a_rollout_is_a_usage_error(tmp_path: Path, source: str) -> None:
    with pytest.raises(UsageError):
        locate(source, tmp_path)


def test_a_number_that_is_no_position_names_nothing_though_an_id_begins_so(tmp_path: Path) -> None:
    path = put(tmp_path, OTHER)
    for number in (11111111, 1, 0):
        with pytest.raises(UsageError, match="give -1 for the newest, or an id as text"):
            locate(number, tmp_path)
    assert locate("11111111", tmp_path) == path
