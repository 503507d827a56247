"""One session on a page: who and where, its models, tokens, tools, turns, what was taken back, what was said last."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rollout
from rollout_cli.cells import LABEL_CHARS, NARROW_COLUMNS, Column, Table, preview
from rollout_cli.items import describe
from rollout_cli.terminal import Block, Row, fact
from rollout_cli.units import count, duration, local_time, short_number
from rollout_cli.views import encode, pick
from rollout_cli.views.lines import remedy
from rollout_cli.views.tokens import chart, tokens

TURNS_SHOWN, TOOLS_SHOWN, MILESTONES_SHOWN = 20, 12, 5
_SAID_CHARS = 2000
_MILESTONE = "line offset inherited turn_id time"
_COLUMNS = (
    Column("turn", 5, is_number=True),
    Column("status", 11),
    Column("took", 6, is_number=True),
    Column("calls", 5, is_number=True, least_columns=76),
    Column("failed", 6, is_number=True, least_columns=76),
    Column("tokens", 7, is_number=True, least_columns=NARROW_COLUMNS),
)


@dataclasses.dataclass(frozen=True)
class Summary:
    """`rollout show`: {thread_id, name, path, session, …, turns, last_user, last_assistant}.

    To read: the facts, a turn a line (the newest ones, or `everything`), what was said last.
    """

    found: rollout.Summary
    everything: bool

    def json(self) -> Iterator[bytes]:
        found, state = self.found, self.found.state
        days = [{**pick(row, "day model requests"), **tokens(row.tokens)} for row in found.by_day]
        yield encode(
            {
                "thread_id": state.thread_id,
                "name": found.name,
                **pick(state, "path session"),
                "ended": found.ended,
                "model": state.previous_model,
                "models": [pick(each, f"{_MILESTONE} model=text stands") for each in found.models],
                "items": len(state.history),
                "tools": [pick(use, "name calls failures undone") for use in found.tools],
                "compactions": [pick(each, f"{_MILESTONE} items=number stands") for each in found.compactions],
                "rollbacks": [pick(each, f"{_MILESTONE} turns=number stands") for each in found.rollbacks],
                "damaged_lines": found.damaged_lines,
                "spent": tokens(found.spent),
                "spent_by_day": days,
                **pick(found, "context_tokens window_tokens"),
                "token_usage": state.token_usage,
                "turns": [_turn(each) for each in found.turns],
                **pick(found, "last_user last_assistant"),
            }
        )

    def rows(self, columns: int | None) -> Iterator[Row]:
        yield from self._facts(columns)
        yield from self._turns(columns)
        for label, item in (("user", self.found.last_user), ("assistant", self.found.last_assistant)):
            if item is not None:
                described = describe(item)
                cut = "…" if len(described.text) > _SAID_CHARS else ""
                yield ("",)
                yield ((f"last {label} message", described.style or "bold"),)
                yield Block(described.text[:_SAID_CHARS] + cut, indent_columns=2)

    def _facts(self, columns: int | None) -> Iterator[Row]:
        found, state, session = self.found, self.found.state, self.found.state.session or {}
        yield fact("session", f"{state.thread_id or '(unknown)'}{f'  {found.name}' if found.name else ''}")
        yield fact("file", str(state.path or "(bytes in memory)"))
        git = session.get("git")
        branch = git.get("branch") if isinstance(git, dict) else None
        where = (session.get("cwd"), branch, session.get("originator"), session.get("cli_version"))
        yield fact("where", "  ".join(each for each in where if isinstance(each, str)) or "(not known)")
        yield fact("time", _time(session.get("timestamp"), found.ended))
        yield fact("model", self._models())
        stand = sum(each.turn.stands for each in found.turns)
        undone = f", {len(found.turns) - stand:,} undone" if len(found.turns) > stand else ""
        yield fact("turns", f"{stand:,} stand{undone}; {count(len(state.history), 'item')}")
        yield from self._tokens(columns)
        for i, use in enumerate(found.tools[:TOOLS_SHOWN]):
            failed = f", {use.failures:,} failed" if use.failures else ""
            undone = f", {use.undone:,} undone" if use.undone else ""
            called = f"{preview(use.name, LABEL_CHARS)}: {count(use.calls, 'call')}{failed}{undone}"
            yield fact("tools" if not i else "", called)
        yield from _and_more(len(found.tools) - TOOLS_SHOWN, "tools")
        yield from _milestones("compactions", found.compactions, _compaction)
        yield from _milestones("rollbacks", found.rollbacks, lambda each: count(each.number or 0, "turn"))
        if not found.damaged_lines:
            yield fact("damage", "none")
            return
        yield fact("damage", (f"{count(found.damaged_lines, 'line')}; rollout verify lists all damage", "red"))
        for met in state.damage[:1]:
            yield fact("", f"{met.reason}; {remedy(met)}")

    def _models(self) -> str:
        models = self.found.models
        if not models:
            return self.found.state.previous_model or "(none yet)"
        shown = models[-MILESTONES_SHOWN:]
        names = [f"{preview(each.text or '', LABEL_CHARS)} (line {each.line})" for each in shown]
        left_out = len(models) - len(shown)
        return (f"{left_out:,} changes, " if left_out else "") + ", then ".join(names)

    def _tokens(self, columns: int | None) -> Iterator[Row]:
        found, of = self.found, self.found.spent
        if not of.total and found.context_tokens is None:
            yield fact("tokens", "(not recorded)")
            return
        parts = f": input {of.input:,} (cached {of.cached:,}), output {of.output:,} (reasoning {of.reasoning:,})"
        here = " here, its base's not counted" if found.state.has_base else ""
        yield fact("tokens", f"{of.total:,} spent{here}{parts if of.input or of.output else ''}")
        if found.context_tokens is not None:
            window = found.window_tokens
            share = f" of {window:,} ({found.context_tokens / window:.0%})" if window else ""
            yield fact("context", f"{found.context_tokens:,} tokens{share}")
        else:
            yield fact("context", "not measured since it was compacted" if found.compactions else "(not recorded)")
        drawn = chart([each.context_tokens for each in found.turns], columns)
        if drawn:
            greatest = max(each.context_tokens or 0 for each in found.turns)
            yield fact("growth", (drawn, "cyan"), f"  context by turn, at most {greatest:,}")

    def _turns(self, columns: int | None) -> Iterator[Row]:
        turns = self.found.turns if self.everything else self.found.turns[-TURNS_SHOWN:]
        if not turns:
            return
        table = Table(_COLUMNS, "user", columns)
        yield ("",)
        yield table.heading()
        older = self.found.turns[: len(self.found.turns) - len(turns)]
        if older:
            yield ((f"       {len(older):,} older ones: --all shows them", "dim"),)
        number = sum(each.turn.stands for each in older)
        for each in turns:
            turn = each.turn
            number += turn.stands
            shown, status = (str(number), turn.status) if turn.stands else ("-", "undone")
            counts = [f"{called:,}" if called else "" for called in (each.calls, each.failures)]
            spent, said = short_number(each.spent.total), preview(turn.user or "", columns)
            cells = (shown, status, duration(each.duration_s), *counts, spent, said)
            yield table.row(cells, "" if turn.stands else "dim", failed="red")


def _turn(each: rollout.TurnSummary) -> dict[str, Any]:
    head, took = pick(each.turn, "id status stands started ended"), pick(each, "duration_s")
    counts = {**pick(each.turn, "model items=item_count"), **pick(each, "calls failures")}
    spent = {"spent": tokens(each.spent), "context_tokens": each.context_tokens}
    return {**head, **took, **counts, **spent, "user": each.turn.user}


def _time(begin: object, end: str | None) -> str:
    from_ = local_time(begin) if isinstance(begin, str) else "(unknown)"
    if end is None:
        return from_
    day, _, time = local_time(end).partition(" ")
    return f"{from_} to {time}" if time and from_.startswith(day) else f"{from_} to {local_time(end)}"


def _compaction(each: rollout.Milestone) -> str:
    return f"to {'a text' if each.number is None else count(each.number, 'item')}"


def _milestones(
    name: str, found: Sequence[rollout.Milestone], describe_one: Callable[[rollout.Milestone], str]
) -> Iterator[Row]:
    for i, each in enumerate(found[-MILESTONES_SHOWN:]):
        place = f"line {each.line}" + (f" of {each.inherited}" if each.inherited else "")
        yield fact(name if not i else "", f"{place}: {describe_one(each)}{'' if each.stands else ' (undone)'}")
    yield from _and_more(len(found) - MILESTONES_SHOWN, "older")


def _and_more(number: int, what: str) -> Iterator[Row]:
    if number > 0:
        yield fact("", f"and {number:,} {what} more; --json has all")
