"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written.
"""

from __future__ import annotations

from rollout.core.history import History
from rollout.core.records import Damage
from rollout.core.settle import Baseline, Cleared, NeverSet
from rollout.core.truncation import Truncation
from rollout.core.updates import context_updates
from rollout.errors import (
    Ambiguous,
    NotARollout,
    NotFound,
    RolloutError,
    SourceError,
    UsageError,
)
from rollout.explanation import Explained, Explanation
from rollout.limits import Limits
from rollout.log import Ordinal, Rollout
from rollout.reading import explain, reconstruct, records, turns, verify
from rollout.record import Record
from rollout.repair import Repaired, RepairPlan, apply_repair, plan_repair
from rollout.report import Note, Report
from rollout.state import State, Turn
from rollout.storage.writer import Durability
from rollout.store import Store
from rollout.store import open_rollout as open  # noqa: A004
from rollout.turn import TurnContext

__all__ = [
    "Ambiguous",
    "Baseline",
    "Cleared",
    "Damage",
    "Durability",
    "Explained",
    "Explanation",
    "History",
    "Limits",
    "NeverSet",
    "NotARollout",
    "NotFound",
    "Note",
    "Ordinal",
    "Record",
    "RepairPlan",
    "Repaired",
    "Report",
    "Rollout",
    "RolloutError",
    "SourceError",
    "State",
    "Store",
    "Truncation",
    "Turn",
    "TurnContext",
    "UsageError",
    "apply_repair",
    "context_updates",
    "explain",
    "open",
    "plan_repair",
    "reconstruct",
    "records",
    "turns",
    "verify",
]
