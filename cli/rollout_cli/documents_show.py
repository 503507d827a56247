"""One session on a page, and many in a table, as JSON documents; `documents` says what their keys are to scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rollout_cli.documents import encode, name

if TYPE_CHECKING:
    import rollout


def summary(found: rollout.Summary) -> Iterator[bytes]:
    """`rollout show --json`: {thread_id, name, path, session, …, turns, last_user, last_assistant}."""
    state = found.state
    document: dict[str, Any] = {
        "thread_id": state.thread_id,
        "name": found.name,
        "path": name(state.path),
        "session": state.session,
        "ended": found.ended,
        "model": state.previous_model,
        "models": [_milestone(each, "model") for each in found.models],
        "items": len(state.history),
        "tools": [
            {"name": use.name, "calls": use.calls, "failures": use.failures, "undone": use.undone}
            for use in found.tools
        ],
        "compactions": [_milestone(each, "items") for each in found.compactions],
        "rollbacks": [_milestone(each, "turns") for each in found.rollbacks],
        "damaged_lines": found.damaged_lines,
        "spent": tokens(found.spent),
        "spent_by_day": [
            {"day": row.day, "model": row.model, "requests": row.requests, **tokens(row.tokens)} for row in found.by_day
        ],
        "context_tokens": found.context_tokens,
        "window_tokens": found.window_tokens,
        "token_usage": state.token_usage,
        "turns": [_turn(each) for each in found.turns],
        "last_user": found.last_user,
        "last_assistant": found.last_assistant,
    }
    yield encode(document)


def stats(found: rollout.Stats) -> Iterator[bytes]:
    """`rollout stats --json`: {sessions, …, spent, context_tokens, by_day, by_model, by_project, notes}."""
    document: dict[str, Any] = {
        "sessions": found.sessions,
        "files": found.files,
        "turns": found.turns,
        "bytes": found.bytes,
        "requests": found.requests,
        "spent": tokens(found.spent),
        "context_tokens": found.context_tokens,
        "without_tokens": found.without_tokens,
        "by_day": [_stats_row(row, "day") for row in found.by_day],
        "by_model": [_stats_row(row, "model") for row in found.by_model],
        "by_project": [_stats_row(row, "project") for row in found.by_project],
        "notes": [{"path": name(note.path), "what": note.what} for note in found.notes],
    }
    yield encode(document)


def _stats_row(row: rollout.StatsRow, key: str) -> dict[str, Any]:
    return {
        key: row.key,
        "sessions": row.sessions,
        "requests": row.requests,
        "spent": tokens(row.spent),
        "context_tokens": row.context_tokens,
    }


def tokens(found: rollout.Tokens) -> dict[str, int]:
    """Numbers of tokens."""
    return {
        "input_tokens": found.input,
        "cached_input_tokens": found.cached,
        "output_tokens": found.output,
        "reasoning_output_tokens": found.reasoning,
        "total_tokens": found.total,
    }


def _milestone(each: rollout.Milestone, what: str) -> dict[str, Any]:
    return {
        "line": each.line,
        "offset": each.offset,
        "inherited": each.inherited,
        "turn_id": each.turn_id,
        "time": each.time,
        what: each.text if what == "model" else each.number,
        "stands": each.stands,
    }


def _turn(each: rollout.TurnSummary) -> dict[str, Any]:
    turn = each.turn
    return {
        "id": turn.id,
        "status": turn.status,
        "stands": turn.stands,
        "started": turn.started,
        "ended": turn.ended,
        "duration_s": each.duration_s,
        "model": turn.model,
        "items": turn.item_count,
        "calls": each.calls,
        "failures": each.failures,
        "spent": tokens(each.spent),
        "context_tokens": each.context_tokens,
        "user": turn.user,
    }
