"""Repair: what is planned, done and refused, and that nothing is lost by it, whatever the damage."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import assume, given, settings

import rollout
from rollout.errors import Conflict, InUse, Locked, NotARollout, NotFound, UsageError, WriteError
from rollout.files.disk import REAL
from rollout.files.port import Holder
from rollout.files.recovery import mark_batch
from rollout.files.sealed.reader import MAGIC
from rollout.home.maintenance.repair import RepairPlan, RepairResult, apply_repair, plan_repair
from rollout.limits import Limits
from tests import strategies
from tests.builders import THREAD, assistant, bare_item, bare_meta, line, log, session_meta, user
from tests.builders import user_item as said

NAME = f"rollout-2026-03-20T10-00-00-{THREAD}.jsonl"
CHILD = "019d0000-0000-7000-8000-000000000002"
META, ONE, TWO = session_meta(), user("one"), assistant("two")
JUNK = b"\0 \t\r\n\xef\xbb\xbf"


def write(folder: Path, data: bytes, name: str = NAME) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def actions(plan: RepairPlan) -> list[tuple[str, int, int]]:
    return [(step.action, step.line, step.offset) for step in plan.steps]


def mend(path: Path) -> RepairResult:
    """Repairs, and sees to it that nothing is left to repair."""
    done = apply_repair(plan_repair(path))
    assert plan_repair(path).steps == ()
    return done


def kept(path: Path | None) -> list[tuple[int, bytes]]:
    assert path is not None
    found = [json.loads(row) for row in path.read_bytes().splitlines()]
    return [(piece["offset"], base64.b64decode(piece["base64"])) for piece in found]


def state_of(path: Path) -> dict[str, Any]:
    state = rollout.reconstruct(path)
    items = [state.history.raw(i).strip() for i in range(len(state.history))]
    turns = [(None if turn.derived else turn.id, turn.status, turn.stands, turn.item_count) for turn in state.all_turns]
    told = [state.previous_model, state.reference_context, state.world_state, state.token_usage, state.session]
    return {"items": items, "turns": turns, "told": told, "thread": state.thread_id}


def names(folder: Path) -> set[str]:
    return {path.name.removeprefix(NAME) for path in folder.iterdir()}


# What is planned and done


def test_a_file_that_needs_nothing_is_not_touched(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, ONE, b" " + TWO + b" ", bare_meta(), bare_item(said("q"))))
    before = path.stat()
    assert plan_repair(path).steps == ()
    assert apply_repair(plan_repair(path)) == RepairResult(path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns, names(tmp_path)) == (before.st_ino, before.st_mtime_ns, {""})


def test_an_empty_file_needs_nothing(tmp_path: Path) -> None:
    assert plan_repair(write(tmp_path, b"")).steps == ()


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    data = log(META, b"%%", ONE) + b'{"torn'
    path = write(tmp_path, data)
    assert actions(plan_repair(path)) == [("move", 2, len(META) + 1), ("cut", 4, len(log(META, b"%%", ONE)))]
    assert (path.read_bytes(), names(tmp_path)) == (data, {""})


def test_a_record_behind_a_torn_line_gets_a_line_and_the_torn_bytes_are_kept(tmp_path: Path) -> None:
    torn = ONE[:30]
    path = write(tmp_path, log(META, torn + TWO))
    at = len(META) + 1
    plan = plan_repair(path)
    assert actions(plan) == [("move", 2, at), ("separate", 2, at + len(torn))]
    done = apply_repair(plan)
    assert path.read_bytes() == log(META, TWO)
    assert kept(done.damaged) == [(at, torn)]
    assert done.backup is not None
    assert done.backup.read_bytes() == log(META, torn + TWO)
    assert names(tmp_path) == {"", ".damaged-1", ".backup-1"}


def test_records_in_one_line_get_one_each(tmp_path: Path) -> None:
    path = write(tmp_path, META + ONE + b"  " + TWO + b"\0\0" + ONE + b"\n")
    done = mend(path)
    assert path.read_bytes() == log(META, ONE, TWO, ONE)
    assert done.damaged is None


def test_what_says_nothing_is_dropped_and_no_file_of_damage_is_made(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + log(META + b"\r", b"", b"\0\0\0" + ONE, b" \r", b"\0", TWO + b"\r\r") + bytes(9)
    path = write(tmp_path, data)
    plan = plan_repair(path)
    assert {(step.action, step.reason, step.inside) for step in plan.steps} == {
        ("drop", "a byte-order mark", True),
        ("drop", "a carriage return before the line end", True),
        ("drop", "a blank line", True),
        ("drop", "NUL bytes", True),
        ("drop", "NUL bytes", False),
    }
    mend(path)
    assert path.read_bytes() == log(META, ONE, TWO)
    assert names(tmp_path) == {"", ".backup-1"}


def test_like_steps_in_neighbouring_lines_are_one(tmp_path: Path) -> None:
    path = write(tmp_path, log(*[ONE + b"\r"] * 500, TWO, ONE + b"\r"))
    first, second = plan_repair(path).steps
    assert (first.line, first.last_line, first.count, first.size_bytes) == (1, 500, 500, 500)
    assert (second.line, second.last_line, second.count, second.size_bytes) == (502, 502, 1, 1)


def test_records_keep_their_bytes_whatever_order_and_form_they_have(tmp_path: Path) -> None:
    odd = b'{ "payload" : {"z":1.50,"type":"x","n":12345678901234567890123} ,"type":"event_msg", "timestamp":"\\u0041"}'
    path = write(tmp_path, log(META, b"%%", odd, ONE + b"\0" + odd))
    mend(path)
    assert path.read_bytes() == log(META, odd, ONE, odd)


def test_bytes_that_are_no_text_are_kept_with_their_offsets(tmp_path: Path) -> None:
    bad = ONE[:-3] + b"\xff\xfe" + ONE[-3:]
    data = log(META, bad, b"\0" + bad + b"\0" + TWO)
    path = write(tmp_path, data)
    done = mend(path)
    assert kept(done.damaged) == [(len(META) + 1, bad), (len(log(META, bad)) + 1, bad)]
    assert path.read_bytes() == log(META, TWO)


def test_a_missing_session_meta_is_not_invented(tmp_path: Path) -> None:
    path = write(tmp_path, log(META[:40], ONE))
    mend(path)
    assert path.read_bytes() == log(ONE)


def test_the_end_alone_is_mended_in_place(tmp_path: Path) -> None:
    for data, left, beside in (
        (log(META) + ONE, log(META, ONE), {""}),
        (log(META) + ONE[:20], log(META), {"", ".torn-1"}),
        (log(META) + b"".join(mark_batch([log(ONE), log(TWO)])[:1]), log(META), {"", ".torn-1"}),
    ):
        with tempfile.TemporaryDirectory(dir=tmp_path) as name:
            path = write(Path(name), data)
            inode = path.stat().st_ino
            done = mend(path)
            assert (path.read_bytes(), path.stat().st_ino, names(Path(name))) == (left, inode, beside)
            assert done.torn is None or left + done.torn.read_bytes() == data


def test_end_and_inside_are_mended_together(tmp_path: Path) -> None:
    data = log(META, b"%%", ONE) + b'{"to\0rn'
    path = write(tmp_path, data)
    done = mend(path)
    assert path.read_bytes() == log(META, ONE)
    assert done.torn is not None
    assert done.backup is not None
    assert done.backup.read_bytes() + done.torn.read_bytes() == data


def test_a_record_of_a_batch_that_stands_goes_on_standing_when_what_is_behind_it_moves(tmp_path: Path) -> None:
    first, second = mark_batch([log(ONE), log(TWO)])
    path = write(tmp_path, log(META) + first + second.replace(b"two", b"\xff"))
    assert len(rollout.reconstruct(path).history) == 1
    plan = plan_repair(path)
    assert [step.action for step in plan.steps] == ["move", "unmark"]
    mend(path)
    assert path.read_bytes() == log(META, ONE)
    assert len(rollout.reconstruct(path).history) == 1


def test_a_whole_batch_keeps_its_marks(tmp_path: Path) -> None:
    batch = b"".join(mark_batch([log(ONE), log(TWO)]))
    for behind in (b"", log(ONE), batch):
        path = write(tmp_path, log(META, b"") + batch + log(b"") + behind)
        mend(path)
        assert path.read_bytes() == log(META) + batch + behind


def test_a_line_beyond_the_limit_stays_where_it_is(tmp_path: Path) -> None:
    small = Limits(line_bytes=400, chunk_bytes=64, first_chunk_bytes=64)
    long = user("x" * 900)
    for data, left in (
        (log(META, b"", long, b"", ONE), log(META, long, ONE)),
        (log(META) + long + bytes(300) + ONE + b"\n", log(META, long, ONE)),  # NULs beside it may stay with it
        (log(META, b"") + long, log(META, long)),
    ):
        path = write(tmp_path, data)
        apply_repair(plan_repair(path, limits=small))
        assert path.read_bytes().replace(b"\0", b"") == left
        assert plan_repair(path, limits=small).steps == ()


def test_long_runs_of_nul_bytes_are_dropped_in_any_chunk_size(tmp_path: Path) -> None:
    for chunk_bytes in (1, 7, 64, 4096):
        path = write(tmp_path, log(META, ONE + bytes(5000) + TWO, bytes(5000)) + bytes(5000) + ONE + bytes(99))
        limits = Limits(chunk_bytes=chunk_bytes, first_chunk_bytes=chunk_bytes)
        apply_repair(plan_repair(path, limits=limits))
        assert path.read_bytes() == log(META, ONE, TWO, ONE)


def test_the_files_beside_are_for_the_owner_only_and_numbered_as_a_pair(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"%%", ONE))
    write(tmp_path, b"mine", NAME + ".damaged-1")
    write(tmp_path, b"mine", NAME + ".backup-2")
    done = mend(path)
    assert done == RepairResult(path, None, tmp_path / f"{NAME}.damaged-3", tmp_path / f"{NAME}.backup-3")
    for made in (path, done.damaged, done.backup):
        assert made is not None
        assert made.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / f"{NAME}.damaged-1").read_bytes() == b"mine"


def test_a_name_may_hold_braces(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE), "a{0}{}.jsonl")
    assert mend(path).backup == tmp_path / "a{0}{}.jsonl.backup-1"


# What is refused


def test_bytes_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        plan_repair(log(META, b""))
    with pytest.raises(NotFound):
        plan_repair(tmp_path / "none.jsonl")
    with pytest.raises(NotARollout):
        plan_repair(tmp_path)
    link = tmp_path / "link.jsonl"
    link.symlink_to(write(tmp_path, log(META, b"")))
    with pytest.raises(NotARollout):
        plan_repair(link)


def test_a_file_of_another_kind_is_refused_and_not_emptied(tmp_path: Path) -> None:
    for data in (b"# Notes\n\nText.\n", b"text"):
        with pytest.raises(NotARollout):
            plan_repair(write(tmp_path, data, "notes.md"))


def test_a_sealed_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path, zstandard.compress(log(META, b"")), NAME + ".zst")
    with pytest.raises(WriteError, match=r"sealed.*unseal"):
        plan_repair(path)


def test_a_file_that_somebody_writes_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE))
    plan = plan_repair(path)
    file = REAL.open_append(path)
    file.lock(Holder(7, "here", "now"))
    with pytest.raises(Locked, match="process 7"):
        plan_repair(path)
    with pytest.raises(Locked):
        apply_repair(plan)
    file.close()
    apply_repair(plan)


def test_a_plan_for_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE))
    plan = plan_repair(path)
    path.write_bytes(log(META, b"", ONE, TWO))
    with pytest.raises(Conflict):
        apply_repair(plan)
    assert path.read_bytes() == log(META, b"", ONE, TWO)


def test_a_file_that_would_become_another_thread_is_not_replaced(tmp_path: Path) -> None:
    other = session_meta("019d0000-0000-7000-8000-00000000000b")
    data = log(META[:50], other, ONE)  # a copied fork: the meta of its source stands behind its own, which is lost
    path = write(tmp_path, data)
    with pytest.raises(WriteError, match="another thread id"):
        apply_repair(plan_repair(path))
    assert (path.read_bytes(), names(tmp_path)) == (data, {""})


def continue_from(data: bytes, end: int) -> bytes:
    base = {"thread_id": THREAD, "end_ordinal_exclusive": None, "end_byte_offset": end}
    assert data[:end].endswith(b"\n")
    return log(session_meta(CHILD, history_base=base), user("child"))


@pytest.mark.parametrize("where", [".", "../21", "../../../../archived_sessions"])
def test_a_fork_behind_the_first_inside_step_leaves_only_the_end_to_be_mended(tmp_path: Path, where: str) -> None:
    day = "sessions/2026/03/20/"
    text = log(META, b"%%", ONE)
    path = write(tmp_path, text + b'{"torn', day + NAME)
    child = write(path.parent / where, continue_from(text, len(text)), NAME.replace(THREAD, CHILD))
    before = state_of(child)
    plan = plan_repair(path)
    assert [Path(name).resolve() for name in plan.in_use] == [child.resolve()]
    with pytest.raises(InUse, match=CHILD):
        apply_repair(plan)
    assert path.read_bytes() == text
    assert state_of(child) == before
    assert len(before["items"]) == 2


def test_a_fork_ahead_of_the_first_inside_step_stands_against_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, ONE, b"%%", TWO))
    child = write(tmp_path, continue_from(path.read_bytes(), len(log(META, ONE))), NAME.replace(THREAD, CHILD))
    before = state_of(child)
    mend(path)
    assert path.read_bytes() == log(META, ONE, TWO)
    assert state_of(child) == before


def test_a_fork_of_another_file_of_the_thread_stands_against_nothing(tmp_path: Path) -> None:
    base = log(line("session_meta", {"id": THREAD}, ordinal=0), line("response_item", said("q"), ordinal=1))
    write(tmp_path, base)
    end = {"thread_id": THREAD, "end_ordinal_exclusive": 2, "end_byte_offset": len(base)}
    revert = session_meta(history_base=end)
    path = write(tmp_path, log(revert, b"%%" * len(base), ONE), NAME.replace(".jsonl", f"_{CHILD}.jsonl"))
    write(tmp_path, log(session_meta(CHILD, history_base=end)), NAME.replace(THREAD, CHILD))
    assert plan_repair(path).in_use == ()
    mend(path)
    assert len(rollout.reconstruct(path).history) == 2


def test_a_fork_whose_base_is_not_found_may_mean_this_file(tmp_path: Path) -> None:
    path = write(tmp_path, log(META, b"", ONE))
    base = {"thread_id": THREAD, "end_ordinal_exclusive": 9, "end_byte_offset": 9999}
    child = write(tmp_path, log(session_meta(CHILD, history_base=base)), NAME.replace(THREAD, CHILD))
    assert plan_repair(path).in_use == (str(child),)


# Any damage


@settings(max_examples=150)
@given(strategies.damaged_logs())
def test_any_damaged_log_says_the_same_after_its_repair_and_has_no_damage_left(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), data)
        before = state_of(path)
        done = mend(path)
        assert state_of(path) == before
        assert rollout.verify(path).damage == ()
        assert_nothing_is_lost(data, path, done)


def assert_nothing_is_lost(data: bytes, path: Path, done: RepairResult) -> None:
    """Record for record and piece for piece; what is neither says nothing."""
    torn = done.torn.read_bytes() if done.torn else b""
    text = done.backup.read_bytes() if done.backup else path.read_bytes()
    assert (text + torn).rstrip(b"\0\n") == data.rstrip(b"\0\n")
    left = bytearray(text)
    for offset, piece in kept(done.damaged) if done.damaged else []:
        assert text[offset : offset + len(piece)] == piece
        left[offset : offset + len(piece)] = bytes(len(piece))
    found = [record for record in rollout.records(path) if record.type != "blank"]
    at = 0
    for record in found:
        record_at = left.find(record.data.strip(), at)
        assert record_at >= 0
        assert not left[at:record_at].strip(JUNK)
        at = record_at + len(record.data.strip())
    assert not left[at:].strip(JUNK)


@given(strategies.hostile_bytes)
def test_any_bytes_are_repaired_so_that_nothing_is_left_to_repair(data: bytes) -> None:
    assume(not data.startswith(MAGIC))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), data)
        before = state_of(path)
        mend(path)
        assert state_of(path) == before
        assert rollout.verify(path).damage == ()
