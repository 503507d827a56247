"""Logs in the shape in which Codex begins them today: paginated, with an ordinal on every line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollout.dialects.codex.encoder import Part, encode, timestamp
from rollout.files.port import Durability
from rollout.session.environment import Ports
from rollout.session.log import SessionLog, create_log
from rollout.testing.disk import SimulatedDisk
from tests.live_model import Live
from tests.witness import HOME, Ack, Moment, Step, Trial, Witness


def begin(ports: Ports, durability: Durability = Durability.TURN, cwd: str = "/p") -> SessionLog:
    """A new paginated log, as Codex would begin it."""
    thread, created = ports.new_id(), ports.clock()
    session = {"id": thread, "timestamp": timestamp(created), "cwd": cwd, "history_mode": "paginated"}
    meta = Part("session_meta", encode({**session, "model_provider": "m"}))
    return create_log(ports.new_path(thread), thread, meta, created, ports, durability, ordinal=0)


def shown(data: bytes) -> list[dict[str, Any]]:
    """The items of the item_completed events of a log."""
    payloads = [json.loads(line)["payload"] for line in data.splitlines()]
    return [payload["item"] for payload in payloads if payload.get("type") == "item_completed"]


class PaginatedTrial(Trial):
    """Makes paginated logs only."""

    def __init__(self, disk: SimulatedDisk, ack: Ack = lambda _: None, *, since: int = 0) -> None:
        super().__init__(disk, ack, since=since)
        self.make_witness = PaginatedWitness

    def create(self, durability: Durability = Durability.TURN) -> Witness:
        """A new thread."""
        log = begin(Ports(Path(HOME), self.disk, self._clock, self._randomness), durability)
        live = Live()
        live.meta()
        return self.watch(log, Moment(live, 1), is_durable=durability is not Durability.NONE)


class PaginatedWitness(Witness):
    """Takes from the file where events stand: what comes back of the log must not depend on them."""

    def _did(
        self, steps: Sequence[Step], *, atomic: bool = False, began: str | None = None, ended: str | None = None
    ) -> None:
        written = (self.trial.disk.tree()[str(self.path)] or b"").split(b"\n")[self.moments[-1].lines : -1]
        left = [step for step in steps if step is not Live.event]
        is_event_alone = not left
        done: list[Step] = []
        for line in written:
            kind = json.loads(line.strip(b"\0"))["payload"].get("type")
            if kind == "item_completed" or is_event_alone:
                done.append(Live.event)
            elif left:
                done.append(left.pop(0))
            else:
                break
        done += left  # the end of a turn that was left open: written along with what comes next, and it has no events
        super()._did(done, atomic=atomic, began=began, ended=ended)
