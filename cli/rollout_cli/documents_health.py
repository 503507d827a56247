"""What is wrong in a home, as a JSON document for `Output.print_json`; see `documents` for its keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rollout_cli.documents import array, encode, name

if TYPE_CHECKING:
    import rollout


def diagnosis(found: rollout.Diagnosis) -> Iterator[bytes]:
    """`rollout doctor --json`: {home, ok, sessions, files, bytes, indexed_files, findings}.

    A finding is {kind, problem, path, id, what, remedy, command, resumes, bytes}; `command` an array of words, or null.
    """
    known = found.index.files - found.index.stale
    numbers = {"sessions": found.sessions, "files": found.files, "bytes": found.bytes, "indexed_files": known}
    head = encode({"home": name(found.home), "ok": found.ok, **numbers})
    yield head[:-1] + b',"findings":'
    yield from array(encode(_finding(finding)) for finding in found.findings)
    yield b"}"


def _finding(finding: rollout.Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "problem": finding.is_problem,
        "path": name(finding.path),
        "id": finding.thread,
        "what": finding.what,
        "remedy": finding.remedy,
        "command": finding.command,
        "resumes": finding.resumes,
        "bytes": finding.bytes,
    }
