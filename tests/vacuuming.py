"""Copies, and what the tests of vacuum ask of every run: states stay, and a second run finds nothing to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rollout
from rollout import Store, VacuumStep
from tests import builders as b
from tests.builders import log

CHILD = "019d0000-0000-7000-8000-000000000002"
GRANDCHILD = "019d0000-0000-7000-8000-000000000003"
URL = "data:image/png;base64,iVBORw0KGgo="
OTHER_URL = "data:image/png;base64,AAAA"
LATER = b"2026-11-21T21:15:30.760Z"
PICTURE = {"type": "input_image", "image_url": URL}


def place(home: Path, thread: str, data: bytes) -> Path:
    path = home / "sessions/2026/03/20" / f"rollout-2026-03-20T10-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def turn(name: str) -> bytes:
    """A regular turn, with ids."""
    question, answer = b.user(f"{name}?"), b.assistant(f"{name}!")
    return log(b.started(name), b.context(name, f"m-{name}"), question, answer, b.completed(name))


def numbered(*lines: bytes, first: int = 0) -> bytes:
    found = [json.loads(line) for line in lines]
    return log(
        *[b.dump({"timestamp": value.pop("timestamp"), "ordinal": first + i, **value}) for i, value in enumerate(found)]
    )


def copied_by_codex(source: bytes, own: bytes = b"", thread: str = CHILD, of: str = b.THREAD) -> bytes:
    """A fork as the program made them: every line of the source, with a new time, behind its own session_meta."""
    renewed = source.replace(b.TIME.encode(), LATER)
    return log(b.session_meta(thread, forked_from_id=of, originator="fork")) + renewed + own


SOURCE = log(b.session_meta(b.THREAD, base_instructions={"text": "be good"})) + turn("a") + turn("b")


def state_of(path: Path) -> dict[str, Any]:
    """All that a reader is told, but for where the history comes from."""
    state = rollout.reconstruct(path)
    session = {k: v for k, v in (state.session or {}).items() if k not in ("history_base", "history_mode")}
    turns = [(turn.id, turn.status, turn.stands, turn.model, turn.user, turn.item_count) for turn in state.all_turns]
    told = [state.previous_model, state.reference, state.world_state, state.token_usage, state.base_instructions]
    prompt = state.for_prompt()
    return {"history": list(state.history), "prompt": prompt, "told": told, "turns": turns, "session": session}


def apply(home: Path, *paths: Path, legacy_forks: bool = True, event_images: bool = True) -> list[VacuumStep]:
    """Does it, and sees to it that states stay, files get shorter and a second time there is nothing left to do."""
    store = Store(home)
    all_files = [path for path in (home / "sessions").rglob("rollout-*") if path.suffix == ".jsonl"]
    before = {path: (state_of(path), path.stat().st_mtime_ns) for path in all_files}
    refs = list(paths) or None
    steps = store.vacuum(refs, apply=True, legacy_forks=legacy_forks, event_images=event_images).steps
    for path, (state, mtime) in before.items():
        assert (state_of(path), path.stat().st_mtime_ns) == (state, mtime)
        assert rollout.verify(path).damage == ()
    for step in steps:
        assert step.done is (step.reason is None)
        assert step.saved_bytes > 0
    again = store.vacuum(refs, apply=True, legacy_forks=legacy_forks, event_images=event_images).steps
    assert [step for step in again if step.reason is None] == []
    assert not list(home.rglob(".rollout*"))
    return list(steps)


def done(steps: Sequence[VacuumStep]) -> list[tuple[str, str]]:
    return [(step.action, step.path.name[-10:-6]) for step in steps if step.done]


def refused(home: Path, path: Path, **wishes: bool) -> str:
    """Why the one step for a file is not done; the file is left as it is."""
    data = path.read_bytes()
    (step,) = [step for step in apply(home, **wishes) if step.path == path]
    assert path.read_bytes() == data
    assert step.reason is not None
    return step.reason


DOUBLED = log(b.session_meta(), b.token_count(1), b.token_count(1)) + turn("a")
