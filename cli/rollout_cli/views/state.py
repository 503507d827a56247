"""One session: the state to go on from, its history, its turns, and all of it on a page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import rollout
from rollout_cli.cells import LABEL_CHARS, NARROW_COLUMNS, Column, Table, fill, id_columns, preview, short_id
from rollout_cli.items import describe, describe_at, to_json
from rollout_cli.terminal import Block, Row, fact
from rollout_cli.units import count, duration, local_time, seconds_between, short_number, size
from rollout_cli.views import array, encode, members, pick
from rollout_cli.views.lines import remedy, where
from rollout_cli.views.totals import chart, token_words, tokens

DAMAGE_SHOWN = 5
TURNS_SHOWN, TOOLS_SHOWN, MILESTONES_SHOWN = 20, 12, 5
_SAID_CHARS = 2000
_SUMMED_TURN = (
    "id=turn.id status=turn.status stands=turn.stands started=turn.started ended=turn.ended duration_s "
    "model=turn.model items=turn.item_count calls failures"
)
_MILESTONE = "line offset inherited turn_id time"
_SUMMED = (
    Column("turn", 5, is_number=True),
    Column("status", 11),
    Column("took", 6, is_number=True),
    Column("calls", 5, is_number=True, least_columns=76),
    Column("failed", 6, is_number=True, least_columns=76),
    Column("tokens", 7, is_number=True, least_columns=NARROW_COLUMNS),
)
_TURN = (
    "id derived status stands started ended line offset end_offset items=item_count user model plans session_id tags"
)


def state_json(state: rollout.State) -> Iterator[bytes]:
    """`rollout reconstruct`: {history, prompt, previous_model, …}; `prompt` is not truncated (S6)."""
    items = {"history": history_json(state.history), "prompt": array(state.for_prompt())}
    known = pick(state, "previous_model reference_context session world_state token_usage")
    damage = [pick(met, "line offset reason") for met in state.damage]
    rest = pick(state, "bytes_read records_decoded base_instructions thread_id path")
    yield from members({**items, **known, "damage": damage, **rest})


def state_rows(state: rollout.State, columns: int | None) -> Iterator[Row]:
    """What there is to go on from, a fact a row."""
    session = state.session or {}
    yield fact("session", state.thread_id or "(unknown)")
    yield fact("file", str(state.path or "(bytes in memory)"))
    begun = local_time(when) if isinstance(when := session.get("timestamp"), str) else ""
    place = _join(session, "cwd", "originator", "cli_version", "model_provider")
    yield fact("where", "  ".join(filter(None, (begun, place))) or "(not known)")
    yield fact("model", state.previous_model or "(none yet)")
    yield fact("context", _context(state.reference_context))
    yield fact("history", count(len(state.history), "item"))
    for label in ("user", "assistant"):
        said = _last(state.history, label)
        if said is not None:
            yield fact(f"  {label}", preview(said, columns))
    yield fact("tokens", _tokens(state.token_usage))
    world = "(none)" if state.world_state is None else preview(", ".join(state.world_state), columns)
    yield fact("world", world)
    whole = ""
    with contextlib.suppress(OSError):
        if state.path is not None:
            whole = f" of {size(Path(state.path).stat().st_size)}{' and its base' if state.has_base else ''}"
    yield fact("read", f"{size(state.bytes_read)}{whole}, {state.records_decoded:,} records")
    if not state.damage:
        yield fact("damage", "none met")
    for met in state.damage[:DAMAGE_SHOWN]:
        yield fact("damage", (f"{where(met, state.path)}: {met.reason}", "red"))
    if len(state.damage) > DAMAGE_SHOWN:
        yield fact("", f"and {len(state.damage) - DAMAGE_SHOWN:,} more: rollout verify lists them")


def history_json(items: Sequence[Mapping[str, Any]], newest: int | None = None) -> Iterator[bytes]:
    """`rollout history`: the `newest` items, oldest first; as recorded, or as they can be sent."""
    return array(items.raw(i) if isinstance(items, rollout.History) else items[i] for i in _numbers(items, newest))


def history_rows(
    items: Sequence[Mapping[str, Any]], newest: int | None, columns: int | None, *, full: bool
) -> Iterator[Row]:
    """An item a row; if `full`, its whole text below."""
    for i in _numbers(items, newest):
        item = describe_at(items, i)
        label = (f"{fill(preview(item.label, LABEL_CHARS), 10)} ", item.style)
        if full:
            yield (f"{i + 1:>5}  ", label)
            yield Block(item.text)
        else:
            yield (f"{i + 1:>5}  ", label, preview(item.text, columns))


def _numbers(items: Sequence[Mapping[str, Any]], newest: int | None) -> range:
    return range(0 if newest is None else max(len(items) - newest, 0), len(items))


def turns_json(turns: Sequence[rollout.Turn]) -> Iterator[bytes]:
    """`rollout turns`: `items` is how many there are, `user` the first text of the user."""
    return array(pick(turn, _TURN) for turn in turns)


def turns_rows(turns: Sequence[rollout.Turn], columns: int | None) -> Iterator[Row]:
    """A turn a row; one that is undone has no number."""
    parts = (
        Column("#", 4, is_number=True),
        Column("id", id_columns(columns)),
        Column("status", 11),
        Column("started", 16, least_columns=76),
        Column("took", 6, is_number=True, least_columns=NARROW_COLUMNS),
        Column("items", 5, is_number=True, least_columns=100),
    )
    table = Table(parts, "user", columns)
    yield table.heading()
    number = 0
    for turn in turns:
        number += turn.stands
        cells = (
            str(number) if turn.stands else "-",
            f"{short_id(turn.id or '', columns)}{' (derived)' if turn.derived and columns is None else ''}",
            turn.status if turn.stands else "undone",
            local_time(turn.started),
            duration(seconds_between(turn.started, turn.ended)),
            str(turn.item_count),
            preview(turn.user or "", columns),
        )
        yield table.row(cells, "" if turn.stands else "dim")


def summary_json(found: rollout.Summary) -> Iterator[bytes]:
    """`rollout show`: {thread_id, name, path, session, …, turns, last_user, last_assistant}."""
    yield encode(
        {
            **pick(found, "thread_id=state.thread_id name path=state.path session=state.session ended"),
            "model": found.state.previous_model,
            "models": [pick(each, f"{_MILESTONE} model=text stands") for each in found.models],
            "items": len(found.state.history),
            "tools": [pick(use, "name calls failures undone") for use in found.tools],
            "compactions": [pick(each, f"{_MILESTONE} items=number stands") for each in found.compactions],
            "rollbacks": [pick(each, f"{_MILESTONE} turns=number stands") for each in found.rollbacks],
            "damaged_lines": found.damaged_lines,
            "spent": tokens(found.spent),
            "spent_by_day": [{**pick(row, "day model requests"), **tokens(row.tokens)} for row in found.by_day],
            **pick(found, "context_tokens window_tokens token_usage=state.token_usage"),
            "turns": [
                {**pick(each, _SUMMED_TURN), "spent": tokens(each.spent), **pick(each, "context_tokens user=turn.user")}
                for each in found.turns
            ],
            **pick(found, "last_user last_assistant"),
        }
    )


def summary_rows(found: rollout.Summary, columns: int | None, *, everything: bool) -> Iterator[Row]:
    """The facts, a turn a row (the newest ones, or `everything`), what was said last."""
    yield from _session_facts(found)
    yield from _spent(found, columns)
    yield from _events(found)
    yield from _summed_turns(found.turns, columns, len(found.turns) if everything else TURNS_SHOWN)
    for label, item in (("user", found.last_user), ("assistant", found.last_assistant)):
        if item is not None:
            described = describe(item)
            cut = "…" if len(described.text) > _SAID_CHARS else ""
            yield ("",)
            yield ((f"last {label} message", described.style or "bold"),)
            yield Block(described.text[:_SAID_CHARS] + cut, indent_columns=2)


def _session_facts(found: rollout.Summary) -> Iterator[Row]:
    state, session = found.state, found.state.session or {}
    yield fact("session", f"{state.thread_id or '(unknown)'}{f'  {found.name}' if found.name else ''}")
    yield fact("file", str(state.path or "(bytes in memory)"))
    git = session.get("git")
    branch = git.get("branch") if isinstance(git, dict) else None
    where = (session.get("cwd"), branch, session.get("originator"), session.get("cli_version"))
    yield fact("where", "  ".join(each for each in where if isinstance(each, str)) or "(not known)")
    begun = session.get("timestamp")
    from_, until = local_time(begun) if isinstance(begun, str) else "(unknown)", local_time(found.ended)
    day, _, time = until.partition(" ")
    until = time if time and from_.startswith(day) else until
    yield fact("time", f"{from_} to {until}" if until else from_)
    shown = found.models[-MILESTONES_SHOWN:]
    names = ", then ".join(f"{preview(each.text or '', LABEL_CHARS)} (line {each.line})" for each in shown)
    left_out = f"{len(found.models) - len(shown):,} changes, " if len(found.models) > len(shown) else ""
    yield fact("model", f"{left_out}{names}" if names else state.previous_model or "(none yet)")
    stand = sum(each.turn.stands for each in found.turns)
    undone = f", {len(found.turns) - stand:,} undone" if len(found.turns) > stand else ""
    yield fact("turns", f"{stand:,} stand{undone}; {count(len(state.history), 'item')}")


def _spent(found: rollout.Summary, columns: int | None) -> Iterator[Row]:
    of = found.spent
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
    measured = [each.context_tokens or 0 for each in found.turns]
    if drawn := chart(measured, columns):
        yield fact("growth", (drawn, "cyan"), f"  context by turn, at most {max(measured):,}")


def _events(found: rollout.Summary) -> Iterator[Row]:
    """Tools, what was compacted and rolled back, damage."""
    for i, use in enumerate(found.tools[:TOOLS_SHOWN]):
        failed = f", {use.failures:,} failed" if use.failures else ""
        undone = f", {use.undone:,} undone" if use.undone else ""
        called = f"{preview(use.name, LABEL_CHARS)}: {count(use.calls, 'call')}{failed}{undone}"
        yield fact("tools" if not i else "", called)
    yield from _and_more(len(found.tools) - TOOLS_SHOWN, "tools")
    yield from _milestones("compactions", found.compactions, "item")
    yield from _milestones("rollbacks", found.rollbacks, "turn")
    if not found.damaged_lines:
        yield fact("damage", "none")
        return
    yield fact("damage", (f"{count(found.damaged_lines, 'line')}; rollout verify lists all damage", "red"))
    for met in found.state.damage[:1]:
        yield fact("", f"{met.reason}; {remedy(met)}")


def _milestones(name: str, found: Sequence[rollout.Milestone], noun: str) -> Iterator[Row]:
    for i, each in enumerate(found[-MILESTONES_SHOWN:]):
        place = f"line {each.line}" + (f" of {each.inherited}" if each.inherited else "")
        amount = "a text" if each.number is None else count(each.number, noun)
        undone = "" if each.stands else " (undone)"
        yield fact(name if not i else "", f"{place}: {'to ' if noun == 'item' else ''}{amount}{undone}")
    yield from _and_more(len(found) - MILESTONES_SHOWN, "older")


def _and_more(number: int, what: str) -> Iterator[Row]:
    if number > 0:
        yield fact("", f"and {number:,} {what} more; --json has all")


def _summed_turns(turns: Sequence[rollout.TurnSummary], columns: int | None, most: int) -> Iterator[Row]:
    """A turn a row, the newest ones."""
    if not turns:
        return
    table = Table(_SUMMED, "user", columns)
    yield ("",)
    yield table.heading()
    older = max(len(turns) - most, 0)
    if older:
        yield ((f"       {older:,} older ones: --all shows them", "dim"),)
    number = sum(each.turn.stands for each in turns[:older])
    for each in turns[older:]:
        turn = each.turn
        number += turn.stands
        shown, status = (str(number), turn.status) if turn.stands else ("-", "undone")
        counts = [f"{called:,}" if called else "" for called in (each.calls, each.failures)]
        spent, said = short_number(each.spent.total), preview(turn.user or "", columns)
        cells = (shown, status, duration(each.duration_s), *counts, spent, said)
        yield table.row(cells, "" if turn.stands else "dim", failed="red")


def _join(mapping: Mapping[str, Any], *keys: str) -> str:
    return "  ".join(_scalar(mapping[key]) for key in keys if mapping.get(key) is not None)


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _context(context: Mapping[str, Any] | None) -> str:
    if context is None:
        return "none: the next turn gives the model its whole context again"
    policies = {key: value for key, value in context.items() if key.endswith("_policy") and isinstance(value, str)}
    words = {**context, **{key: f"{key.removesuffix('_policy')} {value}" for key, value in policies.items()}}
    return _join(words, "model", "effort", "cwd", *policies, "turn_id") or to_json(context)


def _last(items: rollout.History, label: str) -> str | None:
    """The newest text of that role, if possible one that no program wrote (S5); None if there is none."""
    newest = None
    for i in reversed(range(len(items))):
        item = items[i]
        if item.get("type") != "message" or item.get("role") != label or items.is_summary(i):
            continue
        text = describe(item).text.strip()
        if not rollout.is_program_message(item):
            return text
        newest = text if newest is None else newest
    return newest


def _tokens(usage: Mapping[str, Any] | None) -> str:
    if usage is None:
        return "(not recorded)"
    counts = [(token_words(key), n) for key, n in usage.items() if key.endswith("_tokens") and n]
    return ", ".join(f"{words} {n:,}" if isinstance(n, int) else f"{words} {_scalar(n)}" for words, n in counts) or "0"
