"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written. It loads no more than
this file: the module of a name is imported when the name is first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollout.catalog.doctor import Diagnosis
    from rollout.catalog.findings import Finding
    from rollout.catalog.listing import Page
    from rollout.catalog.row import Row
    from rollout.catalog.search import Hit, Hits
    from rollout.catalog.sessions import Transcript, list_sessions, read_session
    from rollout.catalog.stats import Stats, StatsRow
    from rollout.catalog.status import IndexStatus
    from rollout.catalog.tree import Node
    from rollout.core.context import is_program_message
    from rollout.core.history import History, is_summary
    from rollout.core.labels import Label, check_session_id
    from rollout.core.records import Damage
    from rollout.core.settle import Baseline, Cleared, NeverSet
    from rollout.core.spending import Spent
    from rollout.core.steps import Place, Step
    from rollout.core.tokens import Tokens
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
    from rollout.storage.durability import Durability
    from rollout.storage.sealing import Sealed
    from rollout.store import Store
    from rollout.store import open_rollout as open  # noqa: A004
    from rollout.summary import Milestone, Summary, ToolUse, TurnSummary, summarize
    from rollout.tailing import Tailed, tail
    from rollout.turn import OpenTurn
    from rollout.turn_context import TurnContext
    from rollout.upkeeping.repair import Repaired, RepairPlan, apply_repair, plan_repair
    from rollout.upkeeping.room import Room, Usage

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
    "WrongKey",
    "apply_repair",
    "check_session_id",
    "context_updates",
    "diff",
    "explain",
    "is_program_message",
    "is_summary",
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

_WRITTEN_IN = {  # the names above, as they are imported for a type checker
    "rollout.catalog.doctor": "Diagnosis",
    "rollout.catalog.findings": "Finding",
    "rollout.catalog.listing": "Page",
    "rollout.catalog.row": "Row",
    "rollout.catalog.search": "Hit Hits",
    "rollout.catalog.sessions": "Transcript list_sessions read_session",
    "rollout.catalog.stats": "Stats StatsRow",
    "rollout.catalog.status": "IndexStatus",
    "rollout.catalog.tree": "Node",
    "rollout.core.context": "is_program_message",
    "rollout.core.history": "History is_summary",
    "rollout.core.labels": "Label check_session_id",
    "rollout.core.records": "Damage",
    "rollout.core.settle": "Baseline Cleared NeverSet",
    "rollout.core.spending": "Spent",
    "rollout.core.steps": "Place Step",
    "rollout.core.tokens": "Tokens",
    "rollout.core.truncation": "Truncation",
    "rollout.core.updates": "context_updates",
    "rollout.difference": "Changed Diff diff",
    "rollout.errors": "Ambiguous NoKey NotARollout NotFound RolloutError SourceError UsageError WrongKey",
    "rollout.explanation": "Explained Explanation",
    "rollout.labelling": "label",
    "rollout.limits": "Limits",
    "rollout.log": "Rollout",
    "rollout.moments": "Line Ordinal",
    "rollout.playback": "Playback Scene replay",
    "rollout.reading": "explain reconstruct records turns verify",
    "rollout.record": "Record",
    "rollout.redaction": "Redactor",
    "rollout.report": "Note Report",
    "rollout.state": "State Turn",
    "rollout.storage.cipher": "Cipher make_key",
    "rollout.storage.sealing": "Sealed",
    "rollout.storage.durability": "Durability",
    "rollout.store": "Store open",
    "rollout.summary": "Milestone Summary ToolUse TurnSummary summarize",
    "rollout.tailing": "Tailed tail",
    "rollout.turn": "OpenTurn",
    "rollout.turn_context": "TurnContext",
    "rollout.upkeeping.repair": "Repaired RepairPlan apply_repair plan_repair",
    "rollout.upkeeping.room": "Room Usage",
}
_MODULES = {name: module for module, names in _WRITTEN_IN.items() for name in names.split()}
_WRITTEN_AS = {"open": "open_rollout"}


def _load(name: str) -> Any:
    """A public name or a module of the library, which is a plain attribute from then on. AttributeError."""
    if name in _MODULES:
        found = getattr(importlib.import_module(_MODULES[name]), _WRITTEN_AS.get(name, name))
        globals()[name] = found
        return found
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


if not TYPE_CHECKING:  # for which every name would be there
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
