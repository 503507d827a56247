"""Writing a session: what stands in the file, what comes back, what is refused."""

from __future__ import annotations

import asyncio
import json
import stat
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import rollout
from rollout import Store
from rollout.dialects.codex import encoder
from rollout.dialects.codex.encoder import ABORTED_TEXT
from rollout.errors import Closed, Conflict, RecordError, UsageError
from rollout.files.lineage import holds_record
from rollout.format import strict_json
from tests.builders import assistant_item, user_item
from tests.sessions import DAY, a_log, context, interrupt, kinds, lines_of, take_turn, texts


def test_a_new_log_lies_in_its_home_by_its_day_and_is_for_its_owner_alone(store: Store) -> None:
    with store.create(cwd="/p", model_provider="mock", base_instructions="Be careful.", git={"branch": "b"}) as log:
        assert log.path == store.home / DAY / f"rollout-2026-03-20T10-00-02-{log.id}.jsonl"
        (line,) = lines_of(log.path)
        assert list(line) == ["timestamp", "type", "payload"]
        assert line["type"] == "session_meta"
        assert list(line["payload"].items()) == [
            ("id", log.id),
            ("timestamp", line["timestamp"]),
            ("cwd", "/p"),
            ("originator", "rollout"),
            ("cli_version", "0.1.0"),
            ("source", "cli"),
            ("model_provider", "mock"),
            ("base_instructions", {"text": "Be careful."}),
            ("git", {"branch": "b"}),
        ]
        assert uuid.UUID(log.id).version == 7
        assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
        assert log.durable_end == log.end == log.path.stat().st_size


def test_a_turn_is_written_as_the_programs_write_it(store: Store) -> None:
    with a_log(store) as log:
        begin = log.end
        with log.turn(context(), model_context_window=9) as turn:
            turn.user("q", images=["data:image/png;base64,AA"])
            turn.append(assistant_item("a"))
    written = log.path.read_bytes()[begin:].decode()
    for n in range(4, 8):  # the time of each write
        written = written.replace(f"2026-03-20T10:00:02.{n:03d}Z", "T")
    written = written.replace("2026-03-20T10:00:02.008Z", "T").replace(turn.id, "ID")
    user = '{"type":"input_text","text":"q"},{"type":"input_image","image_url":"data:image/png;base64,AA"}'
    assert written.splitlines() == [
        '{"timestamp":"T","type":"event_msg","payload":{"type":"task_started","turn_id":"ID","model_context_window":9,'
        '"collaboration_mode_kind":"default"}}',
        '{"timestamp":"T","type":"turn_context","payload":{"turn_id":"ID","cwd":"/p","approval_policy":"never",'
        '"model":"m1"}}',
        '{"timestamp":"T","type":"response_item","payload":{"type":"message","role":"user","content":[' + user + "]}}",
        '{"timestamp":"T","type":"event_msg","payload":{"type":"user_message","message":"q",'
        '"images":["data:image/png;base64,AA"],"local_images":[],"text_elements":[]}}',
        '{"timestamp":"T","type":"event_msg","payload":{"type":"agent_message","message":"a","phase":null,'
        '"memory_citation":null}}',
        '{"timestamp":"T","type":"response_item","payload":{"type":"message","role":"assistant","content":'
        '[{"type":"output_text","text":"a"}]}}',
        '{"timestamp":"T","type":"event_msg","payload":{"type":"task_complete","turn_id":"ID",'
        '"last_agent_message":"a"}}',
    ]


def test_what_is_read_back_is_what_was_written(store: Store) -> None:
    with a_log(store) as log:
        first = take_turn(log, "q1")
        second = take_turn(log, "q2", context("m2", effort="high"))
        state = log.resume_state()
    assert texts(state) == ["q1", "answer to q1", "q2", "answer to q2"]
    assert state.previous_model == "m2"
    assert state.reference_context == {"turn_id": second, **context("m2", effort="high")}
    assert [(turn.id, turn.status) for turn in state.turns] == [(first, "completed"), (second, "completed")]
    again = rollout.reconstruct(log.path)
    assert (again.history, again.previous_model, again.damage) == (state.history, "m2", ())
    assert rollout.verify(log.path).damage == ()


