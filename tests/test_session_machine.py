"""Sessions in any order of steps and crashes: the reader, the slow fold of the bytes and a model in memory agree."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings

from rollout.testing.crashes import Tree
from rollout.testing.disk import SimulatedDisk
from tests import reference
from tests.live_model import Seen
from tests.paginated import PaginatedTrial
from tests.session_machine import SessionMachine
from tests.witness import START, Witness, cut_batch


def visible(data: bytes) -> bytes:
    """Without a batch at the end that a crash has cut short, and without what stands behind it."""
    lines = data.rstrip(b"\0").split(b"\n")
    whole = [line for line in lines if line.strip(b"\0") and is_json(line.strip(b"\0"))]
    cut = cut_batch(whole)
    return b"".join(line + b"\n" for line in whole[:-cut]) if cut else data


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def lineage(tree: Tree, data: bytes) -> list[bytes]:
    """The bytes that a file goes on from, oldest first."""
    head = json.loads(data.split(b"\n")[0].strip(b"\0"))
    base = head["payload"].get("history_base")
    if base is None:
        return []
    files = [found for path, found in tree.items() if path.endswith(f"{base['thread_id']}.jsonl")]
    assert len(files) == 1
    assert files[0] is not None
    prefix = files[0][: base["end_byte_offset"]]
    return [*lineage(tree, prefix), prefix]


def fold(witness: Witness) -> Seen:
    """What the slow reference says of the bytes on the disk."""
    tree = witness.trial.disk.tree()
    data = visible(tree[str(witness.path)] or b"")
    found = reference.fold(data, bases=lineage(tree, data))
    told: Any = {"set": found.reference_context, "cleared": "cleared", "never": None}[found.reference_state]
    return {
        "history": found.history,
        "previous_model": found.previous_model,
        "reference": told,
        "world_state": found.world_state,
        "token_usage": found.token_usage,
        "turns": [(turn.id, turn.status) for turn in found.standing_turns],
    }


class Sessions(SessionMachine):
    """Also asks the slow reference, and that no id of a turn comes twice."""

    def verify(self, witness: Witness) -> None:
        witness.compare(fold(witness), "the slow reference")
        assert len(set(witness.live.turn_ids)) == len(witness.live.turn_ids)


class PaginatedSessions(Sessions):
    """The same with logs in which each item that turns show has an event beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.trial = PaginatedTrial(SimulatedDisk(START), self._ack)

    def verify(self, witness: Witness) -> None:
        super().verify(witness)
        records = [json.loads(line) for line in self._lines(witness)]
        ordinals = [record["ordinal"] for record in records if "ordinal" in record]
        assert ordinals == list(range(len(ordinals))) or ordinals == list(
            range(ordinals[0], ordinals[0] + len(ordinals))
        )

    def _lines(self, witness: Witness) -> list[bytes]:
        data = visible(witness.trial.disk.tree()[str(witness.path)] or b"")
        return [line.strip(b"\0") for line in data.splitlines() if is_json(line.strip(b"\0"))]


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=20, stateful_step_count=40)

TestPaginatedSessions = PaginatedSessions.TestCase
TestPaginatedSessions.settings = settings(max_examples=10, stateful_step_count=30)
