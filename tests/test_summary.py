"""A session on a page is what the state, the turns and the explanation of the same log say, put together."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rollout
from tests import builders as b
from tests import strategies
from tests.metered import LATER, at, metered
from tests.test_cases import CASES, NAMES


def tool(call_id: str, name: str, output: object) -> list[bytes]:
    """A call and its output."""
    return [
        b.item("function_call", name=name, call_id=call_id, arguments="{}"),
        b.item("function_call_output", call_id=call_id, output=output),
    ]


def check(found: rollout.Summary, source: Path | bytes, home: Path | None = None) -> None:
    """A summary against what the readers say."""
    explained = list(rollout.explain(source, home=home))
    everything = rollout.turns(source, home=home)
    assert [each.turn.id for each in found.turns] == [turn.id for turn in everything]
    assert [each.turn.stands for each in found.turns] == [turn.stands for turn in everything]
    assert found.damaged_lines == rollout.verify(source, home=home).damaged_lines
    assert found.state.previous_model == rollout.reconstruct(source, home=home).previous_model
    by_place = {(each.path, each.offset): each for each in explained}
    for moment in (*found.models, *found.compactions, *found.rollbacks):
        line = by_place[moment.path, moment.offset]
        assert (moment.line, moment.turn_id, moment.inherited) == (line.line, line.turn_id, line.inherited)
        assert moment.stands == (line.status != "rolled_back")
    assert sum(each.calls for each in found.turns) <= sum(use.calls for use in found.tools)
    if all(each.stands for each in everything):
        assert not any(use.undone for use in found.tools) or found.rollbacks


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_of_a_recorded_case_says_what_its_readers_say(name: str) -> None:
    case = CASES / name
    path = case / json.loads((case / "expected.json").read_text())["rollout"]
    home = case if (case / "sessions").is_dir() else None
    check(rollout.summarize(path, home=home), path, home)


@given(strategies.any_logs(20))
@settings(max_examples=60)
def test_the_summary_of_any_log_says_what_its_readers_say(data: bytes) -> None:
    check(rollout.summarize(data), data)


@given(strategies.damaged_logs(12))
@settings(max_examples=40)
def test_the_summary_of_a_damaged_log_says_what_its_readers_say(data: bytes) -> None:
    check(rollout.summarize(data), data)


def told(found: rollout.Summary) -> dict[str, object]:
    """All that a summary says, in values that can be compared."""
    said = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    state = said.pop("state")
    said["state"] = [*state.history], state.previous_model, state.reference_context, state.token_usage, state.end
    turns = [each.turn for each in found.turns]
    said["turns"] = [(turn.id, turn.status, turn.stands, turn.line, turn.ended, turn.item_count) for turn in turns]
    said["did"] = [
        (each.duration_s, each.calls, each.failures, each.spent, each.context_tokens) for each in found.turns
    ]
    return said


@given(strategies.well_formed_logs(3), st.data())
@settings(max_examples=20)
def test_the_summary_at_a_moment_is_that_of_a_log_that_ends_there(data: bytes, drawn: st.DataObject) -> None:
    end = drawn.draw(st.sampled_from([len(data), *(i + 1 for i, byte in enumerate(data) if byte == 0x0A)]))
    assert told(rollout.summarize(data, at=end)) == told(rollout.summarize(data[:end]))


def test_the_summary_at_a_turn_knows_nothing_of_what_came_later() -> None:
    first = b.log(b.session_meta(), b.started("t1"), b.user("a"), metered(9, 9), b.completed("t1"))
    later = b.log(b.started("t2"), b.user("b"), *tool("c", "f", "no"), metered(99, 90), b.compacted([]))
    later += b.log(b.rolled_back(2))
    assert told(rollout.summarize(first + later, at="t1")) == told(rollout.summarize(first))
    assert told(rollout.summarize(first + later, at=rollout.at_line(5))) == told(rollout.summarize(first))
    with pytest.raises(rollout.NotFound):
        rollout.summarize(first + later, at="t3")


def test_calls_and_failures_are_counted_by_tool_and_by_turn() -> None:
    data = b.log(
        b.session_meta(),
        *[b.started("t1"), b.user("a"), *tool("c1", "shell", "Exit code: 1\n"), *tool("c2", "shell", "Exit code: 0\n")],
        *[b.completed("t1"), b.started("t2"), b.user("b"), *tool("c3", "shell", "x"), b.item("web_search_call")],
        *[b.item("function_call_output", call_id="c9", output="aborted"), b.completed("t2"), b.rolled_back(1)],
    )
    found = rollout.summarize(data)
    assert [(use.name, use.calls, use.failures, use.undone) for use in found.tools] == [
        ("shell", 3, 1, 1),
        ("web_search", 1, 0, 1),
    ]
    assert [(each.calls, each.failures) for each in found.turns] == [(2, 1), (2, 0)]


def test_an_output_that_comes_in_a_later_turn_counts_for_the_call() -> None:
    call, output = tool("c1", "shell", "Exit code: 2\n")
    data = b.log(b.started("t1"), b.user("a"), call, b.completed("t1"), b.started("t2"), b.user("b"), output)
    assert [(each.calls, each.failures) for each in rollout.summarize(data).turns] == [(1, 1), (0, 0)]


def test_each_turn_has_its_tokens_its_time_and_what_was_in_context() -> None:
    data = b.log(
        b.session_meta(),
        *[
            b.started("t1"),
            b.user("a"),
            metered(100, 100),
            metered(300, 200),
            at("2026-03-20T10:01:30Z", b.completed()),
        ],
        *[b.started("t2"), b.user("b"), b.completed("t2")],
        *[b.started("t3"), b.user("c"), metered(350, 50, window=2000)],
    )
    found = rollout.summarize(data)
    assert [(each.spent.total, each.context_tokens) for each in found.turns] == [(300, 200), (0, None), (50, 50)]
    assert [each.duration_s for each in found.turns] == [90.0, 0.0, None]
    assert (found.spent.total, found.context_tokens, found.window_tokens) == (350, 50, 2000)


def test_changes_of_model_compactions_and_rollbacks_are_named_by_their_lines() -> None:
    data = b.log(
        b.session_meta(),
        *[b.context(None, "m1"), b.user("a"), b.context(None, "m1"), b.context(None, "m2"), b.user("b")],
        *[b.compacted([b.user_item("s")]), b.rolled_back(1), at(LATER, b.legacy_compacted("S"))],
    )
    found = rollout.summarize(data)
    assert [(each.line, each.text, each.stands) for each in found.models] == [(2, "m1", True), (5, "m2", False)]
    assert [(each.line, each.number, each.stands) for each in found.compactions] == [(7, 1, False), (9, None, True)]
    assert [(each.line, each.number) for each in found.rollbacks] == [(8, 1)]
    assert found.ended == LATER


def test_the_last_exchange_is_what_the_model_still_sees_of_it() -> None:
    data = b.log(
        *[b.user("a"), b.assistant("one"), b.contextual(), b.user("b"), b.assistant("two"), b.rolled_back(1)],
    )
    found = rollout.summarize(data)
    assert found.last_user == b.user_item("a")
    assert found.last_assistant == b.assistant_item("one")


def test_a_session_that_has_not_begun_has_nothing_to_tell() -> None:
    found = rollout.summarize(b.log(b.session_meta()))
    assert (found.turns, found.models, found.tools, found.last_user, found.context_tokens) == ((), (), (), None, None)
    assert found.spent == rollout.Tokens()
    assert found.ended == b.TIME


def test_a_named_session_has_its_name_and_a_fork_the_milestones_of_its_base(tmp_path: Path) -> None:
    source = "019cfffe-0000-7000-8000-00000000000d"
    folder = tmp_path / "sessions/2026/03/20"
    folder.mkdir(parents=True)
    base = b.log(b.session_meta(source), b.context(None, "m1"), b.user("a"), b.compacted([]))
    (folder / f"rollout-2026-03-20T09-00-00-{source}.jsonl").write_bytes(base)
    history_base = {"thread_id": source, "end_byte_offset": len(base)}
    path = folder / f"rollout-2026-03-20T10-00-00-{b.THREAD}.jsonl"
    path.write_bytes(b.log(b.session_meta(history_base=history_base), b.context(None, "m2"), b.user("b")))
    (tmp_path / "session_index.jsonl").write_bytes(
        b.dump({"id": b.THREAD, "thread_name": "n", "updated_at": ""}) + b"\n"
    )
    found = rollout.summarize(path, home=tmp_path)
    assert found.name == "n"
    assert [(each.text, each.inherited) for each in found.models] == [("m1", source), ("m2", None)]
    assert [each.inherited for each in found.compactions] == [source]
