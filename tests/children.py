"""What the tests of faults, kills and processes run in processes of their own: `python -m tests.children NAME …`.

A child has imported the library once and forks for every session, so that a session costs milliseconds. What a
session was told goes to the standard output at once, one JSON array a line, by `writev`: neither a fault that is put
into `write` nor a full disk touches it, and lines of several processes do not mix.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rollout import SessionLog
from rollout.errors import Locked, NotFound, Poisoned, RolloutError, WriteError
from rollout.files.port import Durability
from rollout.files.recovery import mark_batch
from rollout.session.turn import OpenTurn
from tests.builders import assistant_item, user_item
from tests.sessions import a_store, context

ROOT = Path(__file__).parent.parent
_PAGE_BYTES = 4096


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-B", "-m", "tests.children", name, *map(str, arguments)]  # -B: no writes of its own


def run(name: str, *arguments: object, under: Sequence[str] = ()) -> list[list[Any]]:
    """What a child said, `under` another program."""
    done = subprocess.run([*under, *command(name, *arguments)], cwd=ROOT, capture_output=True, timeout=120, check=True)
    assert not done.stderr, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(name, *arguments), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def faulty_call(call: str) -> int:
    """Which call of its process a fault is put into: more than importing makes. Those before the n-th are burnt."""
    return 400 if call == "lseek" else 40


def say(*words: object) -> None:
    os.writev(1, [json.dumps(words).encode() + b"\n"])


class Told:
    """Says what each call of one session was told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.failed = False

    def say(self, *words: object) -> None:
        say(self.number, *words)

    def call(self, log: SessionLog, name: str, call: Callable[[], object]) -> None:
        """One that fails is made again, to see that it is not done."""
        try:
            call()
        except WriteError as error:
            self.fail(name, error, log)
            with contextlib.suppress(Poisoned):
                call()
                self.say("done after a failure", name)
            raise
        self.say("acknowledged", name, log.end, log.durable_end)

    def fail(self, name: str, error: WriteError, log: SessionLog | None = None) -> None:
        self.failed = True
        self.say("failed", name, type(error).__name__, error.durable_end, 0 if log is None else log.durable_end)


def live(home: Path, told: Told, pad: int = 0) -> None:
    """One small session. With the same home and pad it writes the same bytes."""
    try:
        store = a_store(home)
        log = store.create(cwd="/p", model_provider="mock", originator="test", base_instructions="x" * pad)
    except WriteError as error:
        told.fail("create", error)
        return
    told.say("acknowledged", "create", log.end, log.durable_end)
    with contextlib.suppress(WriteError), log:
        try:
            _take_turns(log, told)
        except WriteError as error:
            if not told.failed:
                told.fail("begin or end", error, log)
            _refuse_everything(log, told)
            raise
    told.say("over")


def _take_turns(log: SessionLog, told: Told) -> None:
    with log.turn(context()) as turn:
        told.say("acknowledged", "begin", log.end, log.durable_end)
        told.call(log, "user", lambda: turn.user("q1"))
        told.call(log, "append", lambda: turn.append(assistant_item("a1")))
        told.call(log, "append_all", lambda: turn.append_all([user_item(f"b{n}") for n in range(3)]))
        told.call(log, "commit", turn.commit)
    told.say("acknowledged", "end", log.end, log.durable_end)
    told.call(log, "compact", lambda: log.compact([user_item("c")], "m"))
    with log.turn(context("m2")) as turn:
        told.call(log, "user", lambda: turn.user("q2"))
        told.call(log, "compact in a turn", lambda: turn.compact([user_item("d")]))
    told.say("acknowledged", "end", log.end, log.durable_end)
    told.call(log, "rollback", lambda: log.rollback(1))


def _refuse_everything(log: SessionLog, told: Told) -> None:
    """What the log says to every call after a failure."""
    calls: dict[str, Callable[[], object]] = {
        "commit": log.commit,
        "record": lambda: log.record("x", 1),
        "rollback": lambda: log.rollback(1),
        "compact": lambda: log.compact([]),
        "turn": lambda: log.turn(context()).__enter__(),
        "fork": log.fork,
    }
    for name, call in calls.items():
        try:
            call()
            told.say("refused", name, "nothing")
        except RolloutError as error:
            told.say("refused", name, type(error).__name__)


