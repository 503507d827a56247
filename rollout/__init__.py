"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written. It loads no more than
this file: the module of a name is imported when the name is first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

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

_WRITTEN_AS = {"open": "open_rollout"}


if not TYPE_CHECKING:  # for which every name would be there

    def __getattr__(name: str) -> Any:
        """The public name, from the module that it is written in; a plain attribute from then on. AttributeError."""
        match name:
            case "errors":
                import rollout.errors

                return rollout.errors
            case "limits":
                import rollout.limits

                return rollout.limits
            case "Diagnosis":
                from rollout.catalog import doctor as module
            case "Finding":
                from rollout.catalog import findings as module
            case "Page":
                from rollout.catalog import listing as module
            case "Row":
                from rollout.catalog import row as module
            case "Hit" | "Hits":
                from rollout.catalog import search as module
            case "Transcript" | "list_sessions" | "read_session":
                from rollout.catalog import sessions as module
            case "Stats" | "StatsRow":
                from rollout.catalog import stats as module
            case "IndexStatus":
                from rollout.catalog import status as module
            case "Node":
                from rollout.catalog import tree as module
            case "is_program_message":
                from rollout.core import context as module
            case "History" | "is_summary":
                from rollout.core import history as module
            case "Label" | "check_session_id":
                from rollout.core import labels as module
            case "Damage":
                from rollout.core import records as module
            case "Baseline" | "Cleared" | "NeverSet":
                from rollout.core import settle as module
            case "Spent":
                from rollout.core import spending as module
            case "Place" | "Step":
                from rollout.core import steps as module
            case "Tokens":
                from rollout.core import tokens as module
            case "Truncation":
                from rollout.core import truncation as module
            case "context_updates":
                from rollout.core import updates as module
            case "Changed" | "Diff" | "diff":
                from rollout import difference as module
            case (
                "Ambiguous"
                | "NoKey"
                | "NotARollout"
                | "NotFound"
                | "RolloutError"
                | "SourceError"
                | "UsageError"
                | "WrongKey"
            ):
                from rollout import errors as module
            case "Explained" | "Explanation":
                from rollout import explanation as module
            case "label":
                from rollout import labelling as module
            case "Limits":
                from rollout import limits as module
            case "Rollout":
                from rollout import log as module
            case "Line" | "Ordinal":
                from rollout import moments as module
            case "Playback" | "Scene" | "replay":
                from rollout import playback as module
            case "explain" | "reconstruct" | "records" | "turns" | "verify":
                from rollout import reading as module
            case "Record":
                from rollout import record as module
            case "Redactor":
                from rollout import redaction as module
            case "Note" | "Report":
                from rollout import report as module
            case "State" | "Turn":
                from rollout import state as module
            case "Cipher" | "make_key":
                from rollout.storage import cipher as module
            case "Durability":
                from rollout.storage import durability as module
            case "Sealed":
                from rollout.storage import sealing as module
            case "Store" | "open":
                from rollout import store as module
            case "Milestone" | "Summary" | "ToolUse" | "TurnSummary" | "summarize":
                from rollout import summary as module
            case "Tailed" | "tail":
                from rollout import tailing as module
            case "OpenTurn":
                from rollout import turn as module
            case "TurnContext":
                from rollout import turn_context as module
            case "Repaired" | "RepairPlan" | "apply_repair" | "plan_repair":
                from rollout.upkeeping import repair as module
            case "Room" | "Usage":
                from rollout.upkeeping import room as module
            case _:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(module, _WRITTEN_AS.get(name, name))
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
