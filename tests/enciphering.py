"""Keys, and plain logs made into encrypted ones, for the tests of encryption."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import rollout
from rollout import Cipher, Limits, SessionLog, Store
from rollout.files.disk import FileSystem
from rollout.files.encrypted.lines import LineCipher
from tests import builders as b
from tests.sessions import START, a_clock

KEY, OTHER_KEY = b"\1" * 32, b"\2" * 32
SMALL = Limits(first_chunk_bytes=64, chunk_bytes=100)


def nonces() -> Callable[[int], bytes]:
    """Chance that is known: no two nonces are the same."""
    count = itertools.count()
    return lambda n: next(count).to_bytes(n, "big")


def a_cipher(key: bytes = KEY, key_id: str = "k1") -> Cipher:
    return Cipher({key_id: key}, key_id, randomness=nonces())


def enciphered(lines: Sequence[bytes], cipher: Cipher | None = None, thread: str = b.THREAD, first: int = 0) -> bytes:
    """A log of these lines (without ends), its session_meta first."""
    of_thread = LineCipher(cipher or a_cipher(), thread)
    return of_thread.head(lines[0], first) + b"".join(of_thread.lines(lines[1:], first + 1))


def a_secret_store(
    home: Path | str, cipher: Cipher | None = None, *, fs: FileSystem | None = None, start: float = START
) -> Store:
    ticks, draws = a_clock(), itertools.count(1)
    return Store(
        home,
        clock=lambda: next(ticks) - START + start,
        fs=fs,
        randomness=lambda n: next(draws).to_bytes(n, "big"),
        cipher=cipher or a_cipher(),
    )


def a_secret_log(store: Store, **keys: Any) -> SessionLog:
    return store.create(cwd="/secret-folder", model_provider="mock", originator="test", **keys)


def told(state: rollout.State) -> dict[str, object]:
    """What a state says, without byte offsets and what follows from them."""
    return {
        "history": list(state.history),
        "previous_model": state.previous_model,
        "reference": state.reference_context,
        "world_state": state.world_state,
        "token_usage": state.token_usage,
        "session": state.session,
        "turns": [
            (None if turn.derived else turn.id, turn.status, turn.model, turn.user, list(turn.items), turn.line)
            for turn in state.turns
        ],
    }
