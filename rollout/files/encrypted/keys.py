"""Keys of encrypted rollouts, and what is done with them: AES-256-GCM under a key of its own for each thread.

A thread's key is HKDF-SHA256 of a master key and the thread's id, so that what one thread's key has made opens nothing
of another one. A nonce is random: a counter could repeat after a crash, or in a copied file.

Master keys have short ids, which stand in the lines. New lines are made with the current key; the others are there to
read with. They come from the caller or from a file, `{"current": id, "keys": {id: base64 of 32 bytes}}`, which none but
its owner may read. Whoever reads or writes rollouts is handed `Keys`, made once where an operation begins: of the
caller's `Cipher`, else of the file that $ROLLOUT_KEYS_FILE names. `cryptography` is imported with first use.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollout.errors import Conflict, NoKey, NotARollout, NotFound, SourceError, UsageError, WriteError
from rollout.files.disk import REAL, FileSystem
from rollout.files.port import AnyPath, AppendFile
from rollout.files.staging import replace, status_of, while_held

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEYS_FILE = "ROLLOUT_KEYS_FILE"
"""The variable of the environment that names a file of keys, for all who give none."""
KEY_BYTES = 32
NONCE_BYTES, TAG_BYTES = 12, 16
ID_CHARACTERS = 16
KEY_WAIT_S = 60.0
"""How long a key waits for others to be made."""
_FILE_BYTES = 1 << 20
"""A file of keys is no longer."""
_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{ID_CHARACTERS}}}")
_MOST_DERIVED = 256


class Cipher:
    """Some master keys (id: 32 bytes), one of them the `current` one. Safe to use from several threads.

    Raises:
        UsageError: a key or an id that is none.
    """

    __slots__ = ("_keys", "_of_thread", "_randomness", "current")

    def __init__(
        self,
        keys: Mapping[str, bytes],
        current: str,
        *,
        randomness: Callable[[int], bytes] = os.urandom,
    ) -> None:
        for id, key in keys.items():
            if _ID.fullmatch(id) is None:
                raise UsageError(f"{id!r:.40} is no key id", remedy=f"take 1 to {ID_CHARACTERS} of A-Z a-z 0-9 . _ -")
            if type(key) is not bytes or len(key) != KEY_BYTES:
                raise UsageError(f"key {id!r} is not {KEY_BYTES} bytes", remedy="make one with rollout.make_key")
        if current not in keys:
            raise UsageError(f"{current!r:.40}, the current key, is not among the keys", remedy="give it too")
        self._keys = dict(keys)
        self.current = current
        self._randomness = randomness
        self._of_thread = functools.lru_cache(_MOST_DERIVED)(lambda id, thread: _derive(self._keys[id], thread))

    @classmethod
    def from_file(cls, path: AnyPath) -> Cipher:
        """The keys of a file.

        Raises:
            NoKey: it is not there, or others may read it.
            UsageError: it holds no keys.
        """
        keys, current = _read_keys(os.fspath(path), REAL)
        return cls(keys, current)

    def __repr__(self) -> str:
        return f"<Cipher of {len(self._keys)} keys, the current one {self.current!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("keys are not pickled")

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the keys."""
        return frozenset(self._keys)

    def encrypt(self, thread: str, text: bytes, bound: bytes) -> bytes:
        """Nonce, ciphertext and tag, made with the current key; `bound` is authenticated along with the text."""
        nonce = self._randomness(NONCE_BYTES)
        return nonce + self._of_thread(self.current, thread)[0].encrypt(nonce, text, bound)

    def decrypt(self, key_id: str, thread: str, data: bytes, bound: bytes) -> bytes | None:
        """The text; None if key, thread, data and what is bound do not belong together.

        Raises:
            KeyError: the key is not there.
        """
        aead, forged = self._of_thread(key_id, thread)
        if len(data) < NONCE_BYTES + TAG_BYTES:
            return None
        view = memoryview(data)
        try:
            return aead.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], bound)
        except forged:
            return None


class Keys:
    """The keys that an operation may use: those of a `cipher`, else those in a `file`, else none.

    The file is read with the first line that needs a key, and anew once it has changed: who meets nothing encrypted
    does not notice what is wrong with it.
    """

    __slots__ = ("_given", "_read", "file")

    def __init__(self, cipher: Cipher | None = None, file: str | None = None) -> None:
        self._given, self.file = cipher, file
        self._read: tuple[tuple[int, ...], Cipher] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Keys, (self._given, self.file)

    def __bool__(self) -> bool:
        """Whether there are any, as far as one can tell without reading the file."""
        return self._given is not None or self.file is not None

    def cipher(self) -> Cipher | None:
        """The keys; None if there are none.

        Raises:
            NoKey: the file is not there, or others may read it.
            UsageError: the file holds no keys.
        """
        if self._given is not None or self.file is None:
            return self._given
        try:
            found = os.stat(self.file)
        except OSError:
            return Cipher.from_file(self.file)
        stamp, known = (found.st_ino, found.st_mtime_ns, found.st_mode, found.st_size), self._read
        if known is None or known[0] != stamp:
            known = self._read = stamp, Cipher.from_file(self.file)
        return known[1]


