"""What a home comes to: what is wrong in it, what takes its space, what its sessions have spent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import rollout
from rollout_cli.cells import NARROW_COLUMNS, Column, Table, cut_front, preview
from rollout_cli.terminal import Row, fact
from rollout_cli.units import count, short_number, size
from rollout_cli.views import array, encode, members, pick

CHART_COLUMNS, LABEL_COLUMNS = 60, 12
_BARS = "▁▂▃▄▅▆▇█"
_FINDING = "kind problem=is_problem path id=thread what remedy command resumes bytes"
_USAGE = "path text_bytes disk_bytes sealed causes would_free_bytes files trouble"
_SIZE_COLUMNS = 13
_CAUSES = {
    "standing": "items that the model sees",
    "replaced": "items that a compaction replaced",
    "rolled_back": "items that were rolled back",
    "removed": "items that were removed",
    "images": "images",
    "copied_prefix": "copies in forks of their source",
    "compactions": "copies in compactions",
    "events": "events, for people",
    "metadata": "settings and tokens",
    "damaged": "damaged lines",
    "blank": "blank",
}
_COLUMNS = (
    Column("spent", 8, is_number=True),
    Column("input", 8, is_number=True, least_columns=80),
    Column("cached", 8, is_number=True, least_columns=110),
    Column("output", 8, is_number=True, least_columns=80),
    Column("context", 8, is_number=True),
    Column("requests", 8, is_number=True, least_columns=110),
    Column("sessions", 8, is_number=True, least_columns=NARROW_COLUMNS),
)


def diagnosis_json(found: rollout.Diagnosis) -> Iterator[bytes]:
    """`rollout doctor`: {home, ok, sessions, files, bytes, indexed_files, findings}.

    A finding is {kind, problem, path, id, what, remedy, command, resumes, bytes}; `command` an array of words, or null.
    """
    known = {**pick(found, "home ok sessions files bytes"), "indexed_files": found.index.files - found.index.stale}
    return members({**known, "findings": array(pick(each, _FINDING) for each in found.findings)})


def diagnosis_rows(found: rollout.Diagnosis) -> Iterator[Row]:
    """Each finding and what helps, then the sum."""
    for each in found.findings:
        label, style = ("problem", "bold red") if each.is_problem else ("hint", "bold yellow")
        subject = each.thread or each.path
        freed = f" ({size(each.bytes)})" if each.bytes is not None else ""
        what = f"{'' if subject is None else f'{subject}: '}{each.what}{freed}"
        yield fact(label, what, columns=10, style=style)
        if each.command is None:
            yield fact("", each.remedy, columns=10)
        else:
            yield fact("", (shlex.join(each.command), "cyan"), (f"  {each.remedy}", "dim"), columns=10)
    problems = sum(each.is_problem for each in found.findings)
    hints = len(found.findings) - problems
    what = f"{count(found.sessions, 'session')} in {count(found.files, 'file')}, {size(found.bytes)}: "
    what += f"{count(problems, 'problem')}, {count(hints, 'hint')}" if found.findings else "nothing is wrong"
    label, style = ("ok", "bold green") if found.ok else ("not well", "bold red")
    yield fact(label, what, columns=10, style=style)
    held = found.index.files - found.index.stale
    yield fact("index", f"held {held:,} of {count(found.index.files, 'file')}", columns=10)


def usage_json(found: rollout.DiskUsage) -> Iterator[bytes]:
    """`rollout du`: {total, files}, each {path, text_bytes, disk_bytes, sealed, causes, would_free_bytes, …}."""
    return members({"total": pick(found.total, _USAGE), "files": array(pick(row, _USAGE) for row in found.rows)})


def usage_rows(found: rollout.DiskUsage, columns: int | None, *, each: bool) -> Iterator[Row]:
    """What the bytes are for, most first; with `each`, that of every file before the sum."""
    for usage in found.rows:
        if usage.trouble is not None:
            yield (f"{usage.path}: ", (usage.trouble, "red"))
        elif each:
            path = str(usage.path)
            yield from _causes(usage, path if columns is None else cut_front(path, columns - _SIZE_COLUMNS), columns)
    yield from _causes(found.total, count(found.total.files, "file"), columns)


def _causes(usage: rollout.FileUsage, name: str, columns: int | None) -> Iterator[Row]:
    sealed = f", {size(usage.text_bytes)} unpacked" if usage.text_bytes != usage.disk_bytes else ""
    yield (f"{size(usage.disk_bytes):>11}  ", "bold"), f"{name}{sealed}"
    is_narrow = columns is not None and columns < NARROW_COLUMNS
    for cause, taken in sorted(usage.causes.items(), key=lambda pair: pair[1], reverse=True):
        if taken:
            share = "" if is_narrow else f"{100 * taken / usage.text_bytes:5.1f} %  "
            yield (f"{size(taken):>11}  {share}{_CAUSES.get(cause, cause)}",)
    if usage.would_free_bytes:
        yield f"{size(usage.would_free_bytes):>11}  ", ("given back by sealing, about", "yellow")


def stats_json(found: rollout.Stats) -> Iterator[bytes]:
    """`rollout stats`: {sessions, …, spent, context_tokens, by_day, by_model, by_project, notes}."""
    spent = {"spent": tokens(found.spent), **pick(found, "context_tokens without_tokens")}
    tables = {
        f"by_{key}": [
            {**pick(row, f"{key}=key sessions requests"), "spent": tokens(row.spent), **pick(row, "context_tokens")}
            for row in getattr(found, f"by_{key}")
        ]
        for key in ("day", "model", "project")
    }
    notes = [pick(note, "path what") for note in found.notes]
    yield encode({**pick(found, "sessions files turns bytes requests"), **spent, **tables, "notes": notes})


def stats_rows(found: rollout.Stats, columns: int | None, *, limit: int) -> Iterator[Row]:
    """What it comes to, then a table each by day, model and project, of at most `limit` rows."""
    spent = found.spent
    yield fact("sessions", f"{found.sessions:,}, {count(found.turns, 'turn')}, {size(found.bytes)}")
    if found.without_tokens:
        yield fact("", f"{found.without_tokens:,} without token counts")
    yield fact("spent", f"{count(spent.total, 'token')} in {count(found.requests, 'request')}")
    yield fact("", f"input {spent.input:,} (cached {spent.cached:,})")
    yield fact("", f"output {spent.output:,} (reasoning {spent.reasoning:,})")
    yield fact("in context", f"{found.context_tokens:,} tokens now")
    if drawn := chart([row.spent.total for row in found.by_day if row.key is not None], columns):
        yield fact("by day", (drawn, "cyan"))
    for name, rows in (("day (UTC)", found.by_day[::-1]), ("model", found.by_model), ("project", found.by_project)):
        table = Table(_COLUMNS, name, columns)
        if rows:
            yield ("",)
            yield table.heading()
        for row in rows[:limit]:
            of = row.spent
            numbers = map(short_number, (of.total, of.input, of.cached, of.output, row.context_tokens))
            key = "(not known)" if row.key is None else preview(row.key, None)
            shown = key if table.room is None else cut_front(key, table.room)
            yield table.row([*numbers, f"{row.requests:,}", f"{row.sessions:,}", shown])
        if len(rows) > limit:
            yield ((f"          and {len(rows) - limit:,} more: --limit shows them", "dim"),)


def tokens(found: rollout.Tokens) -> dict[str, int]:
    """Numbers of tokens."""
    keys = "input_tokens=input cached_input_tokens=cached output_tokens=output reasoning_output_tokens=reasoning"
    return pick(found, f"{keys} total_tokens=total")


def token_words(key: str) -> str:
    """A key of a token usage in words: `cached input`."""
    return key.removesuffix("_tokens").replace("_", " ")


def chart(values: Sequence[int | None], columns: int | None = None) -> str:
    """The values as bars, oldest first; of more than there is room for, the greatest of each few. None and 0: none.

    The tallest bar is the greatest value. `columns` is the width of the terminal, of which a label takes its part.
    """
    room = CHART_COLUMNS if columns is None else min(CHART_COLUMNS, max(columns - LABEL_COLUMNS, 1))
    step = max(1, -(-len(values) // room))
    tops = [max(each or 0 for each in values[i : i + step]) for i in range(0, len(values), step)]
    greatest = max(tops, default=0)
    bars = (_BARS[(len(_BARS) - 1) * top // greatest] if top else " " for top in tops)
    return "".join(bars) if greatest else ""
