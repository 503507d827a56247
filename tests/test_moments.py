"""Time travel: the state at a moment is what the rules make of the bytes before it, and of nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import SessionLog, State, Store, at_line, at_ordinal
from rollout.errors import Ambiguous, NotFound, UsageError
from rollout.limits import Limits
from tests import builders as b
from tests import strategies as logs
from tests.enciphering import a_cipher, enciphered, told
from tests.reference import fold
from tests.sessions import a_log, context, lines_of, take_turn, texts
from tests.test_reconstruct_properties import chunks

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
any_bytes = st.one_of(logs.well_formed_logs(3), logs.any_logs(10), logs.damaged_logs(8))


def line_ends(data: bytes) -> list[int]:
    return [i + 1 for i, byte in enumerate(data) if byte == 0x0A]


def assert_is_fold_of(state: State, prefix: bytes) -> None:
    expected = fold(prefix)
    assert state.end == len(prefix)
    assert list(state.history) == expected.history
    assert (state.previous_model, state.reference_context) == (expected.previous_model, expected.reference_context)
    assert (state.world_state, state.token_usage) == (expected.world_state, expected.token_usage)
    assert (state.session, state.base_instructions) == (expected.session, expected.base_instructions)
    assert [(turn.id if not turn.derived else None, turn.status) for turn in state.turns] == [
        (turn.id, turn.status) for turn in expected.standing_turns
    ]


@settings(max_examples=30)
@given(any_bytes, chunks)
def test_the_state_at_a_line_is_that_of_the_lines_up_to_it(data: bytes, limits: Limits) -> None:
    ends = line_ends(data)
    for number, end in enumerate(ends, 1):
        assert_is_fold_of(rollout.reconstruct(data, at=at_line(number), limits=limits), data[:end])
    if ends and ends[-1] < len(data):
        assert_is_fold_of(rollout.reconstruct(data, at=at_line(len(ends) + 1), limits=limits), data)
    beyond = len(ends) + (not data.endswith(b"\n") and data != b"") + 1
    with pytest.raises(NotFound, match=f"there is no line {beyond}"):
        rollout.reconstruct(data, at=at_line(beyond), limits=limits)


@settings(max_examples=30)
@given(any_bytes, chunks)
def test_the_state_at_a_byte_is_that_of_the_bytes_up_to_it(data: bytes, limits: Limits) -> None:
    for end in line_ends(data):
        assert_is_fold_of(rollout.reconstruct(data, at=end, limits=limits), data[:end])
        told = [(turn.offset, turn.stands) for turn in rollout.turns(data, at=end, limits=limits)]
        assert told == [(turn.place.offset, turn.stands) for turn in fold(data[:end]).turns]


@settings(max_examples=40)
@given(logs.well_formed_logs(4), chunks)
def test_the_state_at_a_turn_is_that_of_a_log_in_which_nothing_came_after_it(data: bytes, limits: Limits) -> None:
    newest = {turn.id: turn for turn in rollout.turns(data, limits=limits)}
    for name, turn in newest.items():
        state = rollout.reconstruct(data, at=name, limits=limits)
        assert_is_fold_of(state, data[: state.end])
        last = fold(data[: state.end]).turns[-1]
        assert (last.id or name, last.place.offset) == (name, turn.offset)
        assert state.all_turns[-1].id == name


@settings(max_examples=30)
@given(logs.well_formed_lines(2))
def test_the_state_at_an_ordinal_is_that_of_the_lines_up_to_it(drawn: list[bytes]) -> None:
    enveloped = [line for line in drawn if b'"payload":' in line]  # the 2025 format knows no ordinals
    numbered = [b'{"ordinal":%d,' % n + line[1:].replace(b'"ordinal":3,', b"") for n, line in enumerate(enveloped, 40)]
    data = b.log(*numbered)
    for number, end in enumerate(line_ends(data), 40):
        assert_is_fold_of(rollout.reconstruct(data, at=at_ordinal(number)), data[:end])
    for wrong in (39, 40 + len(numbered), -1):
        with pytest.raises(NotFound, match=f"no line has ordinal {wrong}"):
            rollout.reconstruct(data, at=at_ordinal(wrong))


def turn(name: str, *lines: bytes) -> list[bytes]:
    return [b.started(name), b.context(name, f"model of {name}"), *lines, b.completed(name)]


SESSION = b.log(
    b.session_meta(),
    *turn("first-1", b.user("q1"), b.assistant("a1")),
    *turn("second-2", b.user("q2"), b.compacted([b.user_item("summary")]), b.assistant("a2")),
    b.rolled_back(2),
    *turn("third-3", b.user("q3"), b.assistant("a3")),
)


def test_a_turn_that_was_rolled_back_later_can_be_gone_back_to() -> None:
    said = {at: texts(rollout.reconstruct(SESSION, at=at)) for at in ("first-1", "second-2", "third-3")}
    assert said == {"first-1": ["q1", "a1"], "second-2": ["summary", "a2"], "third-3": ["q3", "a3"]}
    assert [found.stands for found in rollout.turns(SESSION, at="second-2")] == [True, True]
    assert [found.stands for found in rollout.turns(SESSION)] == [False, False, True]
    assert rollout.reconstruct(SESSION, at="first-1").previous_model == "model of first-1"


def test_a_turn_is_named_by_its_unique_beginning_or_by_the_end_that_a_narrow_terminal_shows() -> None:
    for name in ("sec", "second-2", "-2", "…ond-2"):
        assert texts(rollout.reconstruct(SESSION, at=name)) == ["summary", "a2"]
    data = b.log(*turn("ab", b.user("one")), *turn("abc", b.user("two")), *turn("abd", b.user("three")))
    assert texts(rollout.reconstruct(data, at="ab")) == ["one"]
    data = b.log(*turn("abc", b.user("two")), *turn("abd", b.user("three")))
    with pytest.raises(Ambiguous, match="2 turns fit 'ab'; give more of the id: abc, abd"):
        rollout.reconstruct(data, at="ab")


def test_of_several_turns_with_one_id_the_newest_is_meant() -> None:
    data = b.log(*turn("t", b.user("one")), *turn("t", b.user("two")), *turn("u", b.user("three")))
    assert texts(rollout.reconstruct(data, at="t")) == ["one", "two"]


def test_a_moment_that_is_not_there_is_an_error_that_says_what_to_try(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(SESSION)
    first = SESSION.index(b"\n") + 1
    wrong: list[tuple[Any, type[rollout.RolloutError], str]] = [
        ("none", NotFound, "there is no turn none; `rollout turns --all` lists"),
        ("", UsageError, "an empty turn id; give a turn id"),
        (at_line(0), NotFound, "there is no line 0; give a number from 1 on"),
        (at_line(99), NotFound, f"there is no line 99; give a number from 1 to {len(line_ends(SESSION))}"),
        (first + 5, UsageError, rf"no line ends there \(at byte {first + 5}\); .*: {first} or "),
        (0, UsageError, f"no line ends there .*: {first}"),
        (len(SESSION) + 1, UsageError, f"no line ends there .*: {len(SESSION)}"),
        (-1, UsageError, "no line ends there"),
        (True, UsageError, "True is no point of a log"),
        (1.5, UsageError, "1.5 is no point of a log"),
    ]
    for at, error, words in wrong:
        with pytest.raises(error, match=words) as raised:
            rollout.reconstruct(path, at=at)
        assert raised.value.path == str(path) or type(at) in {bool, float}


def test_the_end_of_the_file_is_a_moment_even_if_no_line_ends_there() -> None:
    torn = SESSION + b'{"timestamp":"2026'
    state = rollout.reconstruct(torn, at=len(torn))
    assert (texts(state), len(state.damage)) == (["q3", "a3"], 1)
    assert rollout.reconstruct(torn, at=len(SESSION)).damage == ()


def test_a_session_meta_that_comes_later_is_not_known_before() -> None:
    data = b.log(b.user("q"), b.session_meta(cwd="/later"))
    assert rollout.reconstruct(data, at=at_line(1)).session is None
    found = rollout.reconstruct(data, at=at_line(2)).session
    assert found is not None
    assert found["cwd"] == "/later"


def a_fork_of_a_fork(store: Store) -> tuple[list[SessionLog], list[str]]:
    log = a_log(store)
    turns = [take_turn(log, "q0"), take_turn(log, "q1", context("m2"))]
    child = log.fork()
    turns.append(take_turn(child, "q2"))
    grandchild = child.fork()
    turns.append(take_turn(grandchild, "q3"))
    take_turn(log, "elsewhere")
    for each in (log, child, grandchild):
        each.close()
    return [log, child, grandchild], turns


def test_a_moment_in_a_base_is_one_of_that_file(store: Store) -> None:
    files, turns = a_fork_of_a_fork(store)
    for n, (name, owner) in enumerate(zip(turns, (0, 0, 1, 2), strict=True)):
        state = rollout.reconstruct(files[-1].path, at=name)
        assert texts(state) == [text for k in range(n + 1) for text in (f"q{k}", f"answer to q{k}")]
        assert (state.path, state.thread_id) == (files[owner].path, files[owner].id)
        assert [found.id for found in state.turns] == turns[: n + 1]
        assert [found.id for found in rollout.turns(files[-1].path, at=name)] == turns[: n + 1]
    first = rollout.reconstruct(files[-1].path, at=at_line(1))
    assert texts(first) == texts(rollout.reconstruct(files[1].path))


def test_a_log_of_ordinals_is_gone_back_through_into_its_bases(tmp_path: Path) -> None:
    shutil.copytree(CASES / "p169_fork_of_fork", tmp_path / "home")
    newest = max((tmp_path / "home").rglob("rollout-*.jsonl"))
    last = lines_of(newest)[-1]["ordinal"]
    sizes = [len(rollout.reconstruct(newest, at=at_ordinal(n)).history) for n in range(0, last + 1, 5)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert len(rollout.reconstruct(newest, at=at_ordinal(last)).history) == len(rollout.reconstruct(newest).history)


def test_a_sealed_log_is_gone_back_in_as_a_plain_one(store: Store) -> None:
    log = a_log(store)
    turns = [take_turn(log, "q0"), take_turn(log, "q1")]
    log.close()
    wanted = [(texts(state), state.end) for state in (rollout.reconstruct(log.path, at=at) for at in turns)]
    sealed = store.seal(log.id).path
    assert [(texts(state), state.end) for state in (rollout.reconstruct(sealed, at=at) for at in turns)] == wanted
    assert texts(rollout.reconstruct(sealed, at=wanted[0][1])) == wanted[0][0]


def test_a_fork_is_taken_behind_a_line_and_at_the_beginning_of_an_id(store: Store) -> None:
    with a_log(store) as log:
        ends = [take_turn(log, f"q{n}") for n in range(2)]
        with log.fork(at=at_line(4)) as child:
            assert texts(child.resume_state()) == texts(rollout.reconstruct(log.path, at=at_line(4)))
        shared = next(n for n, pair in enumerate(zip(*ends, strict=True)) if len(set(pair)) > 1)
        with log.fork(at=ends[0][: shared + 1]) as child:
            assert texts(child.resume_state()) == ["q0", "answer to q0"]


def test_a_fork_at_a_turn_whose_last_line_has_no_end_says_so(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-03-20T10-00-00-019d0000-0000-7000-8000-000000000001.jsonl"
    path.write_bytes(SESSION[:-1])
    with store.open(path, "read") as log:
        with pytest.raises(UsageError, match="its last line has no end"):
            log.fork(at="third-3")
        with log.fork(at="third-3", copy=True) as child:
            assert texts(child.resume_state()) == ["q3", "a3"]


def test_an_encrypted_log_is_gone_back_in_as_a_plain_one(tmp_path: Path) -> None:
    cipher = a_cipher()
    lines = SESSION[:-1].split(b"\n")
    path = tmp_path / f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
    path.write_bytes(enciphered(lines, cipher))
    ends = line_ends(path.read_bytes())
    for number in range(1, len(lines) + 1):
        plain = rollout.reconstruct(SESSION, at=at_line(number))
        for at in (at_line(number), ends[number - 1]):
            state = rollout.reconstruct(path, at=at, cipher=cipher)
            assert told(state) == told(plain)
            assert state.damage == ()
    assert texts(rollout.reconstruct(path, at="second-2", cipher=cipher)) == ["summary", "a2"]
    states = [rollout.reconstruct(path, at=at, cipher=cipher) for at in ("first-1", at_line(13))]
    found = rollout.diff(*states)
    assert (found.relation, len(found.gone), len(found.added)) == ("later", 2, 0)