def reopen(home: Path, told: Told) -> None:
    """Opens the only log of a home, whose end is to be mended."""
    (path,) = home.rglob("*.jsonl")
    try:
        with a_store(home, seed=1).open(path) as log:
            told.say("acknowledged", "open", log.end, log.durable_end)
    except WriteError as error:
        told.fail("open", error)
    told.say("over")


SESSIONS: dict[str, Callable[[Path, Told], None]] = {"live": live, "reopen": reopen}


def _burn(call: str, times: int) -> None:
    """Makes a system call so many times, to no effect."""
    with open(os.devnull, "r+b", buffering=0) as null:  # noqa: PTH123  # a descriptor and nothing else
        spare = os.memfd_create("spare")
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: os.write(null.fileno(), b""),
            "fdatasync": lambda: os.fdatasync(spare),
            "fsync": lambda: os.fsync(spare),
            "lseek": lambda: os.lseek(spare, 0, os.SEEK_CUR),
            "ftruncate": lambda: os.ftruncate(spare, 0),
            "flock": lambda: fcntl.flock(spare, fcntl.LOCK_UN),
            "mkdir": lambda: os.mkdir("/"),  # noqa: PTH102  # it is there already
        }
        for _ in range(times):
            with contextlib.suppress(FileExistsError):
                calls[call]()
        os.close(spare)


def _in_a_fork(*works: Callable[[], None]) -> None:
    child = os.fork()
    if not child:
        try:
            for work in works:
                work()
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(0)  # what went wrong was said
    os.waitpid(child, 0)


def at_every_call(home: str, session: str, call: str, times: str) -> None:
    """A session for each n up to `times`, whose n-th `call` is the one that a fault was put into."""
    for n in range(1, int(times) + 1):
        _in_a_fork(partial(_burn, call, faulty_call(call) - n), partial(SESSIONS[session], Path(home, str(n)), Told(n)))


def at_every_size(home: str, *sizes: str) -> None:
    """A session for each size in bytes that no file may exceed."""
    for size in map(int, sizes):
        limits = (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        _in_a_fork(
            partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits), partial(live, Path(home, str(size)), Told(size))
        )


def on_a_full_disk(home: str, *pads: str) -> None:
    """A session for each length of its first line, where there is room for one page of it; then it is opened again."""
    for pad in map(int, pads):
        ballast = Path(home, "ballast")
        free = os.statvfs(home).f_bavail * os.statvfs(home).f_frsize
        ballast.write_bytes(bytes(free - 2 * _PAGE_BYTES))
        told = Told(pad)
        own = Path(home, str(pad))
        _in_a_fork(partial(live, own, told, pad))
        if list(own.rglob("*.jsonl")):
            reopen(own, told)
        ballast.unlink()


def write_until_killed(_: str = "") -> None:
    """For each [path, first, seed] of the standard input a child that writes turns there; it says when it is dead."""
    for line in sys.stdin:
        path, first, seed = json.loads(line)
        child = os.fork()
        if not child:
            _write_turns(Path(path), int(first), int(seed))
        say("writes", child)
        os.waitpid(child, 0)
        say("dead", child)


def _write_turns(path: Path, first: int, seed: int) -> None:
    """Items with the numbers from `first`, one by one and in batches of five; never returns."""
    with a_store(path.parents[4], seed=seed).open(path) as log:
        say("open", log.end)
        n = first
        while True:
            with log.turn(context()) as turn:
                turn.user(f"{n}")
                say("written", n)
                n += 1
                for _ in range(3):
                    turn.append(user_item(f"{n}"))
                    say("written", n)
                    n += 1
                turn.append_all([user_item(f"{n + k} of {n}" + "x" * 2000) for k in range(5)])
                say("written", n + 4)
                n += 5


def seal_until_killed(_: str = "") -> None:
    """For each path of the standard input a child that seals and unseals it there; it says when it is dead."""
    for line in sys.stdin:
        path = Path(line.strip())
        child = os.fork()
        if not child:
            store = a_store(path.parents[4])
            while True:
                with contextlib.suppress(Locked, NotFound):  # who appends has unsealed it between two looks
                    store.seal(path)
                    store.unseal(path)
        say("seals", child)
        os.waitpid(child, 0)
        say("dead", child)


