"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written.
"""

from __future__ import annotations

from rollout.core.history import History
from rollout.core.reconstruct import Baseline, Cleared, NeverSet
from rollout.core.records import Damage
from rollout.core.truncation import Truncation
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
from rollout.reading import explain, reconstruct, records, verify
from rollout.record import Record
from rollout.report import Note, Report
from rollout.state import State, Turn

__all__ = [
    "Ambiguous",
    "Baseline",
    "Cleared",
    "Damage",
    "Explained",
    "Explanation",
    "History",
    "Limits",
    "NeverSet",
    "NotARollout",
    "NotFound",
    "Note",
    "Record",
    "Report",
    "RolloutError",
    "SourceError",
    "State",
    "Truncation",
    "Turn",
    "UsageError",
    "explain",
    "reconstruct",
    "records",
    "verify",
]
