"""Secrets in texts and in JSON values, masked: keys and tokens of known services, private keys, passwords.

A secret becomes `[redacted:<kind>]`, which holds nothing that JSON would read otherwise, so that what was JSON stays
JSON; what is masked already stays as it is. A rule is tried only where one of its signs stands: most texts have none
(see `secret_rules`). In a value the name of a key tells what it holds, JSON in a string is looked into, and the parts
of a text that was cut are read as one. No rule knows every secret: a masked text is safer to share, and no proof.
"""

from __future__ import annotations

import bisect
import collections
import contextlib
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rollout.format.strict_json import value_in
from rollout.items.secret_rules import PASSWORD_NAME, RULES, SECRET_NAME, Rule, is_password, is_token

_MASK = b"[redacted:"
_RANKED = tuple(enumerate(RULES))
_KNOWN = tuple((rank, sign, rule) for rank, rule in _RANKED if rule.known for sign in rule.signs)
_NAMED: dict[str, dict[str, list[tuple[int, bytes, Rule]]]] = {}
"""What is due if a sign of a rule that is no known form is there, by its gate and by the sign: texts, as Python looks
for bytes in bytes four times as long where both are short."""
for _rank, _rule in _RANKED:
    for _sign in () if _rule.known else _rule.signs:
        _signs = _NAMED.setdefault(_rule.gate.decode(), {})
        _signs.setdefault(_sign.decode(), []).append((_rank, _sign, _rule))
_KNOWN_BYTES = 20
_LONG = b"w" * _KNOWN_BYTES
_TO_SHAPE = bytes(_LONG[0] if chr(code).isalnum() or chr(code) in "_-.:=" else 0x20 for code in range(128)) + b" " * 128
_LEAST_CHARACTERS = 10
"""No secret that is named as one is shorter, its name included, and no known form is."""
_SHORT_CHARACTERS = 64
"""Texts and keys of JSON repeat themselves if they are short: what was found in them is remembered."""
_SECRET_KEY = re.compile(rf"authorization|(?:{SECRET_NAME})(?!\w{{0,20}}id\b)", re.IGNORECASE)
_PASSWORD_KEY = re.compile(PASSWORD_NAME, re.IGNORECASE)
_TELLING_KEY = re.compile(r"auth|cookie|key-data", re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic|token|ssws)\s+", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/[a-z.+-]{1,20};base64,[A-Za-z0-9+/]*+={0,2}")
_SEALED_KEY, _SEALED = "encrypted_content", re.compile(r"[A-Za-z0-9+/_-]{400,}+={0,2}")
"""What only the model's maker can read."""
_encode = msgspec.json.Encoder(decimal_format="number").encode


_WORD_BEGINS = rb"[ _.:=-](?:[nrt]|[0-9]{1,2}m|[23][0-9a-f])?"
"""Ahead of a known form; an escaped line end, a colour, a byte in a URL leave a letter there (see `secret_rules`)."""


@functools.cache
def _any_known() -> re.Pattern[bytes]:
    """Finds whether a known form may be there. Those that begin alike share an alternative: a place tries few."""
    plain = sorted({sign for _, sign, rule in _KNOWN if rule.probe is None})
    groups = itertools.groupby(plain, lambda sign: sign[:1])
    alike = [(first, b"|".join(re.escape(sign[1:]) for sign in group)) for first, group in groups]
    found = [b"%b(?:%b)" % (re.escape(first), rest) for first, rest in alike]
    probes = dict.fromkeys(rule.probe for _, _, rule in _KNOWN if rule.probe is not None)
    return re.compile(b"%b(?:%b)" % (_WORD_BEGINS, b"|".join([*found, *probes])))


@functools.lru_cache(maxsize=1024)
def _naming(key: str) -> tuple[bool, bool, bool]:
    """Whether a key names a password, any other secret, what may hold one."""
    return (
        _PASSWORD_KEY.search(key) is not None,
        _SECRET_KEY.search(key) is not None,
        _TELLING_KEY.search(key) is not None,
    )


@functools.lru_cache(maxsize=4096)
def _is_plain(key: str) -> bool:
    """Whether a key names no secret and holds none."""
    return key != _SEALED_KEY and not any(_naming(key)) and not _spans(key)


