"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written.
"""

from __future__ import annotations

from rollout.catalog.doctor import Diagnosis
from rollout.catalog.findings import Finding
from rollout.catalog.index import IndexStatus
from rollout.catalog.listing import Page
from rollout.catalog.row import Row
from rollout.catalog.search import Hit, Hits
from rollout.catalog.sessions import Transcript, list_sessions, read_session
from rollout.catalog.stats import Stats, StatsRow
from rollout.catalog.tree import Node
from rollout.core.history import History
from rollout.core.labels import Label, check_session_id
from rollout.core.readings import Tokens
from rollout.core.records import Damage
from rollout.core.settle import Baseline, Cleared, NeverSet
from rollout.core.spending import Spent
from rollout.core.steps import Place, Step
from rollout.core.truncation import Truncation
from rollout.core.updates import context_updates
from rollout.difference import Changed, Diff, diff
from rollout.errors import (
    Ambiguous,
    NoKey,
    NotARollout,
    NotFound,
    RolloutError,
    SourceError,
    UsageError,
    WrongKey,
)
from rollout.explanation import Explained, Explanation
from rollout.labelling import label
from rollout.limits import Limits
from rollout.log import Rollout
from rollout.moments import Line, Ordinal
from rollout.playback import Playback, Scene, replay
from rollout.reading import explain, reconstruct, records, turns, verify
from rollout.record import Record
from rollout.redaction import Redactor
from rollout.report import Note, Report
from rollout.state import State, Turn
from rollout.storage.cipher import Cipher, make_key
from rollout.storage.sealing import Sealed
from rollout.storage.writer import Durability
from rollout.store import Store
from rollout.store import open_rollout as open  # noqa: A004
from rollout.summary import Milestone, Summary, ToolUse, TurnSummary, summarize
from rollout.tailing import Tailed, tail
from rollout.turn import OpenTurn, TurnContext
from rollout.upkeeping.repair import Repaired, RepairPlan, apply_repair, plan_repair
from rollout.upkeeping.room import Room, Usage
from rollout.upkeeping.vacuum import Vacuumed, VacuumStep

__all__ = [
    "Ambiguous",
    "Baseline",
    "Changed",
    "Cipher",
    "Cleared",
    "Damage",
    "Diagnosis",
    "Diff",
    "Durability",
    "Explained",
    "Explanation",
    "Finding",
    "History",
    "Hit",
    "Hits",
    "IndexStatus",
    "Label",
    "Limits",
    "Line",
    "Milestone",
    "NeverSet",
    "NoKey",
    "Node",
    "NotARollout",
    "NotFound",
    "Note",
    "OpenTurn",
    "Ordinal",
    "Page",
    "Place",
    "Playback",
    "Record",
    "Redactor",
    "RepairPlan",
    "Repaired",
    "Report",
    "Rollout",
    "RolloutError",
    "Room",
    "Row",
    "Scene",
    "Sealed",
    "SourceError",
    "Spent",
    "State",
    "Stats",
    "StatsRow",
    "Step",
    "Store",
    "Summary",
    "Tailed",
    "Tokens",
    "ToolUse",
    "Transcript",
    "Truncation",
    "Turn",
    "TurnContext",
    "TurnSummary",
    "Usage",
    "UsageError",
    "VacuumStep",
    "Vacuumed",
    "WrongKey",
    "apply_repair",
    "check_session_id",
    "context_updates",
    "diff",
    "explain",
    "label",
    "list_sessions",
    "make_key",
    "open",
    "plan_repair",
    "read_session",
    "reconstruct",
    "records",
    "replay",
    "summarize",
    "tail",
    "turns",
    "verify",
]
