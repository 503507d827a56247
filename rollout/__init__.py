"""The log that an agent's session can be rebuilt from.

`import rollout` gives the public names and nothing else; each is documented where it is written. It loads no more than
this file: the module of a name is imported when the name is first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollout.dialects.codex.contextual import context_updates, is_program_message, is_summary, shell_command_of
    from rollout.dialects.codex.encoder import AnyItem
    from rollout.dialects.codex.telling import Told, tell
    from rollout.errors import (
        Ambiguous,
        Closed,
        Conflict,
        Displaced,
        InUse,
        Locked,
        NoKey,
        NotARollout,
        NotFound,
        Poisoned,
        RecordError,
        RolloutError,
        SourceError,
        TooLarge,
        UsageError,
        WriteError,
        WrongKey,
    )
    from rollout.files.encrypted.keys import Cipher, Keys, make_key
    from rollout.files.port import Durability, FileSystem, Progress
    from rollout.files.recovery import RecoveryPlan
    from rollout.files.sealed.seal import SealResult
    from rollout.files.source import AnySource
    from rollout.fold.projection import ContextBaseline, ContextCleared, ContextNeverSet
    from rollout.fold.tokens import TokenSpend
    from rollout.fold.turn_list import Turn
    from rollout.format.labels import Label, check_session_id
    from rollout.format.lines import Damage
    from rollout.home.doctor import Diagnosis, Finding
    from rollout.home.filters import Filters, Sort
    from rollout.home.index.index import IndexStatus
    from rollout.home.listing import SessionPage
    from rollout.home.maintenance.disk_usage import DiskUsage, FileUsage
    from rollout.home.maintenance.repair import RepairPlan, RepairResult, RepairStep, apply_repair, plan_repair
    from rollout.home.search import Hit, Hits
    from rollout.home.stats import Stats, StatsRow
    from rollout.home.threads import SessionRow, Skipped
    from rollout.home.tree import SessionTree
    from rollout.ids import SessionId
    from rollout.items.history import History
    from rollout.items.kinds import Item
    from rollout.items.redaction import Redactor
    from rollout.items.tokens import Tokens
    from rollout.items.truncation import Truncation
    from rollout.limits import Limits
    from rollout.session.difference import Diff, DiffRun, Relation, SharedLine, ValueChange, diff
    from rollout.session.explanation import Explained, Explanation, explain
    from rollout.session.following import FollowEvent, Happening, tail
    from rollout.session.label_scope import label
    from rollout.session.log import SessionLog
    from rollout.session.playback import Playback, PlaybackView, Step, StepPosition, replay
    from rollout.session.record import Record, records
    from rollout.session.state import At, AtLine, AtOrdinal, State, at_line, at_ordinal, reconstruct, turns
    from rollout.session.summary import Milestone, Summary, ToolUse, TurnSummary, summarize
    from rollout.session.turn import AsyncTurn, OpenTurn
    from rollout.session.turn_context import TurnContext
    from rollout.session.verification import Note, Report, verify
    from rollout.store import Mode, Reference, Store, open_log

__all__ = [
    "Ambiguous",
    "AnyItem",
    "AnySource",
    "AsyncTurn",
    "At",
    "AtLine",
    "AtOrdinal",
    "Cipher",
    "Closed",
    "Conflict",
    "ContextBaseline",
    "ContextCleared",
    "ContextNeverSet",
    "Damage",
    "Diagnosis",
    "Diff",
    "DiffRun",
    "DiskUsage",
    "Displaced",
    "Durability",
    "Explained",
    "Explanation",
    "FileSystem",
    "FileUsage",
    "Filters",
    "Finding",
    "FollowEvent",
    "Happening",
    "History",
    "Hit",
    "Hits",
    "InUse",
    "IndexStatus",
    "Item",
    "Keys",
    "Label",
    "Limits",
    "Locked",
    "Milestone",
    "Mode",
    "NoKey",
    "NotARollout",
    "NotFound",
    "Note",
    "OpenTurn",
    "Playback",
    "PlaybackView",
    "Poisoned",
    "Progress",
    "Record",
    "RecordError",
    "RecoveryPlan",
    "Redactor",
    "Reference",
    "Relation",
    "RepairPlan",
    "RepairResult",
    "RepairStep",
    "Report",
    "RolloutError",
    "SealResult",
    "SessionId",
    "SessionLog",
    "SessionPage",
    "SessionRow",
    "SessionTree",
    "SharedLine",
    "Skipped",
    "Sort",
    "SourceError",
    "State",
    "Stats",
    "StatsRow",
    "Step",
    "StepPosition",
    "Store",
    "Summary",
    "TokenSpend",
    "Tokens",
    "Told",
    "TooLarge",
    "ToolUse",
    "Truncation",
    "Turn",
    "TurnContext",
    "TurnSummary",
    "UsageError",
    "ValueChange",
    "WriteError",
    "WrongKey",
    "apply_repair",
    "at_line",
    "at_ordinal",
    "check_session_id",
    "context_updates",
    "diff",
    "explain",
    "is_program_message",
    "is_summary",
    "label",
    "make_key",
    "open_log",
    "plan_repair",
    "reconstruct",
    "records",
    "replay",
    "shell_command_of",
    "summarize",
    "tail",
    "tell",
    "turns",
    "verify",
]

if not TYPE_CHECKING:  # for which every name would be there

    def __getattr__(name: str) -> Any:
        """The public name, from the module that it is written in; a plain attribute from then on. AttributeError."""
        match name:
            case "agent_tools":
                import rollout.agent_tools

                return rollout.agent_tools
            case "errors":
                import rollout.errors

                return rollout.errors
            case "limits":
                import rollout.limits

                return rollout.limits
            case "Finding":
                from rollout.home import doctor as module
            case (
                "Diagnosis"
                | "DiskUsage"
                | "Hits"
                | "IndexStatus"
                | "SealResult"
                | "SessionLog"
                | "SessionPage"
                | "SessionTree"
                | "Stats"
            ):
                from rollout.home import results as module
            case "Filters" | "Sort":
                from rollout.home import filters as module
            case "SessionRow" | "Skipped":
                from rollout.home import threads as module
            case "SessionId":
                from rollout import ids as module
            case "Hit":
                from rollout.home import search as module
            case "StatsRow":
                from rollout.home import stats as module
            case "AnyItem":
                from rollout.dialects.codex import encoder as module
            case "context_updates" | "is_program_message" | "is_summary" | "shell_command_of":
                from rollout.dialects.codex import contextual as module
            case "History":
                from rollout.items import history as module
            case "Item":
                from rollout.items import kinds as module
            case "Label" | "check_session_id":
                from rollout.format import labels as module
            case "Damage":
                from rollout.format import lines as module
            case "ContextBaseline" | "ContextCleared" | "ContextNeverSet":
                from rollout.fold import projection as module
            case "TokenSpend":
                from rollout.fold import tokens as module
            case "Told" | "tell":
                from rollout.dialects.codex import telling as module
            case "Tokens":
                from rollout.items import tokens as module
            case "Truncation":
                from rollout.items import truncation as module
            case "Diff" | "DiffRun" | "Relation" | "SharedLine" | "ValueChange" | "diff":
                from rollout.session import difference as module
            case (
                "Ambiguous"
                | "Closed"
                | "Conflict"
                | "Displaced"
                | "InUse"
                | "Locked"
                | "NoKey"
                | "NotARollout"
                | "NotFound"
                | "Poisoned"
                | "RecordError"
                | "RolloutError"
                | "SourceError"
                | "TooLarge"
                | "UsageError"
                | "WriteError"
                | "WrongKey"
            ):
                from rollout import errors as module
            case "Explained" | "Explanation" | "explain":
                from rollout.session import explanation as module
            case "label":
                from rollout.session import label_scope as module
            case "Limits":
                from rollout import limits as module
            case "Playback" | "PlaybackView" | "Step" | "StepPosition" | "replay":
                from rollout.session import playback as module
            case "AnySource":
                from rollout.files import source as module
            case "Record" | "records":
                from rollout.session import record as module
            case "Redactor":
                from rollout.items import redaction as module
            case "Note" | "Report" | "verify":
                from rollout.session import verification as module
            case "At" | "AtLine" | "AtOrdinal" | "State" | "at_line" | "at_ordinal" | "reconstruct" | "turns":
                from rollout.session import state as module
            case "Turn":
                from rollout.fold import turn_list as module
            case "Cipher" | "Keys" | "make_key":
                from rollout.files.encrypted import keys as module
            case "Durability" | "FileSystem" | "Progress":
                from rollout.files import port as module
            case "RecoveryPlan":
                from rollout.files import recovery as module
            case "Mode" | "Reference" | "Store" | "open_log":
                from rollout import store as module
            case "Milestone" | "Summary" | "ToolUse" | "TurnSummary" | "summarize":
                from rollout.session import summary as module
            case "FollowEvent" | "Happening" | "tail":
                from rollout.session import following as module
            case "AsyncTurn" | "OpenTurn":
                from rollout.session import turn as module
            case "TurnContext":
                from rollout.session import turn_context as module
            case "RepairStep" | "RepairResult" | "RepairPlan" | "apply_repair" | "plan_repair":
                from rollout.home.maintenance import repair as module
            case "FileUsage":
                from rollout.home.maintenance import disk_usage as module
            case _:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(module, name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
