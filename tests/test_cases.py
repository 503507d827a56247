"""The recorded rollouts: the engine gives every answer that is written beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rollout

CASES = Path(__file__).resolve().parent.parent / "fixtures" / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expected.json"))
IGNORED = {"id", "status", "phase", "metadata", "internal_chat_message_metadata_passthrough"}


def comparable(value: Any) -> Any:
    """Items as the cases compare them: without keys that programs mint anew, nulls and empty lists."""
    if isinstance(value, dict):
        kept = {key: comparable(entry) for key, entry in value.items() if key not in IGNORED}
        return {key: entry for key, entry in kept.items() if entry is not None and entry != []}
    return [comparable(entry) for entry in value] if isinstance(value, list) else value


def test_all_recorded_cases_are_here() -> None:
    assert len(NAMES) == 135


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_rollout_is_answered_as_it_is_written_beside_it(name: str) -> None:
    home = CASES / name
    case = json.loads((home / "expected.json").read_text())
    path, expect = home / case["rollout"], case["expect"]
    state = rollout.reconstruct(path, home=home)
    assert comparable(list(state.history)) == comparable(expect["history"])
    assert comparable(state.for_prompt()) == comparable(expect["prompt"])
    assert state.previous_model == expect["previous_model"]
    assert state.reference_context == expect["reference_context"]
    assert [(None if turn.derived else turn.id, turn.status) for turn in state.turns] == [
        (turn["id"], turn["status"]) for turn in expect["turns"]
    ]
    report = rollout.verify(path, home=home)
    assert report.damaged_lines == expect["damaged_lines"]
    assert report.ok == (expect["damaged_lines"] == 0)
    assert set(expect) == {"history", "prompt", "previous_model", "reference_context", "turns", "damaged_lines"}


@pytest.mark.parametrize("name", NAMES)
def test_copying_all_records_of_a_recorded_rollout_gives_back_its_bytes(name: str) -> None:
    home = CASES / name
    path = home / json.loads((home / "expected.json").read_text())["rollout"]
    copied = b"".join(record.raw for record in rollout.records(path))
    if path.suffix == ".zst":
        assert copied == b"".join(record.raw for record in rollout.records(copied))
        assert copied.startswith(b'{"timestamp"')
    else:
        assert copied == path.read_bytes()
