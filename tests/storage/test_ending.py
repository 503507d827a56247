"""How a log ends is found from its end, and is what a reader finds who begins at its first line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rollout import records
from rollout.files.log_end import Ending, LeftOpen, ending_of
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from tests import builders as b
from tests import strategies as logs


def end_of(data: bytes) -> Ending:
    return ending_of([Segment(BytesSource(data), len(data))])


def open_turn_in(data: bytes) -> LeftOpen | None:
    """The turn that stands open behind the last line."""
    found = None
    for record in records(data):
        if record.type != "event_msg" or not isinstance(record.payload, dict):
            continue
        given_id = record.payload.get("turn_id")
        turn_id = given_id if isinstance(given_id, str) else None
        if record.kind in {"task_started", "turn_started"}:
            found = LeftOpen(turn_id, record.label)
        elif record.kind in {"task_complete", "turn_complete"}:
            found = None
        elif record.kind == "turn_aborted" and found is not None:
            is_other = turn_id is not None and found.turn_id is not None and turn_id != found.turn_id
            found = found if is_other else None
    return found


@settings(max_examples=80)
@given(logs.any_logs())
def test_what_is_left_open_is_found_from_either_end(data: bytes) -> None:
    assert end_of(data).left_open == open_turn_in(data)


@pytest.mark.parametrize("name", [b"task_started", b"task\\u005fstarted", b"\\u0074urn_started"])
def test_an_event_is_known_however_its_name_is_spelled(name: bytes) -> None:
    started = b.started("t1").replace(b"task_started", name)
    assert end_of(b.log(b.session_meta(), started, b.assistant("a"))) == Ending(LeftOpen("t1"), turn_id="t1")
