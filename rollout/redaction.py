"""Secrets in texts, masked: keys and tokens of known services, private keys, `Authorization`, passwords.

A secret becomes `[redacted:<kind>]`, which holds nothing that JSON would read otherwise, so that what was JSON stays
JSON; what is masked already stays as it is. A rule is tried only where one of its `signs` stands: most texts have none.
Known forms are masked wherever they stand; what is only named as a secret (`password = …`) has to look like one, too.
No rule knows every secret: a masked text is safer to share, and no proof.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """What a kind of secret looks like: the group `secret` of its pattern (else all) is masked, if it `fits`.

    `signs` are lower case; in whatever case, each match of the pattern begins with one. All of a `known` form is one
    word of 20 letters, digits and `_-.:` or more.
    """

    kind: str
    signs: tuple[bytes, ...]
    expression: bytes
    fits: Callable[[str], bool]
    known: bool
    flags: re.RegexFlag = re.NOFLAG

    @property
    def pattern(self) -> re.Pattern[bytes]:
        return _compiled(self.expression, self.flags)


@functools.cache
def _compiled(expression: bytes, flags: re.RegexFlag) -> re.Pattern[bytes]:
    """Compiled where its sign is met for the first time: most rules never are."""
    return re.compile(expression, flags)


def _is_mixed(text: str) -> bool:
    """Digits and letters: no word, no number."""
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _is_random(text: str) -> bool:
    """Letters of both cases, or many digits among them: no name made of words."""
    digits = sum(c.isdigit() for c in text)
    return _is_mixed(text) and (digits >= 4 or (text.lower() != text != text.upper()))


_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3}|^<|^\$|^%|^\{|\bexample\b|placeholder|change.?me|^your|^my[-_]|redacted|^(?:os|process|self|env|"
    r"config|settings|args|secrets|req|request)\b[.\[]|^/[\w./-]*$|^https?:",
    re.IGNORECASE,
)
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/=]{30,}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _is_value(text: str) -> bool:
    """Whether what is called a secret is one: no placeholder, no expression, no identifier."""
    return len(text) >= 12 and _is_random(text) and not _PLACEHOLDER.search(text) and not _UUID.fullmatch(text)


def _is_password(text: str) -> bool:
    return len(text) >= 6 and not text.isalpha() and not text.isdigit() and not _PLACEHOLDER.search(text)


def _is_url_password(text: str) -> bool:
    return len(text) >= 3 and not _PLACEHOLDER.search(text)


def _is_credential(text: str) -> bool:
    """What stands behind `Authorization`: anything but a placeholder or a variable."""
    return len(text) >= 8 and not _PLACEHOLDER.search(text) and not text.isalpha()


def _is_key_block(text: str) -> bool:
    return _BASE64_LINE.search(text) is not None


def _known(kind: str, signs: str, pattern: str, fits: Callable[[str], bool] = bool) -> Rule:
    expression = rf"(?<![A-Za-z0-9]){pattern}".encode()
    return Rule(kind, tuple(sign.encode() for sign in signs.split()), expression, fits, known=True)


def _named(kind: str, signs: str, pattern: str, fits: Callable[[str], bool]) -> Rule:
    beginnings = tuple(sign.encode() for sign in signs.split())
    return Rule(kind, beginnings, pattern.encode(), fits, known=False, flags=re.IGNORECASE)


_PEM = rb"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_IS = r"""\\{0,3}["'`]?\]?\s{0,3}(?:=>|:=|[:=])\s{0,3}\\{0,3}["'`]?"""
"""Between a name and its value, in code, JSON (inside of a string, too), YAML, a header, a shell."""
_PASSWORD = r"passw(?:or)?d|pwd|passphrase"
_KEY = "".join(
    f"|(?<={owner}{mark})key" for owner in ("api", "access", "auth", "account", "signing") for mark in ("", "_", "-")
)
_SECRET = f"secret|token|credential{_KEY}"

RULES: tuple[Rule, ...] = (  # where two overlap, the first one counts
    Rule(
        "private-key",
        (b"-----begin",),
        rb"-----BEGIN " + _PEM + rb"(?P<secret>.*?)(?=-----(?:END|BEGIN) |\\*[\"'`<]|\Z)",
        _is_key_block,
        known=False,
        flags=re.DOTALL,
    ),
    _known("private-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    _known("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _known("openai-key", "sk-", r"sk-(?!ant-)[A-Za-z0-9_-]{20,}", _is_random),
    _known("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _known("github-token", "github_pat_", r"github_pat_\w{22,}"),
    _known("gitlab-token", "glpat- glptt- gldt-", r"gl(?:pat|ptt|dt)-[A-Za-z0-9_-]{20,}"),
    _known("aws-key", "akia asia abia acca", r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _known("slack-token", "xox", r"xox[abeops]-[A-Za-z0-9-]{15,}", _is_mixed),
    _known("slack-token", "xapp-", r"xapp-[A-Za-z0-9-]{15,}", _is_mixed),
    _named("slack-webhook", "hooks.slack.", r"hooks\.slack\.com/services/(?P<secret>[a-z0-9/]{20,})", _is_mixed),
    _known("google-key", "aiza", r"AIza[0-9A-Za-z_-]{35}"),
    _known("google-token", "ya29. gocspx-", r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_-]{20,}"),
    _known("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
           r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    _known("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _known("pypi-token", "pypi-ag", r"pypi-Ag[A-Za-z0-9_-]{50,}"),
    _known("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}(?![A-Za-z0-9_])", _is_random),
    _known("sendgrid-key", "sg.", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _known("digitalocean-token", "doo_v1_ dop_v1_", r"do[op]_v1_[0-9a-f]{64}"),
    _known("service-token", "dckr_pat_ lin_api_ gsk_ hvs. xai- shpat_",
           r"(?:dckr_pat_|lin_api_|gsk_|hvs\.|xai-|shpat_)[A-Za-z0-9_-]{24,}", _is_mixed),
    Rule("telegram-token", (b":aa",), rb"(?<=\d{8}):(?P<secret>AA[\w-]{33})(?![\w-])", bool, known=True),
    _known("jwt", "eyj", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _named("authorization", "authorization",
           rf"authorization{_IS}(?:(?:bearer|basic|token|negotiate|apikey)\s+)?(?P<secret>[\w.~+/=:-]+)",
           _is_credential),
    _named("authorization", "bearer", r"bearer\s+(?P<secret>[\w.~+/=-]{16,})", _is_value),
    _named("url-password", "://", r"(?<=\w)://[^\s/:@\"'<>]{0,100}:(?P<secret>[^\s/@\"'<>\\]+)@(?=[\w\[])",
           _is_url_password),
    _named("password", "passw pwd passphrase",
           rf"(?:{_PASSWORD})\w{{0,20}}{_IS}(?P<secret>[^\s\"'`\\,;()<>\[\]{{}}&|]++)(?![(\[])", _is_password),
    _named("secret", "secret token credential key",
           rf"(?:{_SECRET})\w{{0,20}}{_IS}(?P<secret>[\w.~+/=:-]++)(?![(\[])", _is_value),
)  # fmt: skip

_MASK = b"[redacted:"


_KNOWN_SIGNS = tuple((sign, rule) for rule in RULES if rule.known for sign in rule.signs)
_NAMED_SIGNS = tuple((sign, rule) for rule in RULES if not rule.known for sign in rule.signs)
_KNOWN_BYTES = 20
_LONG = b"w" * _KNOWN_BYTES
_TO_SHAPE = bytes(_LONG[0] if chr(code).isalnum() or chr(code) in "_-.:" else 0x20 for code in range(128)) + b" " * 128
_LEAST_CHARACTERS = 10
"""No secret that is named as one is shorter, its name included, and no known form is."""
_SHORT_CHARACTERS, _MOST_SHORT = 64, 4096
"""Texts of JSON repeat themselves if they are short: so many are remembered to hold no secret."""
_SECRET_KEY = re.compile(rf"authorization|{_SECRET}", re.IGNORECASE)
_PASSWORD_KEY = re.compile(_PASSWORD, re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


@functools.cache
def _any_known() -> re.Pattern[bytes]:
    """Finds whether a sign of a known form is there. Those that begin alike share an alternative: a place tries few."""
    groups = itertools.groupby(sorted({sign for sign, _ in _KNOWN_SIGNS}), lambda sign: sign[:1])
    alike = [(first, b"|".join(re.escape(sign[1:]) for sign in group)) for first, group in groups]
    return re.compile(b"|".join(b"%b(?:%b)" % (re.escape(first), rest) for first, rest in alike))


@functools.lru_cache(maxsize=1024)
def _naming(key: str) -> tuple[bool, bool]:
    """Whether a key names a password, and any other secret."""
    return _PASSWORD_KEY.search(key) is not None, _SECRET_KEY.search(key) is not None


class Redactor:
    """Masks secrets, and counts in `counts` what it has masked, by kind."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._clean: set[str] = set()

    @property
    def total(self) -> int:
        """How many secrets were masked."""
        return self.counts.total()

    def text(self, text: str) -> str:
        """The text without its secrets."""
        is_short = len(text) <= _SHORT_CHARACTERS
        if is_short and (len(text) < _LEAST_CHARACTERS or text in self._clean):
            return text
        data = text.encode(errors="surrogatepass")
        low = data.lower()
        words = _long_words(low)
        due = [(sign, rule) for sign, rule in _NAMED_SIGNS if sign in low]
        if words and _any_known().search(words):
            due = [(sign, rule) for sign, rule in _KNOWN_SIGNS if sign in words] + due
        spans: list[tuple[int, int, str]] = []
        for sign, rule in due:
            _find(sign, rule, data, low, spans)
        if not spans:
            if is_short:
                self._remember(text)
            return text
        parts, done = [], 0
        for begin, end, kind in sorted(spans):
            parts += [data[done:begin], self._mask(kind).encode()]
            done = end
        return b"".join([*parts, data[done:]]).decode(errors="surrogatepass")

    def _remember(self, text: str) -> None:
        if len(self._clean) >= _MOST_SHORT:
            self._clean.clear()
        self._clean.add(text)

    def value(self, value: Any) -> Any:
        """A JSON value without secrets, in its keys too; a string under a key that names a secret is masked whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(key): self._named_value(key, each) for key, each in value.items()}
        return value

    def _named_value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.value(value)
        names_password, names_secret = (_naming if len(key) <= _SHORT_CHARACTERS else _naming.__wrapped__)(key)
        if not (names_password or names_secret):
            return self.text(value)
        scheme = _SCHEME.match(value)
        bare = value[scheme.end() :] if scheme else value
        is_password = names_password and _is_password(bare)
        if " " not in bare and (is_password or (names_secret and _is_value(bare))):
            kind = "password" if is_password else "authorization" if scheme else "secret"
            return value[: len(value) - len(bare)] + self._mask(kind)
        return self.text(value)

    def _mask(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"[redacted:{kind}]"


def _long_words(low: bytes) -> bytes:
    """The words of a text that are long enough to be a secret of a known form, a space between any two."""
    shape = low.translate(_TO_SHAPE)
    begin, words = shape.find(_LONG), []
    while begin >= 0:
        end = shape.find(b" ", begin)
        end = end if end >= 0 else len(shape)
        words.append(low[begin:end])
        begin = shape.find(_LONG, end)
    return b" ".join(words)


def _find(sign: bytes, rule: Rule, data: bytes, low: bytes, spans: list[tuple[int, int, str]]) -> None:
    """Add where the rule holds, as far as nothing else was found there before."""
    at, pattern = low.find(sign), rule.pattern
    while at >= 0:
        found = pattern.match(data, at)
        if found is None:
            at = low.find(sign, at + 1)
            continue
        begin, end = found.span("secret" if pattern.groupindex else 0)
        is_free = all(end <= other or stop <= begin for other, stop, _ in spans)
        if is_free and not data.startswith(_MASK, begin) and rule.fits(data[begin:end].decode(errors="replace")):
            spans.append((begin, end, rule.kind))
        at = low.find(sign, max(found.start() + 1, end if is_free else 0))