@pytest.mark.parametrize(
    "given",
    [
        b'{"type":"reasoning","n":12345678901234567890123,"f":1.10,"e":1e999,"z":-0.0,"summary":[]}',
        b'{ "role" : "assistant", "type":"message" ,"content":[],"content":[] }',
        '{"type":"custom","text":"\\u00e9é\\ud83d\\ude00\\/ \u2028"}'.encode(),
        b'{"type":"deep","a":' + b"[" * 126 + b"]" * 126 + b"}",
        b'{"type":"long number","n":' + b"7" * 5000 + b"}",
    ],
)
def test_json_in_bytes_goes_in_and_comes_out_byte_for_byte(store: Store, given: bytes) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        turn.user("q")
        turn.append(b"  " + given + b"\n")
        turn.append_all([memoryview(given), bytearray(given)])
        state = log.resume_state()
        assert [state.history.raw(i) for i in (1, 2, 3)] == [given] * 3


def test_no_part_of_a_line_is_taken_for_a_record_wherever_a_crash_cuts_it(store: Store) -> None:
    record = {"timestamp": "t", "type": "response_item", "payload": {"type": "message", "role": "user", "content": []}}
    with a_log(store) as log:
        begin = log.record("note", {"seen": record})
        end = log.record("note", [record, json.dumps(record)])
    data = log.path.read_bytes()
    assert strict_json.decode_value(data[begin:end])["payload"] == [record, json.dumps(record)]
    assert not any(holds_record(data[begin:cut]) for cut in range(begin, end - 1))


def test_values_are_written_exactly_and_from_one_log_to_another_without_change(store: Store) -> None:
    item = {"type": "custom", "n": 12345678901234567890123, "f": 0.1, "none": None, "é\u2028": ["\x00\x1f", (), True]}
    with a_log(store) as log, log.turn(context()) as turn:
        turn.user("q")
        turn.append(item)
        assert log.resume_state().history[1] == {**item, "é\u2028": ["\x00\x1f", [], True]}
        turn.append(b'{"type":"custom","n":1e999}')
        turn.compact(log.resume_state().history, context=None)
        assert log.resume_state().history.raw(2) == b'{"type":"custom","n":1e999}'


BAD_ITEMS: list[Any] = [
    b"",
    b"{",
    b'{"type":"x"} {}',
    b'{"type":"x",\n"a":1}',
    b'{"type":"x","a":NaN}',
    b'{"type":"x","a":"\xff"}',
    b'{"type":"x","a":"\x01"}',
    b'["type"]',
    b'{"a":1}',
    b'{"type":1}',
    b'{"type":"message","role":7}',
    b'{"type":"x","a":' + b"[" * 127 + b"]" * 127 + b"}",
    {"a": 1},
    {"type": "x", "a": float("nan")},
    {"type": "x", "a": [float("inf")]},
    {"type": "x", "a": {1: 2}},
    {"type": "x", "a": b"x"},
    {"type": "x", "a": {1, 2}},
    {"type": "x", "a": uuid.UUID(int=1)},
    {"type": "x", "a": 10**5000},
    {"type": "message", "role": 7},
    {"type": "message", "role": "user", "content": "no part"},
    {"type": "function_call_output", "call_id": "c", "output": None},
    {"type": "image_generation_call", "id": "i", "status": "completed", "result": None},
    [],
    "text",
    None,
]


@pytest.mark.parametrize("item", BAD_ITEMS)
def test_what_is_no_item_is_refused_before_a_byte_is_written(store: Store, item: Any) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        end = turn.append(user_item("q"))
        for refused in (
            turn.append,
            lambda bad: turn.append_all([user_item("r"), bad]),
            lambda bad: turn.compact([bad]),
            lambda bad: log.record("response_item", bad),
        ):
            with pytest.raises(RecordError):
                refused(item)
        assert log.end == end == log.path.stat().st_size
        turn.append(user_item("s"))


def test_a_value_that_holds_itself_is_refused(store: Store) -> None:
    loop: dict[str, Any] = {"type": "x"}
    loop["a"] = loop
    with a_log(store) as log, pytest.raises(RecordError, match="not JSON"), log.turn(context()) as turn:
        turn.append(loop)


def test_settings_that_are_none_are_refused(store: Store) -> None:
    with a_log(store) as log:
        end = log.end
        for wrong in ({"cwd": "/p"}, {"model": 7}, {"model": "m", "x": {1}}):
            with pytest.raises(RecordError):
                log.turn(wrong)
        assert log.end == end


