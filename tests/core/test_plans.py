"""`<proposed_plan>` blocks in an assistant's text, and the events that record them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rollout
from rollout.dialects.codex.encoder import split_plans
from tests.builders import completed, event, log, started


@pytest.mark.parametrize(
    ("text", "outside", "plans"),
    [
        ("no plan", "no plan", []),
        ("a\n<proposed_plan>\n- one\n- two\n</proposed_plan>\nb", "a\nb", ["- one\n- two\n"]),
        ("  <proposed_plan>  \n- x\n\t</proposed_plan>", "", ["- x\n"]),
        ("<proposed_plan>\n- never closed\n", "", ["- never closed\n"]),
        ("<proposed_plan>all in one line</proposed_plan>\nb", "b", ["all in one line"]),
        ("<proposed_plan>\n1\n</proposed_plan>\n<proposed_plan>\n2\n</proposed_plan>\n", "", ["1\n", "2\n"]),
        ("write <proposed_plan> on a line", "write <proposed_plan> on a line", []),
        ("<proposed_plan> and more", "<proposed_plan> and more", []),
        ("<proposed_plan>\n \n</proposed_plan>\n", "", []),
        ("<proposed_plan>\n<proposed_plan>\n</proposed_plan>\n", "", ["<proposed_plan>\n"]),
        ("a\u2028<proposed_plan>\nb", "a\u2028<proposed_plan>\nb", []),
    ],
)
def test_a_plan_is_the_text_between_tags_that_stand_on_lines_of_their_own(
    text: str, outside: str, plans: list[str]
) -> None:
    assert split_plans(text) == (outside, plans)


@given(st.lists(st.sampled_from(["<proposed_plan>", "</proposed_plan>", "\n", "x", " "])).map("".join))
def test_text_outside_of_plans_stays_as_it_is_and_holds_no_more_plans(text: str) -> None:
    outside, plans = split_plans(text)
    assert len(outside) + sum(map(len, plans)) <= len(text)
    if not plans and "<proposed_plan>" not in text:
        assert outside == text


def test_the_event_of_a_plan_gives_its_text_and_no_other_line_does() -> None:
    assert plans_of(event("item_completed", item={"type": "Plan", "id": "t-plan", "text": "- a\n"})) == ["- a\n"]
    for other in (
        event("item_completed", item={"type": "AgentMessage", "text": '"Plan"'}),
        event("item_started", item={"type": "Plan", "text": "x"}),
        event("item_completed", item="Plan"),
        b'{"type":"Plan"',
    ):
        assert plans_of(other) == []


def plans_of(line: bytes) -> list[str]:
    """The plans of a turn with this line in it."""
    (turn,) = rollout.turns(log(started("t"), line, completed("t")))
    return list(turn.plans)