class Redactor:
    """Masks secrets, and counts in `counts` what it has masked, by kind."""

    counts: collections.Counter[str]

    def __init__(self) -> None:
        self.counts = collections.Counter()

    @property
    def total(self) -> int:
        """How many secrets were masked."""
        return self.counts.total()

    def text(self, text: str) -> str:
        """The text without its secrets."""
        if len(text) < _LEAST_CHARACTERS:
            return text
        spans = _spans_of_short(text) if len(text) <= _SHORT_CHARACTERS else _spans(text)
        if not spans:
            return text
        data, parts, done = text.encode(errors="surrogatepass"), [], 0
        for begin, end, kind in spans:
            parts += [data[done:begin], self._mask(kind).encode()]
            done = end
        return b"".join([*parts, data[done:]]).decode(errors="surrogatepass")

    def value(self, value: Any) -> Any:
        """A JSON value without secrets, in its keys too; a string under a key that names a secret is masked whole.

        A secret that begins in one string of a list and ends in a later one is masked in the first, and gone there.
        """
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, dict):
            named = value.get("name", value.get("key")) if isinstance(value.get("value"), str) else None
            return self._dict(value, named if isinstance(named, str) else None)
        return value

    def _dict(self, values: dict[str, Any], named: str | None) -> dict[str, Any]:
        """Its keys too; `named` is what the value under the key `value` is called."""
        made = {}
        for key, value in values.items():
            if named is None and len(key) <= _SHORT_CHARACTERS and _is_plain(key):  # most are
                made[key] = self._string(value) if isinstance(value, str) else self.value(value)
            else:
                called = named if key == "value" and named is not None else key
                made[self.text(key)] = self._named_value(called, value)
        return made

    def _list(self, values: list[Any]) -> list[Any]:
        """Words of a command, parts of a text: read as one, as they are put together again where they are used."""
        if len(values) > 1 and all(isinstance(each, str) for each in values):
            values = self._joined(values, " ")
        elif len(values) > 1 and all(isinstance(each, dict) and isinstance(each.get("text"), str) for each in values):
            texts = self._joined([each["text"] for each in values], "")
            values = [{**each, "text": text} for each, text in zip(values, texts, strict=True)]
        return [self.value(each) for each in values]

    def _joined(self, texts: Sequence[str], between: str) -> list[str]:
        """The texts without the secrets that reach over more than one of them, or that one names for another."""
        pieces = [text.encode(errors="surrogatepass") for text in texts]
        begins = [0, *itertools.accumulate(len(piece) + len(between) for piece in pieces[:-1])]
        for begin, end, kind in reversed(_spans(between.join(texts))):
            mask = self._mask(kind).encode()
            first, last = (bisect.bisect_right(begins, at) - 1 for at in (begin, end - 1))
            for n in range(first, last + 1):
                left = pieces[n][: max(0, begin - begins[n])] + (mask if n == first else b"")
                pieces[n] = left + pieces[n][max(0, end - begins[n]) :]
        return [piece.decode(errors="surrogatepass") for piece in pieces]

    def _string(self, text: str) -> str:
        """A text; one that is JSON is looked into: there may be escapes in its secrets."""
        if len(text) < _LEAST_CHARACTERS or (text.startswith("data:image/") and _PICTURE.fullmatch(text)):
            return text
        if text[0] in "{[" and "\\" in text:
            with contextlib.suppress(ValueError, RecursionError):  # a number too long to be written, say
                before, cleaned = self.total, self.value(value_in(text))
                text = text if self.total == before else _encode(cleaned).decode()
        return self.text(text)

    def _named_value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.value(value)
        names_password, names_secret, tells = (_naming if len(key) <= _SHORT_CHARACTERS else _naming.__wrapped__)(key)
        if not (names_password or names_secret or tells):
            return value if key == _SEALED_KEY and _SEALED.fullmatch(value) else self._string(value)
        scheme = _SCHEME.match(value)
        bare = value[scheme.end() :] if scheme else value
        names = names_password and is_password(bare)
        if " " not in bare and not value.startswith(_MASK.decode()) and (names or (names_secret and is_token(bare))):
            kind = "password" if names else "authorization" if scheme else "secret"
            return value[: len(value) - len(bare)] + self._mask(kind)
        return self.text(f'{key}": "{value}')[len(key) + 4 :] if tells else self._string(value)

    def _mask(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"[redacted:{kind}]"


@functools.lru_cache(maxsize=4096)
def _spans_of_short(text: str) -> list[tuple[int, int, str]]:
    return _spans(text)


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Where in the bytes of a text its secrets are, and of what kind, in order; none overlaps another."""
    data = text.encode(errors="surrogatepass")
    low = data.lower()
    words = _long_words(low)
    due: list[tuple[int, bytes, Rule]] = []
    low_text = low.decode("latin-1")
    for gate, signs in _NAMED.items():
        if gate in low_text:
            for named, found in signs.items():
                if named in low_text:
                    due += found
    if words and _any_known().search(words):
        due += [each for each in _KNOWN if each[1] in words]
    if not due:
        return []
    spans: list[tuple[int, int, str]] = []
    taken = bytearray(len(data))
    for _, sign, rule in sorted(due, key=lambda each: each[0]):
        _find(sign, rule, data, low, taken, spans)
    return sorted(spans)


def _long_words(low: bytes) -> bytes:
    """The words of a text that are long enough to be a secret of a known form, a space ahead of each."""
    shape = low.translate(_TO_SHAPE)
    begin, words = shape.find(_LONG), [b""]
    while begin >= 0:
        end = shape.find(b" ", begin)
        end = end if end >= 0 else len(shape)
        words.append(low[begin:end])
        begin = shape.find(_LONG, end)
    return b" ".join(words) if len(words) > 1 else b""


def _find(
    sign: bytes, rule: Rule, data: bytes, low: bytes, taken: bytearray, spans: list[tuple[int, int, str]]
) -> None:
    """Adds where the rule holds, as far as nothing else was found there before (`taken`)."""
    pattern, group = rule.pattern, "secret" if rule.pattern.groupindex else 0
    at = low.find(sign) if sign else 0
    while at >= 0:
        found = pattern.match(data, max(0, at - rule.lead)) if sign else pattern.search(data, at)
        if found is None:
            if not sign:
                return
            at = low.find(sign, at + 1)
            continue
        begin, end = found.span(group)
        is_free = taken.find(1, begin, end) < 0
        if is_free and not data.startswith(_MASK, begin) and rule.fits(data[begin:end].decode(errors="replace")):
            spans.append((begin, end, rule.kind))
            taken[begin:end] = b"\1" * (end - begin)
        rest = taken.find(0, begin, end)
        behind = end if is_free or rest < 0 else rest
        at = low.find(sign, max(at + 1, behind)) if sign else max(at + 1, behind)
