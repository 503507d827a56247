"""Logs that are opened again: after every kind of end, after errors, beside another writer."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rollout
from rollout import OpenTurn, SessionLog, Store
from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.errors import Locked, NotFound, Poisoned, UsageError, WriteError
from rollout.files.port import Durability
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk
from tests.builders import assistant_item, user_item
from tests.sessions import a_log, a_store, context, die, interrupt, kinds, lines_of, take_turn, texts

ROOT = Path(__file__).parent.parent
CASES = ROOT / "fixtures" / "cases"


def leave_open(log: SessionLog) -> OpenTurn:
    turn = log.turn(context()).__enter__()
    turn.user("q")
    return turn  # held: a turn that nobody holds is closed


def leave_interrupted(log: SessionLog) -> None:
    with pytest.raises(ValueError, match="-"):
        interrupt(log, "q")


def leave_batch(log: SessionLog) -> None:
    with log.turn(context()) as turn:
        turn.append_all([user_item("q"), assistant_item("a"), assistant_item("b")])


def leave_tool_call_open(log: SessionLog) -> OpenTurn:
    turn = leave_open(log)
    log.record("response_item", {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "c"})
    return turn


ENDS: dict[str, Callable[[SessionLog], object]] = {
    "a new log": lambda log: None,
    "a turn": lambda log: take_turn(log, "q"),
    "an interrupted turn": leave_interrupted,
    "a turn without settings": lambda log: log.turn().__enter__().__exit__(None, None, None),
    "an open turn": leave_open,
    "an open call": leave_tool_call_open,
    "a batch": leave_batch,
    "a compaction": lambda log: log.compact([user_item("s")], "s"),
    "a rollback": lambda log: (take_turn(log, "q"), take_turn(log, "r"), log.rollback(1)),
    "a record between turns": lambda log: (take_turn(log, "q"), log.record("future", 7)),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("torn", [b"", b'{"timestamp":"2026', b"\0\0\0", b"garbage"])
def test_a_log_goes_on_after_every_kind_of_end(store: Store, end: str, torn: bytes) -> None:
    log = a_log(store)
    take_turn(log, "before")
    held = ENDS[end](log)
    wanted = texts(log.resume_state())
    die(log)
    del held
    with log.path.open("ab") as file:
        file.write(torn)
    was_open = end.startswith("an open")
    with store.open(log.id) as again:
        assert again.id == log.id
        state = again.resume_state()
        assert texts(state) == [*wanted, *[ABORTED_TEXT] * was_open]
        assert state.turns[-1].status == ("interrupted" if was_open or "interrupted" in end else "completed")
        assert again.durable_end == again.end
        take_turn(again, "after")
        assert texts(again.resume_state())[-2:] == ["after", "answer to after"]
    before = log.path.read_bytes()
    store.open(log.path).close()
    assert log.path.read_bytes() == before
    assert rollout.verify(log.path).damage == ()


def test_a_turn_that_a_crash_left_open_is_closed_with_its_id(store: Store) -> None:
    log = a_log(store)
    turn = log.turn(context()).__enter__()
    turn.user("q")
    die(log)
    with store.open(-1) as again:
        *_, told, aborted = lines_of(again.path)
        assert told["payload"] == user_item(ABORTED_TEXT)
        assert aborted["payload"] == {"type": "turn_aborted", "turn_id": turn.id, "reason": "interrupted"}


def test_a_record_that_lacks_its_line_end_is_kept_when_the_log_is_opened(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-1])
    with store.open(log.path) as again:
        assert again.recovered is not None
        assert again.recovered.newline
        assert again.kept is None
    assert log.path.read_bytes() == whole


def test_a_batch_that_a_crash_cut_short_is_not_there_at_any_byte(store: Store) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        turn.user("q")
        begin = log.end
        turn.append_all([user_item("one"), {"type": "custom"}, user_item("two")])
        end = log.end
        data = log.path.read_bytes()
    for cut in range(begin, end - 1, 11):  # the newline alone may be missing
        log.path.write_bytes(data[:cut])
        assert texts(rollout.reconstruct(log.path)) == ["q"]
        with store.open(log.path) as again:
            assert texts(again.resume_state()) == ["q", ABORTED_TEXT]
            if again.kept is not None:
                Path(again.kept).unlink()


def test_ids_are_unique_over_openings_even_with_the_same_clock(store: Store) -> None:
    with a_log(store) as log:
        ids = [take_turn(log, "q")]
    for seed in range(1, 4):
        with a_store(store.home, seed=seed).open(log.path) as again:
            ids.append(take_turn(again, "q"))
    assert len({*ids}) == 4


@pytest.mark.parametrize("case", ["p169_plain3", "p169_interrupt_first", "o117_tools", "hp_no_turn_context"])
def test_a_log_of_another_program_goes_on_with_its_ordinals_if_it_has_some(tmp_path: Path, case: str) -> None:
    path = tmp_path / "rollout-2026-03-20T10-00-00-019d0000-0000-7000-8000-000000000001.jsonl"
    shutil.copy(CASES / case / "rollout.jsonl", path)
    before = lines_of(path)
    wanted = texts(rollout.reconstruct(path))
    with rollout.open_log(path) as log:
        take_turn(log, "more")
        with log.turn(context()) as turn:
            turn.append_all([user_item("a"), user_item("b")])
        assert texts(log.resume_state()) == [*wanted, "more", "answer to more", "a", "b"]
    ordinals = [line.get("ordinal") for line in lines_of(path)[len(before) :]]
    first = before[-1].get("ordinal")
    assert ordinals == [None if first is None else first + n for n in range(1, len(ordinals) + 1)]


def test_a_log_of_2025_without_any_envelope_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(
        b'{"id":"019d0000-0000-7000-8000-000000000001","timestamp":"t","instructions":null}\n'
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}\n'
    )
    with rollout.open_log(path) as log:
        assert log.id == "019d0000-0000-7000-8000-000000000001"
        take_turn(log, "r")
        assert texts(log.resume_state()) == ["q", "r", "answer to r"]


def test_a_log_that_is_open_to_read_is_not_written(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        with store.open(log.id, "read") as reader:
            assert reader.end == log.end
            take_turn(log, "r")
            assert reader.end == log.end
            assert texts(reader.resume_state()) == ["q", "answer to q", "r", "answer to r"]
            for refused in (reader.turn, reader.commit, lambda: reader.record("x", 1), lambda: reader.compact([])):
                with pytest.raises(UsageError, match="open to read"):
                    refused()


def test_what_is_not_there_or_not_to_be_written_is_not_opened(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        store.open("0123")
    with pytest.raises(NotFound):
        rollout.open_log(tmp_path / "no.jsonl")
    with a_log(store) as log:
        pass
    with pytest.raises(UsageError, match="no mode"):
        store.open(log.id, "w")  # type: ignore[arg-type]  # that is the point
    shutil.copy(next((CASES / "hp_zst").rglob("*.zst")), tmp_path / "said plain.jsonl")
    packed = (tmp_path / "said plain.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"sealed, but its name does not end in \.jsonl\.zst"):
        rollout.open_log(tmp_path / "said plain.jsonl")
    assert (tmp_path / "said plain.jsonl").read_bytes() == packed


def test_a_second_writer_fails_and_is_told_who_writes(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
        with pytest.raises(Locked, match=r"another writer holds it \(process \d+ on .* since 2026-03-20T10:00:02"):
            store.open(log.id)
        program = (
            "import sys, rollout\ntry:\n rollout.open_log(sys.argv[1])\nexcept rollout.errors.Locked as e:\n print(e)"
        )
        said = subprocess.run(
            [sys.executable, "-c", program, str(log.path)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert "another writer holds it (process" in said.stdout
        take_turn(log, "r")
    store.open(log.id).close()


def on_disk(faults: list[Fault], durability: Durability = Durability.TURN) -> tuple[SimulatedDisk, Store]:
    disk = SimulatedDisk(faults=faults)
    return disk, a_store("/home/u/.rollout", fs=disk)


@pytest.mark.parametrize("effect", [Effect.FAIL, Effect.SHORT])
@pytest.mark.parametrize("kind", [OpKind.WRITE, OpKind.SYNC])
def test_after_a_failed_write_or_sync_all_is_refused_until_the_log_is_opened_again(
    kind: OpKind, effect: Effect
) -> None:
    if kind is OpKind.SYNC and effect is Effect.SHORT:
        effect = Effect.FAIL
    written = 9 if effect is Effect.SHORT else 0
    _, store = on_disk([Fault(6 if kind is OpKind.WRITE else 2, effect, kind, errno.ENOSPC, written)])
    log = a_log(store)
    take_turn(log, "q1")
    good = log.durable_end
    with pytest.raises(WriteError) as failed:
        take_turn(log, "q2")
    assert failed.value.durable_end == good
    if kind is OpKind.WRITE:
        assert failed.value.__notes__ == [
            "the turn could not be closed as interrupted: "
            + str(
                Poisoned("an earlier write failed", path=log.path, remedy=f"the first {good} bytes are on the disk; ")
            )
            + "reopen to recover"
        ]
    for late in (
        log.commit,
        lambda: log.record("x", 1),
        lambda: log.rollback(1),
        lambda: take_turn(log, "r"),
        log.fork,
    ):
        with pytest.raises(Poisoned, match=f"the first {good} bytes are on the disk; reopen to recover"):
            late()
    log.close()
    with store.open(log.path) as again:
        state = again.resume_state()
        assert texts(state)[:2] == ["q1", "answer to q1"]
        take_turn(again, "q3")
        assert texts(again.resume_state())[-2:] == ["q3", "answer to q3"]


@pytest.mark.parametrize(
    ("durability", "at_records", "at_turns"),
    [(Durability.RECORD, True, True), (Durability.TURN, False, True), (Durability.NONE, False, False)],
)
def test_what_is_on_the_disk_when_is_what_was_asked_for(
    durability: Durability, at_records: bool, at_turns: bool
) -> None:
    _, store = on_disk([])
    log = a_log(store, durability)
    assert (log.durable_end == log.end) is at_turns
    with log.turn(context()) as turn:
        steps: list[Callable[[], int]] = [
            lambda: turn.user("q"),
            lambda: turn.append(assistant_item("a")),
            lambda: turn.event("x"),
        ]
        for step in steps:
            step()
            assert (log.durable_end == log.end) is at_records
        assert turn.commit() == log.durable_end == log.end
        turn.user("r")
    assert (log.durable_end == log.end) is at_turns
    log.record("x", 1)
    assert (log.durable_end == log.end) is at_records
    log.rollback(1)
    assert (log.durable_end == log.end) is at_turns
    assert log.commit() == log.end == log.durable_end
    log.close()


def test_every_file_of_a_session_can_live_on_another_file_system() -> None:
    disk, store = on_disk([])
    log = a_log(store)
    take_turn(log, "q")
    with log.fork(copy=True) as child:
        take_turn(child, "r")
        assert texts(child.resume_state()) == ["q", "answer to q", "r", "answer to r"]
    with log.fork() as child:
        take_turn(child, "r")
    log.close()
    assert sum(data is not None for data in disk.tree().values()) == 3
    assert not Path("/home/u/.rollout").exists()


def test_the_kinds_of_lines_of_a_session_are_in_the_order_of_its_life(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q")
    assert kinds(log.path) == [
        "session_meta",
        *("task_started", "turn_context", "response_item", "user_message"),
        *("agent_message", "response_item", "task_complete"),
    ]