def take_turns_with_others(path: str, own: str, turns: str) -> None:
    """Opens the log, writes one turn and closes it, so many times; waits while others hold it."""
    store = a_store(Path(path).parents[4], seed=int(own))
    done = 0
    while done < int(turns):
        try:
            log = store.open(path, durability=Durability.NONE)
        except Locked as error:
            say("locked", own, str(error))
            time.sleep(0.001)
            continue
        with log, log.turn(context()) as turn:
            turn.user(f"{own} asks {done}")
            turn.append_all([user_item(f"{own} says {done}.{k}") for k in range(3)])
            turn.append(assistant_item(f"{own} answers {done}"))
        done += 1
    say("done", own)


def hold(path: str) -> None:
    """Holds the log until its standard input ends."""
    with a_store(Path(path).parents[4]).open(path) as log:
        say("open", os.getpid(), log.end)
        sys.stdin.read()


class Model:
    """Writes to a log and keeps the numbers of the items in its history, as they are to be read back."""

    def __init__(self, log: SessionLog, seed: int) -> None:
        self._log, self._rng = log, random.Random(seed)
        self._count = 0
        self._history: list[int] = []
        self._before: list[list[int]] = []  # each user message that stands

    def tell(self) -> None:
        say(self._log.end, self._history)

    def step(self) -> None:
        chance = self._rng.random()
        if chance < 0.2 and self._before:
            n = self._rng.randint(1, min(3, len(self._before)))
            self._log.rollback(n)
            self._history = self._before[-n]
            del self._before[-n:]
            while self._history[-1:] == [0]:  # contextual messages above the cut go too (S2)
                self._history.pop()
        elif chance < 0.3:
            self._history = [*self._history[-3:], self._next()]
            self._log.compact([user_item(f"{n}") for n in self._history])
        else:
            with contextlib.suppress(InterruptedError), self._log.turn(context()) as turn:
                self._ask(turn)
                for _ in range(self._rng.randrange(5)):
                    self._go_on(turn)
        self.tell()

    def _ask(self, turn: OpenTurn) -> None:
        self._before.append([*self._history])
        self._history.append(self._next())
        turn.user(f"{self._history[-1]}")
        self.tell()

    def _go_on(self, turn: OpenTurn) -> None:
        chance = self._rng.random()
        if chance < 0.05:
            self._history.append(0)
            raise InterruptedError
        if chance < 0.15:
            self._ask(turn)
        elif chance < 0.25:
            self._history = [*self._history[-3:], self._next()]
            turn.compact([user_item(f"{n}") for n in self._history])
        elif chance < 0.6:
            new = [self._next() for _ in range(self._rng.randint(2, 9))]
            turn.append_all([assistant_item(f"{n} " + "x" * self._rng.choice((9, 20_000))) for n in new])
            self._history += new
        else:
            self._history.append(self._next())
            turn.append(assistant_item(f"{self._history[-1]} " + "x" * self._rng.choice((9, 300_000))))
        self.tell()

    def _next(self) -> int:
        self._count += 1
        return self._count


def write_states(path: str, seed: str, steps: str) -> None:
    """Turns, batches, compactions, rollbacks; says each state that the log passes through: its end, its history."""
    with a_store(Path(path).parents[4], seed=int(seed)).open(path, durability=Durability.NONE) as log:
        model = Model(log, int(seed))
        model.tell()
        for _ in range(int(steps)):
            model.step()


def tear_and_mend(path: str, rounds: str) -> None:
    """Leaves the end of the log as crashes do, opens it, which mends it, and writes a turn; so many times."""
    store = a_store(Path(path).parents[4])
    whole = [b'{"type":"response_item","payload":%b}\n' % json.dumps(assistant_item("-1 " + "y" * 70_000)).encode()] * 3
    for n in range(1, int(rounds) + 1):
        batch = b"".join(mark_batch(whole))
        torn = (batch[: -2 - n % 100], batch[: len(batch) // 2], bytes(5000), whole[0][:-9] + bytes(n), whole[0][:40])
        with Path(path).open("ab") as file:
            file.write(torn[n % len(torn)])
        with store.open(path, durability=Durability.NONE) as log, log.turn(context()) as turn:
            turn.user(f"{n} " + "z" * (n % 7 * 30_000))


CHILDREN: dict[str, Callable[..., None]] = {
    child.__name__: child
    for child in (
        at_every_call,
        at_every_size,
        on_a_full_disk,
        write_until_killed,
        seal_until_killed,
        take_turns_with_others,
        hold,
        write_states,
        tear_and_mend,
    )
}

if __name__ == "__main__":
    CHILDREN[sys.argv[1]](*sys.argv[2:])
