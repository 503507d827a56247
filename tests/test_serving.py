"""A recording answers as its model did: its calls, what fits them, what departs from them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from rollout import UsageError
from rollout.adapters.responses.events import make_events
from rollout.adapters.responses.matching import Ignored
from rollout.adapters.responses.recording import Answer, Recording
from rollout.dialects.codex.prompt import make_prompt
from tests import reference, strategies
from tests.builders import (
    TIME,
    aborted,
    assistant,
    assistant_item,
    call,
    compacted,
    completed,
    context,
    contextual,
    inter_agent,
    item,
    items_removed,
    legacy_compacted,
    log,
    output,
    read_lineage,
    rolled_back,
    session_meta,
    started,
    user,
    user_item,
)
from tests.recordings import (
    CALLED,
    CONTEXT,
    QUESTION,
    RETURNED,
    SECOND,
    TOOLS,
    a_turn,
    asked,
    charged,
    reasoning,
    refused,
    texts,
    usage_of_record,
)
from tests.test_cases import CASES, NAMES, comparable

THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"}
FIRST = [CONTEXT, QUESTION]
BEHIND_TOOL = [*FIRST, THOUGHT, CALLED, RETURNED]
WHOLE = [*BEHIND_TOOL, assistant_item("all green"), SECOND]


def kinds_of(data: bytes) -> list[list[str]]:
    return [[str(each["type"]) for each in call.output] for call in Recording(data).calls]


# The calls of a recording


def test_what_a_model_makes_between_two_inputs_is_one_call() -> None:
    recording = Recording(TOOLS)
    assert [[each["type"] for each in call.output] for call in recording.calls] == [
        ["reasoning", "function_call"], ["message"], ["message"],
    ]  # fmt: skip
    assert [(call.number, call.line, call.model) for call in recording.calls] == [
        (1, 6, "gpt-5.4"), (2, 11, "gpt-5.4"), (3, 17, "gpt-5.4"),
    ]  # fmt: skip


def test_two_answers_without_an_input_between_them_are_parted_by_what_the_first_one_cost() -> None:
    apart = log(user("q"), reasoning(), charged(1), assistant("a"), charged(2))
    assert kinds_of(apart) == [["reasoning"], ["message"]]
    assert kinds_of(log(user("q"), reasoning(), usage_of_record(), assistant("a"))) == [["reasoning"], ["message"]]
    assert kinds_of(log(user("q"), charged(1), reasoning(), assistant("a"))) == [["reasoning", "message"]]


def test_a_cost_that_is_told_again_does_not_part_an_answer() -> None:
    told_again = log(user("q"), assistant("a"), charged(1), user("r"), reasoning(), charged(1), assistant("b"))
    assert kinds_of(told_again) == [["message"], ["reasoning", "message"]]


def test_a_call_right_behind_a_change_of_the_history_has_no_key_of_what_was_before_it() -> None:
    for change in (items_removed(), rolled_back(), compacted([user_item("x")])):
        first, second = Recording(log(user("q"), assistant("a"), change, assistant("b"))).calls
        assert first.last_key is not None
        assert second.last_key is None


def test_an_interrupted_answer_and_the_one_of_the_next_turn_are_two_calls() -> None:
    assert kinds_of(log(*a_turn("t", user("q"), assistant("a"), aborted("t")), assistant("b"))) == [["message"]] * 2


def test_what_a_call_cost_is_told_in_the_keys_of_the_responses_api() -> None:
    first, _, third = Recording(TOOLS).calls
    assert first.usage == third.usage == {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 9,
    }  # fmt: skip
    assert Recording(log(user("q"), assistant("a"))).calls[0].usage is None


def test_a_compaction_is_a_call_of_its_own_or_sums_up_by_the_one_before_it() -> None:
    remote = Recording(log(user("q"), assistant("a"), compacted([user_item("q"), {"type": "compaction"}])))
    assert [call.is_compaction for call in remote.calls] == [False, True]
    local = Recording(log(user("q"), assistant("S"), compacted([user_item("Summary: S")], message="Summary: S")))
    assert [(call.is_compaction, call.summarizes) for call in local.calls] == [(False, True)]


# What fits


@pytest.mark.parametrize("name", NAMES)
def test_each_call_of_a_recorded_rollout_is_given_to_who_asks_with_the_history_that_stood_then(name: str) -> None:
    home = CASES / name
    path = home / json.loads((home / "expected.json").read_text())["rollout"]
    recording = Recording(path, home=home)
    for each in recording.calls:
        assert each.path is not None
        lineage = read_lineage(Path(each.path), home)  # a call that a fork inherits lies in the file of its base
        history = reference.fold(
            lineage.data[: each.offset], bases=lineage.bases, missing_base=lineage.missing_base
        ).history
        body = {"input": comparable(make_prompt(history))}
        given = recording.answer(body, is_compaction=each.is_compaction)
        assert isinstance(given, Answer), given.message
        assert given.call.number == each.number
        assert comparable(given.response["output"]) == comparable(list(each.output))


def test_the_same_requests_have_the_same_answers_at_every_run() -> None:
    runs = []
    for _ in range(2):
        recording = Recording(TOOLS)
        answers = [asked(recording, *FIRST), asked(recording, *BEHIND_TOOL), asked(recording, *WHOLE)]
        runs.append(json.dumps([list(make_events(answer.response)) for answer in answers]))
        assert [texts(answer) for answer in answers] == [["f"], ["all green"], ["welcome"]]
        assert [answer.notes for answer in answers] == [()] * 3
    assert runs[0] == runs[1]


@pytest.fixture
def recording() -> Recording:
    return Recording(TOOLS)


@pytest.mark.parametrize(
    "question",
    [
        {"role": "user", "content": "fix the tests"},
        {"role": "user", "content": [{"type": "input_text", "text": "fix the tests", "annotations": []}]},
        {"role": "user", "id": "m9", "status": "completed", "phase": None, "content": "fix the tests"},
        {"type": "message", "role": "user", "metadata": {"a": 1}, "content": "fix the tests"},
    ],
)
def test_ids_metadata_nulls_and_the_spelling_of_a_text_are_no_departure(
    recording: Recording, question: dict[str, Any]
) -> None:
    assert texts(asked(recording, CONTEXT, {"role": "system", "content": "x"}, question)) == ["f"]


def test_reasoning_fits_without_its_encrypted_text_but_not_with_another(recording: Recording) -> None:
    plain = {key: value for key, value in THOUGHT.items() if key != "encrypted_content"}
    thinking = Recording(log(user("q"), reasoning(), call(), output(), assistant("a")))
    assert texts(asked(thinking, user_item("q"), plain, CALLED, RETURNED)) == ["a"]
    departure = refused(thinking, user_item("q"), {**THOUGHT, "encrypted_content": "x"}, CALLED, RETURNED)
    assert departure.difference is not None
    assert departure.difference.where == "encrypted_content"


OTHERWISE = {
    "outputs": [CONTEXT, QUESTION, THOUGHT, CALLED, {**RETURNED, "output": "other"}],
    "context": [QUESTION, THOUGHT, CALLED, RETURNED],
    "reasoning": [CONTEXT, QUESTION, CALLED, RETURNED],
}


@pytest.mark.parametrize("changed", OTHERWISE)
def test_what_is_ignored_may_be_different_and_nothing_else(changed: str) -> None:
    loose = Recording(TOOLS, ignored=[Ignored(changed)])
    assert texts(asked(loose, *OTHERWISE[changed])) == ["all green"]
    for other in OTHERWISE.keys() - {changed}:
        assert refused(loose, *OTHERWISE[other]).message.endswith(f"ignore {other} to let that pass")
    refused(loose, CONTEXT, SECOND)


def test_an_output_that_was_cut_for_the_model_as_the_turn_says_fits() -> None:
    policy = {"mode": "bytes", "limit": 10}
    long = log(context(model="m", truncation_policy=policy), user("q"), call(), output(text="x" * 50), assistant("a"))
    cut = {**RETURNED, "output": "xxxxx…40 chars truncated…xxxxx"}
    assert texts(asked(Recording(long), user_item("q"), CALLED, cut)) == ["a"]
    refused(Recording(long), user_item("q"), CALLED, {**cut, "output": "xxxx…40 chars truncated…xxxxx"})


def test_a_rolled_back_question_that_is_asked_again_has_the_answers_in_their_order() -> None:
    turns = [a_turn(name, user("q"), assistant(name)) for name in ("one", "two")]
    again = Recording(log(session_meta(), *turns[0], rolled_back(), *turns[1]))
    assert [texts(asked(again, user_item("q"))) for _ in range(3)] == [["one"], ["two"], ["two"]]


def test_a_request_behind_a_rollback_or_a_removal_fits_what_stood_then() -> None:
    recording = Recording(
        log(
            *a_turn("t1", user("a"), assistant("A")), *a_turn("t2", user("b"), assistant("B")), rolled_back(),
            *a_turn("t3", user("c"), assistant("C")), items_removed(2), user("d"), assistant("D"),
        )
    )  # fmt: skip
    one = [user_item("a"), assistant_item("A")]
    assert texts(asked(recording, *one, user_item("c"))) == ["C"]
    assert texts(asked(recording, *one, user_item("d"))) == ["D"]
    assert refused(recording, *one, user_item("b"), assistant_item("B"), user_item("c")).difference is not None


def test_a_model_that_is_told_to_sum_up_may_be_told_so_in_any_words() -> None:
    summary = compacted([user_item("Summary: S")], message="Summary: S")
    recording = Recording(log(user("q"), assistant("a"), user("r"), assistant("S"), summary, user("n"), assistant("b")))
    before = [user_item("q"), assistant_item("a"), user_item("r")]
    assert texts(asked(recording, *before, user_item("Sum it all up."))) == ["S"]
    assert texts(asked(recording, user_item("Summary: S"), user_item("n"))) == ["b"]
    refused(recording, user_item("q"), user_item("Sum it all up."))


def test_a_request_to_compact_is_answered_with_the_history_in_short() -> None:
    short = {"type": "compaction", "encrypted_content": "e"}
    recording = Recording(log(user("q"), assistant("a"), compacted([user_item("q"), short]), user("r"), assistant("b")))
    before = [user_item("q"), assistant_item("a")]
    whole = recording.answer({"input": before}, is_compaction=True)
    assert isinstance(whole, Answer)
    assert (whole.response["object"], whole.response["output"]) == ("response.compaction", [user_item("q"), short])
    streamed = asked(recording, *before, {"type": "compaction_trigger"})
    assert [(each["type"], each["encrypted_content"]) for each in streamed.response["output"]] == [("compaction", "e")]
    assert texts(asked(recording, user_item("q"), short, user_item("r"))) == ["b"]


def test_a_response_can_be_gone_on_from_by_its_id(recording: Recording) -> None:
    first = asked(recording, *FIRST).response["id"]
    second = asked(recording, RETURNED, previous_response_id=first)
    assert texts(second) == ["all green"]
    third = recording.answer({"input": "thank you", "previous_response_id": second.response["id"]})
    assert isinstance(third, Answer)
    assert texts(third) == ["welcome"]
    assert recording.retrieve(first) == asked(recording, *FIRST).response
    with pytest.raises(UsageError, match="no response 'resp_x'"):
        recording.answer({"input": [], "previous_response_id": "resp_x"})


def test_a_response_has_the_time_of_its_recording_in_whatever_zone_it_is_read() -> None:
    for told, seconds in {"2026-03-20T10:00:00.000Z": 1774000800, "2026-03-20T10:00:00": 1774000800, "noon": 0}.items():
        data = log(user("q"), assistant("a")).replace(TIME.encode(), told.encode())
        assert asked(Recording(data), user_item("q")).response["created_at"] == seconds


# What departs


def test_a_departure_says_which_item_differs_where_and_how(recording: Recording) -> None:
    departure = refused(recording, *FIRST, THOUGHT, CALLED, {**RETURNED, "output": "our"})
    assert departure.message == (
        "the request departs from call 2 in line 11: input[4] (function_call_output c1) differs in output, "
        'from character 2 on: recorded "out", asked "our"; ignore outputs to let that pass'
    )
    assert departure.difference is not None
    assert (departure.difference.index, departure.difference.where) == (4, "output")
    assert refused(recording, CONTEXT, user_item("fix them")).message.endswith('asked "fix them"')
    assert refused(recording, QUESTION).message.endswith("ignore context to let that pass")


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (FIRST[:1], 'call 1 in line 6: input[1] is missing: recorded is user message "fix the tests"'),
        ([*FIRST, SECOND], 'call 1 in line 6: input[2] (user message "thank you") is more than'),
        ([*WHOLE, assistant_item("welcome"), SECOND], "the end, after call 3"),
        ([*WHOLE, assistant_item("welcome")], "the recording has no answer to this"),
        ([], "call 1 in line 6: input[0] is missing"),
    ],
    ids=["short", "long", "beyond", "at the end", "empty"],
)  # fmt: skip
def test_a_departure_says_what_is_missing_or_too_much(recording: Recording, items: list[Any], told: str) -> None:
    assert told in refused(recording, *items).message


def test_model_and_instructions_are_noted_unless_strict(recording: Recording) -> None:
    given = recording.answer({"model": "gpt-4", "instructions": "Be long.", "input": FIRST})
    assert isinstance(given, Answer)
    assert given.notes == (
        'model: from character 4 on: recorded "gpt-5.4", asked "gpt-4"',
        'instructions: from character 3 on: recorded "Be brief.", asked "Be long."',
    )
    strict = Recording(TOOLS, is_strict=True)
    assert "model" in refused(strict, *FIRST, model="gpt-4").message
    assert texts(asked(strict, *FIRST, instructions="Be brief.")) == ["f"]


def test_a_call_out_of_turn_is_given_and_noted(recording: Recording) -> None:
    later = asked(recording, *WHOLE)
    assert (texts(later), later.notes) == (["welcome"], ("out of turn: call 1 was to come",))
    assert asked(recording, *FIRST).notes == ("out of turn: nothing was to come",)


@pytest.mark.parametrize("body", [{}, {"input": 1}, {"input": ["x"]}, {"input": [], "conversation": "c"}])
def test_what_is_no_request_is_refused_as_one(recording: Recording, body: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        recording.answer(body)


def test_items_of_unknown_types_are_a_models_if_they_are_calls() -> None:
    data = log(user("q"), item("mcp_call", id="m"), item("mcp_call_output"), item("new_call", x=1), item("new_thing"))
    assert kinds_of(data) == [["mcp_call"], ["new_call"]]


# Any log


EXCHANGES = [
    [user("q"), assistant("a")], [user("r"), reasoning(), call(), output()], [assistant("a")], [user("S")],
    [charged(1), charged(2)], [usage_of_record()], [rolled_back()], [rolled_back(2)], [items_removed()], [contextual()],
    [started("t"), context("t"), user("t"), assistant("A")], [completed("t")], [aborted("t")], [inter_agent()],
    [compacted([user_item("q"), {"type": "compaction", "encrypted_content": "e"}])], [legacy_compacted("a")],
    [compacted([user_item("x"), user_item("Sum: a")], message="Sum: a")],
    [item("session_item", item=assistant_item("w"))],
]  # fmt: skip
exchanges = st.lists(st.sampled_from(EXCHANGES), max_size=14).map(lambda drawn: log(*itertools.chain(*drawn)))


@settings(max_examples=60)
@given_any(st.one_of(exchanges, exchanges, strategies.any_logs(), strategies.damaged_logs()))
def test_every_call_of_any_log_is_given_to_who_asks_with_the_history_that_stood_then(data: bytes) -> None:
    recording = Recording(data)
    for each in recording.calls:
        body = {"input": make_prompt(reference.fold(data[: each.offset]).history)}
        given = recording.answer(body, is_compaction=each.is_compaction)
        assert isinstance(given, Answer), given.message
        assert given.call == each
        whole = recording.retrieve(given.response["id"])
        assert whole is not None
        events = list(make_events(whole))
        assert [event["type"] for event in events][:: len(events) - 1] == ["response.created", "response.completed"]
        assert json.loads(json.dumps(events)) == events


def test_a_fork_by_reference_gives_the_calls_of_its_bases_first() -> None:
    home = CASES / "p169_fork_of_fork"
    path = home / json.loads((home / "expected.json").read_text())["rollout"]
    recording = Recording(path, home=home)
    files = list(dict.fromkeys(call.path for call in recording.calls))
    assert len(files) == 3
    assert files[-1] == str(path)
    assert [call.number for call in recording.calls] == list(range(1, len(recording.calls) + 1))
