"""The patches that models give to the apply_patch tool, and the files that one changes.

*** Begin Patch
*** Add File: a.txt
+a line
*** Update File: b.txt
*** Move to: c.txt
@@ def f():
-    old
+    new
*** Delete File: d.txt
*** End Patch
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

BEGIN, END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE, _MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "
_END_OF_FILE = "*** End of File"


def patch_in(text: str) -> str | None:
    """The patch that a text holds (a here-document, say), without its first and last line; None if it holds none."""
    begin = text.find(BEGIN)
    end = text.find(f"\n{END}", begin)
    line = text.find("\n", begin)
    return text[line + 1 : end + 1] if 0 <= begin < line <= end else None


def changes_of(patch: str) -> dict[str, dict[str, Any]]:
    """The changes by path, as the patch names it.

    {"type": "add", "content"}, {"type": "delete", "content"} or {"type": "update", "unified_diff", "move_path"}: what
    stood in a deleted file is not in the patch, nor are the numbers of the lines that change.
    """
    changes: dict[str, dict[str, Any]] = {}
    lines: list[str] = []  # of the change that was begun last
    for line in patch.split("\n")[:-1]:
        if line.startswith(_ADD):
            changes[line.removeprefix(_ADD)] = {"type": "add", "content": (lines := [])}
        elif line.startswith(_DELETE):
            changes[line.removeprefix(_DELETE)] = {"type": "delete", "content": (lines := [])}
        elif line.startswith(_UPDATE):
            changes[line.removeprefix(_UPDATE)] = {"type": "update", "unified_diff": (lines := []), "move_path": None}
        elif line.startswith(_MOVE) and changes:
            changes[next(reversed(changes))]["move_path"] = line.removeprefix(_MOVE)
        elif line != _END_OF_FILE:
            lines.append(line)
    return {
        path: {key: _joined(str(change["type"]), value) for key, value in change.items()}
        for path, change in changes.items()
    }


def _joined(kind: str, value: Any) -> Any:
    """The lines of a change as one text; those of a new file without the sign ahead of each."""
    if not isinstance(value, list):
        return value
    lines: Iterable[str] = (line[1:] for line in value) if kind == "add" else value
    return "".join(f"{line}\n" for line in lines)
