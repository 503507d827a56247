"""The slow reference against every recorded case: it has to be right before anything may be measured by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import builders as b
from tests import reference

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
PROGRAM_KEYS = {"id", "status", "phase", "metadata", "internal_chat_message_metadata_passthrough"}


def case_folders() -> list[Path]:
    return sorted(path.parent for path in CASES.glob("*/expected.json"))


def comparable(value: Any) -> Any:
    """An item as the cases compare it: without the program's own keys, without nulls and empty lists."""
    if isinstance(value, list):
        return [comparable(part) for part in value]
    if isinstance(value, dict):
        kept = {key: comparable(part) for key, part in value.items() if key not in PROGRAM_KEYS}
        return {key: part for key, part in kept.items() if part is not None and part != []}
    return value


def test_there_are_135_recorded_cases() -> None:
    assert len(case_folders()) == 135


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_the_reference_gives_the_right_answer_of_a_recorded_case(folder: Path) -> None:
    case = json.loads((folder / "expected.json").read_bytes())
    lineage = b.read_lineage(folder / case["rollout"], folder)
    answer = reference.fold(lineage.data, bases=lineage.bases, missing_base=lineage.missing_base)
    expect = case["expect"]
    assert comparable(answer.history) == comparable(expect["history"])
    assert answer.previous_model == expect["previous_model"]
    assert answer.reference_context == expect["reference_context"]
    assert answer.damaged_lines == expect["damaged_lines"]
    turns = answer.standing_turns
    assert [turn.status for turn in turns] == [turn["status"] for turn in expect["turns"]]
    assert [turn.id for turn in turns] == [turn["id"] for turn in expect["turns"]]
