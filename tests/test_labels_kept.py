"""Labels that are kept when a log is opened again, forked or crashed; how they are read, and filtered by."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from rollout import Label, Store
from rollout.dialects.codex import envelope as codec
from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.files.port import Durability
from rollout.format.labels import UNLABELLED, label_of
from tests import builders as b
from tests import strategies as logs
from tests.builders import assistant_item, user_item
from tests.labelled import CALL, fill, ids, make, tags
from tests.sessions import context, die, kinds, lines_of, texts

CASES = Path(__file__).parent.parent / "fixtures" / "cases"


# Kept: opened again, forked, crashed


def test_the_label_of_a_log_is_there_when_it_is_opened_again(store: Store) -> None:
    with make(store, session_id="s", tags={"a": "1"}) as log:
        pass
    with rollout.open_log(log.path) as again:
        assert again.label == Label(log.label.session_id, {"a": "1"})
        again.event("x")
    with store.open(log.id, session_id="t", tags={"b": "2"}) as again:
        again.event("x")
    with store.open(log.id, mode="read") as again:
        assert again.label == log.label
    assert ids(log) == ["s", "s", "t"]
    assert tags(log) == [{"a": "1"}, {"a": "1"}, {"a": "1", "b": "2"}]


def test_a_turn_that_a_crash_left_open_is_closed_with_its_label(store: Store) -> None:
    for given_id, expected in (("t", "t"), (None, "s")):
        log = make(store, session_id="s")
        turn = log.turn(context(), session_id=given_id)
        turn.__enter__()
        turn.user("q")
        die(log)
        with store.open(log.id) as again:
            again.event("x")
        assert kinds(log.path)[-3:] == ["response_item", "turn_aborted", "x"]
        assert ids(log)[-3:] == [expected, expected, "s"]


def test_a_turn_that_a_foreign_line_labels_by_tags_alone_is_closed(store: Store) -> None:
    with make(store, session_id="s") as log:
        pass
    with log.path.open("ab") as file:
        file.write(b.line("event_msg", {"type": "task_started", "turn_id": "t"}, tags={"session_id": "u"}) + b"\n")
    with store.open(log.id):
        pass
    assert ids(log) == ["s", "u", "u", "u"]


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("mode", ["append", "read"])
def test_a_fork_has_the_label_of_its_source(store: Store, copy: bool, mode: Any) -> None:
    with make(store, session_id="s", tags={"a": "1"}) as log:
        fill(log, session_id="t")
    with store.open(log.path, mode) as source, source.fork(copy=copy) as child:
        child.event("x")
        grandchild = child.fork(copy=copy, tags={"b": "2"})
        with grandchild, rollout.label("z"), grandchild.fork(session_id="y") as last:
            pass
    with store.open(child.id, "read") as again:
        assert again.label == child.label == log.label
    assert ids(child)[0] == ids(child)[-1] == "s"
    assert tags(grandchild)[0] == {"a": "1", "b": "2"}
    assert ids(last)[0] == "y"
    if copy:
        assert ids(child)[2:-1] == ids(log)[1:]


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_in_the_middle_of_a_turn_closes_it_with_its_label(store: Store, copy: bool) -> None:
    with make(store, session_id="s") as log, log.turn(context(), session_id="t") as turn:
        turn.user("q")
        with log.fork(copy=copy) as child:
            child.event("x")
    assert kinds(child.path)[-3:] == ["response_item", "turn_aborted", "x"]
    assert ids(child)[-3:] == ["t", "t", "s"]
    assert texts(rollout.reconstruct(child.path)) == ["q", ABORTED_TEXT]


def test_a_fork_that_is_made_to_stand_alone_keeps_every_label(store: Store) -> None:
    with make(store, session_id="s", tags={"a": "1"}) as log:
        fill(log, session_id="t")
        with log.fork(tags={"b": "2"}) as child:
            child.event("x")
    store.detach(child.id)
    assert ids(child) == ["s", *ids(log), "s"]
    assert tags(child)[0] == tags(child)[-1] == {"a": "1", "b": "2"}
    with store.open(child.id) as again:
        assert again.label == child.label


def test_a_file_with_ordinals_goes_on_with_ordinals_and_a_label(tmp_path: Path, store: Store) -> None:
    case = next(path for path in sorted(CASES.iterdir()) if path.name.startswith("p169_"))
    shutil.copytree(case, tmp_path / "case")
    path = tmp_path / "case" / json.loads((case / "expected.json").read_bytes())["rollout"]
    old = rollout.reconstruct(path).history
    with rollout.open_log(path, session_id="s") as log, log.turn(context()) as turn:
        turn.user("labelled")
    new = lines_of(path)[-4:]
    assert [line["session_id"] for line in new] == ["s"] * 4
    assert [line["ordinal"] - new[0]["ordinal"] for line in new] == [0, 1, 2, 3]
    assert [*new[0]] == ["timestamp", "ordinal", "session_id", "type", "payload"]
    assert list(rollout.reconstruct(path).history)[:-1] == list(old)
    assert [note for note in rollout.verify(path).notes if note.kind in ("label", "ordinal")] == []


def test_a_batch_is_labelled_and_a_crash_in_it_leaves_none_of_it(store: Store) -> None:
    log = make(store, session_id="s", tags={"batch": "[1,2]"}, durability=Durability.NONE)
    with log.turn(context()) as turn:
        turn.append(CALL)
        before = log.end
        end = turn.append_all([CALL, user_item("b"), assistant_item("c")])
    assert ids(log)[4:8] == ["s"] * 4
    assert [line["batch"] for line in lines_of(log.path)[4:8]] == [[n, 4] for n in range(1, 5)]
    log.close()
    whole = log.path.read_bytes()
    for cut in range(before, end):
        log.path.write_bytes(whole[:cut])
        log.path.with_name(f"{log.path.name}.torn-1").unlink(missing_ok=True)
        if cut in (before, before + 1, end - 30, end - 2):
            with store.open(log.id):
                pass
            assert texts(rollout.reconstruct(log.path)) == [ABORTED_TEXT]
            assert {*ids(log)} == {"s"}
        elif cut < end - 1:
            assert texts(rollout.reconstruct(log.path)) == []


# Read and filtered


def test_a_turn_has_the_label_of_the_record_that_opened_it(store: Store) -> None:
    with make(store) as log:
        fill(log, session_id="t", tags={"a": "1"})
        with log.turn():
            pass
    turns = rollout.turns(log.path)
    assert [turn.session_id for turn in turns] == ["t", "t", None]
    assert [turn.tags for turn in turns] == [{"a": "1"}, {"a": "1"}, {}]
    assert {*turns} >= {*rollout.reconstruct(log.path).turns}


def test_an_implicit_turn_has_the_label_of_its_users_message() -> None:
    data = b.log(b.session_meta(), b.line("response_item", user_item("q"), session_id="q"), b.item("reasoning"))
    assert [turn.session_id for turn in rollout.turns(data)] == ["q"]


def test_each_item_of_an_older_file_has_the_label_of_its_own_line() -> None:
    said = [b.line("response_item", user_item(name), session_id=name) for name in ("a", "b")]
    data = b.log(b.session_meta(), *said)
    history = rollout.reconstruct(data).history
    assert [history.label(i).session_id for i in range(2)] == ["a", "b"]
    assert [record.session_id for record in rollout.records(data)] == [None, "a", "b"]


def test_items_that_a_compaction_put_into_the_history_have_no_label(store: Store) -> None:
    with make(store, session_id="s") as log:
        log.compact([user_item("c")])
        with log.turn(context()) as turn:
            turn.user("q")
    history = rollout.reconstruct(log.path).history
    assert [history.label(i).session_id for i in range(2)] == [None, "s"]


def said_by(author: str) -> dict[str, Any]:
    return {"author": author, "recipient": "y", "content": "go", "trigger_turn": True}


def test_an_instruction_from_another_agent_has_the_label_of_its_line() -> None:
    said = b.line("inter_agent_communication", said_by("x"), session_id="s")
    data = b.log(b.session_meta(), said)
    state = rollout.reconstruct(data)
    assert state.history.label(0).session_id == state.turns[0].items.label(0).session_id == "s"
    assert state.history == state.turns[0].items
    assert state.history[0]["content"] == [{"type": "input_text", "text": "go"}]


def test_bad_labels_of_foreign_lines_are_notes_and_nothing_else() -> None:
    bad: list[dict[str, Any]] = [{"session_id": "a b"}, {"session_id": 7}, {"tags": [1]}, {"tags": {"a": {"b": [[]]}}}]
    bad.append({"session_id": "s", "tags": {"session_id": "t"}})
    data = b.log(b.session_meta(), *(b.line("response_item", user_item(str(n)), **keys) for n, keys in enumerate(bad)))
    report = rollout.verify(data)
    assert report.ok
    assert report.damaged_lines == 0
    assert [(note.line, note.kind) for note in report.notes] == [(n + 2, "label") for n in range(len(bad))]
    state = rollout.reconstruct(data)
    assert texts(state) == ["0", "1", "2", "3", "4"]
    assert not state.damage
    assert [state.history.label(i).session_id for i in range(5)] == [None] * 4 + ["s"]
    assert [record.tags for record in rollout.records(data)] == [{}] * 6


def test_none_of_the_recorded_files_has_a_label_or_a_note_about_one() -> None:
    for path in sorted(CASES.glob("*/**/*.jsonl")):
        assert not any(record.label for record in rollout.records(path))
        assert not [note for note in rollout.verify(path).notes if note.kind == "label"]


def labelled_lines(lines: list[bytes], given_labels: Iterator[Label]) -> Iterator[bytes]:
    """Each line that has an envelope with a label in it."""
    for line in lines:
        envelope = codec.decode_plain(line)
        has_envelope = envelope is not None and b'"payload"' in line
        yield b"{%b%b" % (next(given_labels).envelope, line[1:]) if has_envelope else line


SOME_LABELS = st.sampled_from([UNLABELLED, *(Label(None, {"timestamp": text}) for text in ("", '"}'))]) | st.builds(
    lambda tags: Label(None, tags), st.dictionaries(st.sampled_from(["a", "payload", "type"]), st.text(), max_size=2)
)


@settings(max_examples=120)
@given(
    st.one_of(logs.well_formed_lines(), logs.any_lines()), st.lists(SOME_LABELS, min_size=1), st.sampled_from(["", "s"])
)
def test_labels_never_change_a_state(lines: list[bytes], given_labels: list[Label], session_id: str) -> None:
    every = (
        Label(rollout.check_session_id(session_id) if session_id else None, label.tags)
        for label in given_labels * (len(lines) + 1)
    )
    plain, other = b.log(*lines), b.log(*labelled_lines(lines, every))
    one, two = rollout.reconstruct(plain), rollout.reconstruct(other)
    assert [one.history.raw(i) for i in range(len(one.history))] == [
        two.history.raw(i) for i in range(len(two.history))
    ]
    for name in ("previous_model", "reference", "world_state", "token_usage", "session", "records_decoded"):
        assert getattr(one, name) == getattr(two, name)
    assert [(t.status, t.stands, t.model, t.user, t.item_count, t.plans) for t in one.all_turns] == [
        (t.status, t.stands, t.model, t.user, t.item_count, t.plans) for t in two.all_turns
    ]
    kinds_of = [(line.status, line.by, line.line) for line in rollout.explain(plain)]
    assert [(line.status, line.by, line.line) for line in rollout.explain(other)] == kinds_of
    assert [r.label for r in rollout.records(other) if r.data] == [
        label_of(r.data) for r in rollout.records(other) if r.data
    ]