def test_plans_are_taken_out_of_what_the_assistant_says(store: Store) -> None:
    said = "First:\n<proposed_plan>\n- a\n</proposed_plan>\nthen\n<proposed_plan>\n- b\n</proposed_plan>\n"
    with a_log(store) as log:
        with log.turn(context()) as turn:
            turn.append(assistant_item(said))
            turn.append(assistant_item("<proposed_plan>\n- c\n</proposed_plan>"))
        payloads = [line["payload"] for line in lines_of(log.path)]
        plans = [payload["item"] for payload in payloads if payload.get("type") == "item_completed"]
        assert [plan["text"] for plan in plans] == ["- a\n", "- b\n", "- c\n"]
        assert [plan["id"] for plan in plans] == [f"{turn.id}-plan", f"{turn.id}-plan-2", f"{turn.id}-plan-3"]
        assert [p["message"] for p in payloads if p.get("type") == "agent_message"] == ["First:\nthen\n"]
        assert payloads[-1]["last_agent_message"] == "First:\nthen\n"
        assert texts(log.resume_state())[0] == said


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_an_exception_interrupts_its_turn_and_goes_on(store: Store, kind: type[BaseException]) -> None:
    with a_log(store) as log:
        with pytest.raises(kind) as raised:
            interrupt(log, "q", by=kind)
        *_, told, aborted = lines_of(log.path)
        assert told["payload"] == user_item(ABORTED_TEXT)
        assert aborted["payload"] == {"type": "turn_aborted", "turn_id": raised.value.args[0], "reason": "interrupted"}
        state = log.resume_state()
        assert texts(state) == ["q", ABORTED_TEXT]
        assert state.turns[-1].status == "interrupted"
        assert log.durable_end == log.end
        take_turn(log, "r")


def test_a_turn_can_be_ended_for_another_reason_which_the_model_is_not_told(store: Store) -> None:
    with a_log(store) as log:
        with log.turn(context()) as turn:
            turn.user("q")
            turn.abort("replaced")
            with pytest.raises(Closed):
                turn.user("r")
        assert kinds(log.path)[-1] == "turn_aborted"
        assert texts(log.resume_state()) == ["q"]
        with log.turn(context()) as turn, pytest.raises(UsageError, match="no reason"):
            turn.abort("tired")


def test_only_one_turn_is_open_and_it_is_entered_once(store: Store) -> None:
    with a_log(store) as log:
        unopened = log.turn(context())
        with pytest.raises(Closed, match="use it in a with block"):
            unopened.user("q")
        with log.turn(context()) as turn:
            for refused in (unopened.__enter__, lambda: log.compact([]), lambda: log.rollback(1)):
                with pytest.raises(UsageError, match="while a turn is open"):
                    refused()
        with pytest.raises(UsageError, match="entered before"):
            turn.__enter__()
        with pytest.raises(Closed):
            turn.append(user_item("late"))
        assert kinds(log.path)[1:] == ["task_started", "turn_context", "task_complete"]


def test_a_log_that_is_closed_in_a_turn_interrupts_it(store: Store) -> None:
    log = a_log(store)
    turn = log.turn(context()).__enter__()
    turn.user("q")
    log.close()
    log.close()
    assert kinds(log.path)[-1] == "turn_aborted"
    for late in (lambda: turn.user("r"), log.commit, lambda: log.record("x", 1), log.fork, lambda: log.rollback(1)):
        with pytest.raises(Closed):
            late()
    assert texts(log.resume_state()) == ["q", ABORTED_TEXT]


def test_a_manual_compaction_is_a_turn_of_its_own_without_settings(store: Store) -> None:
    with a_log(store) as log:
        take_turn(log, "q1")
        begin = len(kinds(log.path))
        log.compact([user_item("summary")], "summary")
        assert kinds(log.path)[begin:] == ["task_started", "compacted", "context_compacted", "task_complete"]
        state = log.resume_state()
        assert (texts(state), state.previous_model, state.reference_context) == (["summary"], "m1", None)
        assert log.durable_end == log.end
        log.rollback(1)
        assert texts(log.resume_state()) == []