NO_KEYS = Keys()


def keys_given(cipher: Cipher | None) -> Keys:
    """The caller's keys; else those in the file that $ROLLOUT_KEYS_FILE names, if it does."""
    return Keys(cipher) if cipher is not None else Keys(file=os.environ.get(KEYS_FILE) or None)


def make_key(path: AnyPath, key_id: str, *, fs: FileSystem = REAL) -> None:
    """A new random key in a file of keys, the current one from now on; the file (0600) is made if it is not there.

    This is how keys are rotated: the old ones stay, to read with. It is on the disk then, whoever else makes one at the
    same time: they wait for each other, by a lock on `.<name>.lock` beside the file, which stays there. A crash leaves
    the old file or the new one. Of a link the target is replaced.

    Raises:
        UsageError: it is no id, or one that is taken; the file holds no keys, or is full.
        NoKey: the file cannot be read, or others may read it.
        NotFound: there is no such folder.
        Locked: others make keys all the time.
        Conflict: another program has changed the file meanwhile.
        WriteError: the file is as it was, unless it says that it is the new one.
    """
    Cipher({key_id: bytes(KEY_BYTES)}, key_id)  # UsageError for an id that is none
    name = os.path.realpath(path)

    def add(_: AppendFile) -> None:
        before = status_of(fs, name)
        keys = {} if before is None else _read_keys(name, fs)[0]
        if key_id in keys:
            raise UsageError(f"there is a key {key_id!r} already", path=name, remedy="give it another id")
        keys[key_id] = os.urandom(KEY_BYTES)
        told = {"current": key_id, "keys": {id: base64.b64encode(key).decode() for id, key in keys.items()}}
        data = json.dumps(told, indent=1).encode() + b"\n"
        if len(data) > _FILE_BYTES:
            remedy = "encrypt what needs the oldest keys anew, and take those out"
            raise UsageError(f"is full: {len(keys) - 1} keys are in it", path=name, remedy=remedy)

        def check(new: Path) -> None:
            now = status_of(fs, name)
            if now != before:
                raise Conflict("has changed while a new one was made", path=name, remedy="some other program writes it")
            if now is not None and now.owner != fs.status(new).owner:
                remedy = "do it as that user: the new file would not be theirs"
                raise WriteError("belongs to another user", path=name, remedy=remedy)

        replace(fs, Path(name), [data], check=check)

    with _explained(name):
        # A file of its own: one that is replaced is another one for who waits for it.
        while_held(fs, os.path.join(os.path.dirname(name), f".{os.path.basename(name)}.lock"), KEY_WAIT_S, add)


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turns what the system says while a key is made into an exception of this library."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound("there is no such folder for the keys", path=os.path.dirname(name), remedy="make it") from error
    except PermissionError as error:
        remedy = "check the permissions of its folder, and of what lies in that"
        raise WriteError("no key could be made: may not be written", path=name, remedy=remedy) from error
    except NotARollout as error:
        raise WriteError(f"no key could be made: {error.message.partition(',')[0]}", path=error.path) from error
    except OSError as error:
        remedy = "the file is as it was; mend what the system complains of, then try again"
        raise WriteError(f"no key could be made: {error.strerror}", path=name, remedy=remedy) from error


class _KeysFile(msgspec.Struct, forbid_unknown_fields=True):
    current: str
    keys: dict[str, str]


def _read_keys(name: str, fs: FileSystem) -> tuple[dict[str, bytes], str]:
    """The keys of a file, and which is the current one. NoKey, UsageError."""
    try:
        with contextlib.closing(fs.open_read(name)) as file:
            mode, data = fs.status(name).mode, file.read_at(0, _FILE_BYTES + 1)
    except (SourceError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message.partition(",")[0]
        remedy = f"mend ${KEYS_FILE}, or give a Cipher"
        raise NoKey(f"the keys cannot be read: {why}", path=name, remedy=remedy) from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NoKey("others than its owner may use these keys", path=name, remedy="take it away from them: chmod 600")
    try:
        if len(data) > _FILE_BYTES:
            raise ValueError("too long")
        found = msgspec.convert(json.loads(data, object_pairs_hook=_each_once), _KeysFile)
        keys = {id: base64.b64decode(key, validate=True) for id, key in found.keys.items()}
        Cipher(keys, found.current)
    except (ValueError, RecursionError, msgspec.ValidationError, UsageError):
        wrong = UsageError("is no file of keys", path=name, remedy="make one with rollout.make_key")
        raise wrong from None  # the cause would show what stands in the file
    return keys, found.current


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """ValueError for a key that stands there twice: one of the two would be lost with the next key that is made."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _derive(key: bytes, thread: str) -> tuple[AESGCM, type[Exception]]:
    """The key of a thread, and what is raised for data that it has not made. SourceError without the package."""
    try:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415
    except ImportError:
        raise SourceError(
            "encryption needs the package cryptography", remedy="install rollout with it: pip install 'rollout[crypto]'"
        ) from None
    info = b"rollout thread key 1\0" + thread.encode(errors="surrogatepass")
    return AESGCM(HKDF(hashes.SHA256(), KEY_BYTES, None, info).derive(key)), InvalidTag
