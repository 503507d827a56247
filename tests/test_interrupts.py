"""An interrupt at any point of any operation: nothing hangs, nothing acknowledged is lost, nothing is there twice.

ROLLOUT_CRASH=1 (`just interrupts`) asks for each point of each operation; else a share of them is asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import rollout
from rollout import Cipher, Durability, SessionLog, Store
from rollout.errors import InUse, Locked, Poisoned, WriteError
from rollout.testing.disk import Effect, Fault, OpKind, SimulatedDisk
from tests.builders import assistant_item, user_item
from tests.interrupting import LINES, SIGNALS, Points, at_points, check_lines, interrupt, within
from tests.sessions import a_log, a_store, context

pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <generator")
"""CPython swallows what is raised while it closes a generator that nobody wants any more: Ctrl-C has to come again."""

ALL = "ROLLOUT_CRASH" in os.environ
MOST = 10_000 if ALL else 5
"""So many points of an operation are asked for, evenly spread."""
PLAN = "<proposed_plan>\nfirst\n</proposed_plan>"


@dataclasses.dataclass
class Session:
    """A log, and the words that were acknowledged: each stands in one line of its own."""

    store: Store
    cipher: Cipher | None
    log: SessionLog
    told: list[str] = dataclasses.field(default_factory=list)
    asked: list[str] = dataclasses.field(default_factory=list)

    def do(self, call: Callable[[str], object]) -> None:
        word = f"word-{len(self.asked)}-"
        self.asked.append(word)
        call(word)
        self.told.append(word)


def write_turn(session: Session) -> None:
    with session.log.turn(context(), tags={"a": "b"}) as turn:
        session.do(turn.user)
        session.do(lambda word: turn.append(assistant_item(word + PLAN)))


def write_items(session: Session) -> None:
    with session.log.turn(context()) as turn:
        session.do(lambda word: turn.append(user_item(word)))
        session.do(lambda word: turn.append_all([user_item(word), user_item("more")]))
        session.do(lambda word: turn.event("custom", word=word))
        turn.commit()


def compact_in_turn(session: Session) -> None:
    with session.log.turn(context()) as turn:
        session.do(lambda word: turn.compact([user_item(word)]))


def abort(session: Session) -> None:
    with session.log.turn(context()) as turn:
        session.do(turn.user)
        turn.abort("replaced")


def fail(session: Session) -> None:
    with contextlib.suppress(ValueError), session.log.turn(context()) as turn:
        session.do(turn.user)
        raise ValueError


def fork(session: Session) -> None:
    with session.log.fork() as child:
        child.event("custom")


def close(session: Session) -> None:
    session.log.close()


def close_in_turn(session: Session) -> None:
    with session.log.turn(context()) as turn:
        session.do(turn.user)
        session.log.close()


def open_again(session: Session) -> None:
    session.log.close()
    session.log = session.store.open(session.log.id)


def create(session: Session) -> None:
    with a_log(session.store) as log:
        log.event("custom")


OPERATIONS: dict[str, Callable[[Session], object]] = {
    "create": create,
    "open": open_again,
    "turn": write_turn,
    "items": write_items,
    "compact in a turn": compact_in_turn,
    "abort": abort,
    "an exception": fail,
    "record": lambda session: session.do(lambda word: session.log.event("custom", word=word)),
    "compact": lambda session: session.do(lambda word: session.log.compact([user_item(word)])),
    "rollback": lambda session: session.log.rollback(1),
    "commit": lambda session: session.log.commit(),
    "fork": fork,
    "close": close,
    "close in a turn": close_in_turn,
}


KINDS = list(itertools.product(["plain", "encrypted"], [Durability.TURN, Durability.RECORD]))
EACH = [
    pytest.param(operation, kind, durability, id=f"{operation}-{kind}-{durability.value}")
    for n, operation in enumerate(OPERATIONS)
    for kind, durability in (KINDS if ALL else [KINDS[n % len(KINDS)]])
]


@pytest.mark.parametrize("points", [SIGNALS, LINES])
@pytest.mark.parametrize(("operation", "kind", "durability"), EACH)
def test_an_interrupt_at_any_point_of_writing_tears_nothing(
    operation: str, kind: str, durability: Durability, points: Points, tmp_path: Path
) -> None:
    homes = (tmp_path / str(n) for n in itertools.count())
    rollout.make_key(tmp_path / "keys", "k1")
    cipher = Cipher.from_file(tmp_path / "keys") if kind == "encrypted" else None

    def run(points: Points, nth: int) -> int:
        store = Store(next(homes), cipher=cipher)
        session = Session(store, cipher, a_log(store, durability))
        write_turn(session)
        there = interrupt(points, nth, lambda: OPERATIONS[operation](session))
        check_session(session, is_closed="close" in operation or operation == "open")
        return there

    assert at_points(points, run, MOST) > 5


def check_session(session: Session, *, is_closed: bool) -> None:
    def go_on(word: str) -> None:
        if is_closed:
            session.log.close()
            with contextlib.suppress(Locked), session.store.open(session.log.path) as again:
                again.event("custom", word=word)
                return
            raise AssertionError("the lock is still held")
        with session.log.turn(context()) as turn:
            turn.user(word)
        session.log.commit()

    with within(20) as in_a_thread:
        in_a_thread(lambda: session.do(go_on))
        in_a_thread(session.log.close)
    for path in sorted(session.store.home.rglob("rollout-*.jsonl")):
        with session.store.open(path) as log, log.turn(context()) as turn:
            turn.user("opened again")
        check_file(session, path, is_it=path == session.log.path)


def check_file(session: Session, path: Path, *, is_it: bool) -> None:
    count = check_lines(path, session.cipher, *((session.told, session.asked) if is_it else ([], [])))
    if session.cipher is not None:
        with contextlib.suppress(InUse):  # it has forks
            session.store.decrypt(path)
            session.store.rekey(path)
        assert len(list(rollout.records(path, cipher=session.cipher))) == count


def test_an_interrupt_at_any_point_of_a_label_block_leaves_no_label_in_force() -> None:
    def block() -> None:
        with rollout.label("a"), rollout.label(tags={"b": "1"}):
            pass

    def run(points: Points, nth: int) -> int:
        with rollout.label("outer") as outer:
            there = interrupt(points, nth, block)
            with rollout.label() as found:
                assert found == outer
        with rollout.label() as found:
            assert not found
        return there

    assert at_points(SIGNALS, run, 10_000) > 20


@pytest.mark.parametrize("kind", [OpKind.SYNC, OpKind.WRITE, OpKind.SYNC_DIR])
def test_a_failure_of_the_disk_is_not_forgotten_where_an_interrupt_comes_behind_it(kind: OpKind) -> None:
    failed = 0

    def run(points: Points, nth: int) -> int:
        nonlocal failed
        disk = SimulatedDisk()
        log = a_log(a_store("/home", fs=disk), Durability.NONE).fork()  # whose directory is not synced yet
        disk.faults = [Fault(disk.attempts.count(kind), Effect.FAIL, kind)]

        def act() -> None:
            with contextlib.suppress(WriteError):
                log.event("custom")
                log.commit()

        there = interrupt(points, nth, act)
        if disk.attempts.count(kind) > disk.faults[0].nth:
            failed += 1
            with pytest.raises(Poisoned):
                log.event("custom")
        return there

    assert at_points(SIGNALS, run, 10_000) > 50
    assert failed > 5
