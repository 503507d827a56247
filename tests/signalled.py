"""A process that gets real signals at random times while it writes: `python -m tests.signalled KIND HOME SIGNALS SEED`.

Their handler raises in the main thread, wherever that is, KeyboardInterrupt as Ctrl-C does, or SystemExit as a handler
of SIGTERM does. Another thread writes to the same log all the time. At the end it prints as JSON what was acknowledged,
what was asked for, and what became of the signals; whoever started it looks into the files.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rollout
from rollout import Cipher, Durability, Store
from rollout.errors import Closed
from tests.builders import assistant_item, user_item
from tests.sessions import context

HANG_SECONDS = 120


class Signalled:
    """Calls one after the other, under signals; each asks for a word, and is told if it comes back."""

    def __init__(self, rng: random.Random, most: int) -> None:
        self.rng, self.most = rng, most
        self.asked: list[str] = []
        self.told: list[str] = []
        self.raised: collections.Counter[str] = collections.Counter()
        self.others: list[str] = []
        self.armed, self.name = False, ""
        self.is_over = False
        signal.signal(signal.SIGINT, self._on_signal)
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._sender.start()

    def _on_signal(self, number: int, frame: object) -> None:
        if self.armed:
            self.raised[self.name] += 1
            raise (KeyboardInterrupt if self.rng.random() < 0.7 else SystemExit)

    def _send(self) -> None:
        rng = random.Random(self.most)
        while not self.is_over:
            time.sleep(rng.random() ** 2 * 0.003)
            os.kill(os.getpid(), signal.SIGINT)

    @property
    def goes_on(self) -> bool:
        return self.raised.total() < self.most

    def attempt(self, name: str, call: Callable[[], object]) -> bool:
        """Whether it came back; no exception comes out of it but those of signals."""
        self.name = name
        try:
            try:
                self.armed = True
                call()
            finally:
                self.armed = False
        except (KeyboardInterrupt, SystemExit):
            return False
        except BaseException as error:
            self.others.append(f"{name}: {error!r}")
            raise
        return True

    def do(self, call: Callable[[str], object]) -> None:
        word = f"word-{len(self.asked)}-"
        self.asked.append(word)
        call(word)
        self.told.append(word)

    def tell(self, **more: Any) -> None:
        self.is_over = True
        self._sender.join()
        said = {"told": self.told, "asked": self.asked, "raised": self.raised, "others": self.others, **more}
        print(json.dumps(said))  # noqa: T201  # what the parent reads


def write_log(home: Path, cipher: Cipher | None, under: Signalled) -> None:
    store = Store(home, cipher=cipher)
    log = store.create(cwd="/p", model_provider="m", durability=Durability.NONE)
    beside = Beside(log.event, log.commit)

    def turn() -> None:
        with log.turn(context(), tags={"a": "b"}) as turn:
            under.do(turn.user)
            under.do(lambda word: turn.append(assistant_item(word)))
            under.do(lambda word: turn.append_all([user_item(word), user_item("more")]))
            under.do(lambda word: turn.event("custom", word=word))
            turn.commit()

    def reopen() -> None:
        nonlocal log
        log.close()
        log = store.open(log.id, durability=under.rng.choice(list(Durability)))
        beside.turn_to(log.event, log.commit)

    def fork() -> None:
        with log.fork() as child:
            child.event("custom")

    calls: list[tuple[str, Callable[[], object]]] = [
        *[("turn", turn)] * 6,
        ("record", lambda: under.do(lambda word: log.event("custom", word=word))),
        ("compact", lambda: under.do(lambda word: log.compact([user_item(word)]))),
        ("rollback", lambda: log.rollback(1)),
        ("commit", lambda: log.commit()),  # noqa: PLW0108  # of the log that is open then
        ("reopen", reopen),
        *([("fork", fork)] if cipher is None else []),
    ]
    while under.goes_on:
        name, call = under.rng.choice(calls)
        if not under.attempt(name, call) and name == "reopen":
            while not under.attempt(name, reopen):
                pass
    under.is_over = True
    beside.stop()
    log.close()
    under.tell(path=str(log.path), beside=beside.count)


class Beside:
    """Another thread that writes to the log that is open."""

    def __init__(self, event: Callable[..., int], commit: Callable[[], int]) -> None:
        self._calls = event, commit
        self.count = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def turn_to(self, event: Callable[..., int], commit: Callable[[], int]) -> None:
        self._calls = event, commit

    def _run(self) -> None:
        while not self._is_over:
            event, commit = self._calls
            with contextlib.suppress(Closed):
                event("beside")
                self.count += 1
                commit()
            time.sleep(0.001)

    def stop(self) -> None:
        self._is_over = True
        self._thread.join(HANG_SECONDS)
        assert not self._thread.is_alive()


def write_session(home: Path, under: Signalled) -> None:
    from rollout.adapters.agents import RolloutSession  # noqa: PLC0415  # takes long, and the others do without

    session = RolloutSession("s", home)

    def add() -> None:
        def asked(word: str) -> None:
            asyncio.run(session.add_items([user_item(word)]))

        under.do(asked)

    calls: list[tuple[str, Callable[[], object]]] = [
        *[("add_items", add)] * 3,
        ("get_items", lambda: asyncio.run(session.get_items(5))),
        ("current branch", lambda: session.current_branch_id),
    ]
    while under.goes_on:
        under.attempt(*under.rng.choice(calls))
    under.is_over = True
    items = [item["content"][0]["text"] for item in asyncio.run(session.get_items())]
    session.close()
    under.tell(items=items)


def main(kind: str, home: str, signals: str, seed: str) -> None:
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    under = Signalled(random.Random(int(seed)), int(signals))
    if kind == "session":
        write_session(Path(home), under)
        return
    cipher = None
    if kind == "encrypted":
        keys = Path(home).with_suffix(".keys")
        rollout.make_key(keys, "k1")
        cipher = Cipher.from_file(keys)
    write_log(Path(home), cipher, under)


if __name__ == "__main__":
    main(*sys.argv[1:])
