"""What is wrong in a home, and what takes its space."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator

import rollout
from rollout_cli.cells import NARROW_COLUMNS, cut_front
from rollout_cli.terminal import Row, fact
from rollout_cli.units import count, size
from rollout_cli.views import array, members, pick

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


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """`rollout doctor`: {home, ok, sessions, files, bytes, indexed_files, findings}.

    A finding is {kind, problem, path, id, what, remedy, command, resumes, bytes}; `command` an array of words, or null.
    To read: each finding and what helps, then the sum.
    """

    found: rollout.Diagnosis

    def json(self) -> Iterator[bytes]:
        known = {"indexed_files": self.found.index.files - self.found.index.stale}
        findings = array(pick(each, _FINDING) for each in self.found.findings)
        return members({**pick(self.found, "home ok sessions files bytes"), **known, "findings": findings})

    def rows(self, columns: int | None) -> Iterator[Row]:
        found, index = self.found, self.found.index
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
        yield fact("index", f"held {index.files - index.stale:,} of {count(index.files, 'file')}", columns=10)


@dataclasses.dataclass(frozen=True)
class Usage:
    """`rollout du`: {total, files}, each {path, text_bytes, disk_bytes, sealed, causes, would_free_bytes, …}.

    To read: what the bytes are for, most first; with `each`, that of every file before the sum.
    """

    found: rollout.DiskUsage
    each: bool

    def json(self) -> Iterator[bytes]:
        return members(
            {"total": pick(self.found.total, _USAGE), "files": array(pick(row, _USAGE) for row in self.found.rows)}
        )

    def rows(self, columns: int | None) -> Iterator[Row]:
        for usage in self.found.rows:
            if usage.trouble is not None:
                yield (f"{usage.path}: ", (usage.trouble, "red"))
            elif self.each:
                path = str(usage.path)
                yield from _causes(
                    usage, path if columns is None else cut_front(path, columns - _SIZE_COLUMNS), columns
                )
        total = self.found.total
        yield from _causes(total, count(total.files, "file"), columns)


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
