"""How a log ends is told by few of its lines, and the others are passed over."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings

from rollout.files import log_end
from rollout.files.log_end import Ending, LeftOpen, ending_of
from rollout.format.lines import BytesSource
from rollout.format.records import Segment
from tests import builders as b
from tests import strategies as logs


def end_of(data: bytes) -> Ending:
    return ending_of([Segment(BytesSource(data), len(data))])


@settings(max_examples=40)
@given(logs.any_logs())
def test_the_lines_that_are_passed_over_tell_nothing(data: bytes) -> None:
    with mock.patch.object(log_end, "_may_tell", return_value=True):
        expected = end_of(data)
    assert end_of(data) == expected


@pytest.mark.parametrize("name", [b"task_started", b"task\\u005fstarted", b"\\u0074urn_started"])
def test_an_event_is_known_however_its_name_is_spelled(name: bytes) -> None:
    started = b.started("t1").replace(b"task_started", name)
    assert end_of(b.log(b.session_meta(), started, b.assistant("a"))) == Ending(LeftOpen("t1"), turn_id="t1")
