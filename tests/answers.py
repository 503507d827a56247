"""One answer beside another one: of the engine and of the reference, or of two files."""

from __future__ import annotations

import rollout
from tests.reference import Reference


def assert_same_answer(state: rollout.State, expected: rollout.State | Reference) -> None:
    """The history and all that is said of the whole log; of turns nothing, as their places may differ."""
    assert list(state.history) == list(expected.history)
    for name in ("previous_model", "reference_context", "world_state", "token_usage", "session"):
        assert getattr(state, name) == getattr(expected, name), name
