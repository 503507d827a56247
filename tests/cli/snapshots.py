"""Views as they were when somebody last looked at them: text files in `fixtures/views`, each with all widths of one.

`just snapshots` writes them anew (ROLLOUT_SNAPSHOTS=write does); what it changed is then read as any change is.
"""

from __future__ import annotations

import difflib
import os

import pytest

from tests.cli import REPOSITORY

FOLDER = REPOSITORY / "fixtures" / "views"
IS_WRITING = os.environ.get("ROLLOUT_SNAPSHOTS") == "write"


def compare(name: str, shown: str) -> None:
    """Fail with what has changed, or write it if that is asked for."""
    path = FOLDER / f"{name}.txt"
    if IS_WRITING:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(shown.encode())
        return
    before = path.read_bytes().decode() if path.exists() else ""
    if shown != before:
        told = difflib.unified_diff(before.split("\n"), shown.split("\n"), str(path), "what is shown now", lineterm="")
        pytest.fail("\n".join([*told, "", "If it should be so: just snapshots"]), pytrace=False)
