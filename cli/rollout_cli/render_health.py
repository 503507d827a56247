"""What is wrong in a home, as rows to read. As in `render`, nothing here prints and nothing escapes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rollout_cli.render import count, size
from rollout_cli.terminal import Line

if TYPE_CHECKING:
    import rollout


def diagnosis(found: rollout.Diagnosis) -> Iterator[Line]:
    """`rollout doctor`: each finding, what helps, then the sum."""
    for finding in found.findings:
        yield from _finding(finding)
    problems = sum(finding.is_problem for finding in found.findings)
    hints = len(found.findings) - problems
    what = f"{count(found.sessions, 'session')} in {count(found.files, 'file')}, {size(found.bytes)}: "
    what += f"{count(problems, 'problem')}, {count(hints, 'hint')}" if found.findings else "nothing is wrong"
    label, style = ("ok", "bold green") if found.ok else ("not well", "bold red")
    yield (f"{label:<10}", style), what
    index = found.index
    yield ("index     ", "bold"), f"held {index.files - index.stale:,} of {count(index.files, 'file')}"


def _finding(finding: rollout.Finding) -> Iterator[Line]:
    label, style = ("problem", "bold red") if finding.is_problem else ("hint", "bold yellow")
    subject = finding.thread or finding.path
    where = "" if subject is None else f"{subject}: "
    room = f" ({size(finding.bytes)})" if finding.bytes is not None else ""
    yield (f"{label:<10}", style), f"{where}{finding.what}{room}"
    if finding.command is None:
        yield f"{'':<10}", finding.remedy
    else:
        yield f"{'':<10}", (shlex.join(finding.command), "cyan"), (f"  {finding.remedy}", "dim")