@pytest.mark.parametrize("again", [True, False])
def test_a_compaction_in_a_turn_writes_the_settings_again_unless_told_not_to(store: Store, again: bool) -> None:
    with a_log(store) as log:
        with log.turn(context()) as turn:
            turn.user("q")
            if again:
                turn.compact([user_item("summary")], "summary")
            else:
                turn.compact([user_item("summary")], "summary", context=None)
            turn.append(assistant_item("a"))
        wanted = ["compacted", *["turn_context"] * again, "context_compacted"]
        assert kinds(log.path)[5 : 5 + len(wanted)] == wanted
        state = log.resume_state()
        assert texts(state) == ["summary", "a"]
        assert (state.reference_context is not None) is again


def test_a_compaction_in_a_turn_can_bring_other_settings(store: Store) -> None:
    with a_log(store) as log, log.turn(context("m1")) as turn:
        turn.user("q")
        turn.compact([user_item("summary")], context=context("m2"))
        state = log.resume_state()
        assert state.reference_context == {"turn_id": turn.id, **context("m2")}
        assert state.previous_model == "m1"


def test_a_rollback_only_appends_and_takes_back_the_newest_turns(store: Store) -> None:
    with a_log(store) as log:
        for question in ("q1", "q2", "q3"):
            take_turn(log, question, context(f"m-{question}"))
        before = log.path.read_bytes()
        log.rollback(2)
        assert log.path.read_bytes().startswith(before)
        state = log.resume_state()
        assert (texts(state), state.previous_model) == (["q1", "answer to q1"], "m-q1")
        for wrong in (0, -1, True, 1.0, "1", 1 << 32):
            with pytest.raises(UsageError, match="rolled back"):
                log.rollback(wrong)  # type: ignore[arg-type]  # that is the point


def test_records_of_any_vocabulary_go_in_and_those_with_a_method_do_not(store: Store) -> None:
    with a_log(store) as log:
        begin = log.end
        log.record("of the future", [1, {"a": None}])
        log.record("world_state", {"full": True, "state": {"a": 1}})
        log.event("token_count", info={"total_token_usage": {"total_tokens": 7}})
        log.event("custom", {"turn_id": "x"}, type_2=1)
        with log.turn() as turn:
            turn.event("agent_reasoning", text="hm")
        assert [json.loads(line)["type"] for line in log.path.read_bytes()[begin:].splitlines()][:4] == [
            "of the future",
            "world_state",
            "event_msg",
            "event_msg",
        ]
        state = log.resume_state()
        assert state.world_state == {"a": 1}
        assert state.token_usage == {"total_tokens": 7}
        end = log.end
        refused: list[tuple[str, Any]] = [
            *((kind, {"model": "m"}) for kind in ("session_meta", "turn_context", "compacted")),
            *(("event_msg", {"type": kind}) for kind in ("task_started", "turn_aborted", "thread_rolled_back")),
            ("event_msg", {}),
            ("event_msg", []),
            ("event_msg", {"type": 1}),
            *(("world_state", wrong) for wrong in ({}, {"full": 1, "state": {}}, {"full": True, "state": []})),
            ("response_item", {"role": "user"}),
            ("x", {1: 2}),
        ]
        for kind, payload in refused:
            with pytest.raises(RecordError):
                log.record(kind, payload)
        assert log.end == end


def test_an_append_that_expects_another_end_writes_nothing(store: Store) -> None:
    with a_log(store) as log, log.turn(context()) as turn:
        end = turn.append(user_item("a"), expected_end=log.end)
        assert turn.append_all([user_item("b"), user_item("c")], expected_end=end) > end
        appends: list[Callable[[], int]] = [
            lambda: turn.append(user_item("d"), expected_end=end),
            lambda: turn.append_all([user_item("d")], expected_end=end),
            lambda: turn.user("d", expected_end=end),
            lambda: log.record("x", 1, expected_end=end),
        ]
        for late in appends:
            with pytest.raises(Conflict, match=f"not at {end}"):
                late()
        assert texts(log.resume_state()) == ["a", "b", "c"]


def test_a_line_longer_than_a_reader_takes_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "DEFAULT", rollout.Limits(line_bytes=1000))
    with a_log(store) as log, log.turn(context()) as turn:
        turn.user("x" * 800)
        end = log.end
        with pytest.raises(RecordError, match="longer than the limit of 1000"):
            turn.user("x" * 1000)
        assert log.end == end
