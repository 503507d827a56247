"""What secrets look like: the one table of their forms.

Forms of well-known services are facts that those publish, or that everybody can see in their tokens. A known form is
masked wherever it stands; what is only named as a secret (`password = …`, `curl -u …`) has to look like one, too.
Patterns are anchored where a sign of theirs stands, and what can repeat in them is bounded or cannot be given back
(possessive), so that no text takes longer than in proportion to its length.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import re
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a kind of secret looks like: the group `secret` of its pattern (else all) is masked, if it `fits`.

    `signs` are lower case; in whatever case, each match of the pattern has one `lead` bytes behind its beginning (an
    empty one: anywhere). A `known` form begins with one word of 20 letters, digits and `_-.:` or more; `probe` finds
    its beginning in the lower case of such a word (None: it is a sign). No text without the `gate` has it.
    """

    kind: str
    signs: tuple[bytes, ...]
    expression: bytes
    fits: Callable[[str], bool]
    known: bool
    flags: re.RegexFlag = re.NOFLAG
    lead: int = 0
    probe: bytes | None = None
    gate: bytes = b""

    @functools.cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Compiled where its sign is met for the first time: most rules never are."""
        return re.compile(self.expression, self.flags)


# What a value has to be like, where its form alone does not tell


def _count_digits(text: str) -> int:
    return sum(c in "0123456789" for c in text)


def _is_mixed(text: str) -> bool:
    """Digits and letters: no word, no number."""
    return _count_digits(text) > 0 and any(c.isalpha() for c in text)


def _is_shuffled(text: str) -> bool:
    """Letters of both cases, as many of each as chance gives: no words in camel case."""
    upper, lower = sum(c.isupper() for c in text), sum(c.islower() for c in text)
    return len(text) >= 16 and min(upper, lower) * 4 >= len(text)


def _is_random(text: str) -> bool:
    """Letters of both cases, or many digits among them: no name made of words."""
    digits = _count_digits(text)
    return (_is_mixed(text) and (digits >= 4 or (text.lower() != text != text.upper()))) or _is_shuffled(text)


_PLACEHOLDER = re.compile(
    r"x{4,}|\*{3,}|\.{3}|^<|^\$|^%|^\{|\bexample\b|placeholder|change.?me|^your|^my[-_]|redacted|^(?:os|process|self|env|"
    r"config|settings|args|secrets|req|request)\b[.\[]|^/[\w./-]*$|^https?:",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(r"[A-Za-z_][A-Za-z_.]*")
"""A name in a program, or a word."""
_TYPE = re.compile(r"[A-Za-z_][\w.]*(?:Key|Token|Secret|TOKEN)(?:s|Types?)?")
_SAMPLES = frozenset(
    "bar baz foo pass passwd password pw pwd secret string test thing token user username value".split()
)
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/=]{30,}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{1,5}(?:[/,?#]|$)")


def _is_value(text: str) -> bool:
    """Whether what is called a secret is one: no placeholder, no expression, no identifier, no name of a type."""
    if len(text) < 12 or not _is_random(text) or _PLACEHOLDER.search(text):
        return False
    return not _UUID.fullmatch(text) and not _TYPE.fullmatch(text)


def is_token(text: str) -> bool:
    """The same of what is no id: a UUID is a secret, too."""
    return _is_value(text) or _UUID.fullmatch(text) is not None


def is_password(text: str) -> bool:
    """Whether what is called a password is one: no word, no number, no placeholder, no name of a program."""
    return len(text) >= 6 and _is_user_password(text) and not _EXPRESSION.fullmatch(text)


def _is_argument(text: str) -> bool:
    """A password or a token on a command line."""
    has_sign = any(c in "!@#$%^&*+?~" for c in text)
    return is_password(text) and not text.startswith("-") and (_is_mixed(text) or not text.isascii() or has_sign)


def _is_url_password(text: str) -> bool:
    """What stands between a user and a host: no port and path, no sample of documentation."""
    if len(text) < 3 or text.lower() in _SAMPLES or _PLACEHOLDER.search(text) or _PORT.match(text):
        return False
    return "/" not in text or _is_mixed(text) or "@" in text.partition("/")[0]


def _is_account(text: str) -> bool:
    return len(text) >= 4 and text.lower() not in _SAMPLES and not _PLACEHOLDER.search(text)


def _is_user_password(text: str) -> bool:
    """What stands behind `user:` on a command line: no group or port of an image."""
    return _is_account(text) and _count_digits(text) < len(text)


def _is_credential(text: str) -> bool:
    """What stands behind `Authorization`: anything but a placeholder or a variable."""
    if len(text) < 8 or _PLACEHOLDER.search(text):
        return False
    return not _EXPRESSION.fullmatch(text) or _is_shuffled(text) or _is_basic(text)


def _is_basic(text: str) -> bool:
    """`user:password` in base64."""
    decoded = _decoded(text)
    return b":" in decoded[1:] and all(0x20 <= byte < 0x7F for byte in decoded)


def _decoded(text: str) -> bytes:
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_numbered(text: str) -> bool:
    """A Discord token, which begins with the number of its bot in base64."""
    return re.fullmatch(rb"[0-9]{15,21}", _decoded(text.partition(".")[0])) is not None


def _is_encoded_key(text: str) -> bool:
    return b" PRIVATE KEY-----" in _decoded(text[: len(text) & ~3 if len(text) < 64 else 64])


def _is_key_block(text: str) -> bool:
    return _BASE64_LINE.search(text) is not None


def _is_cookie(text: str) -> bool:
    """Some cookie of a header has a value that nobody chose: one word, neither a date nor a name in capitals."""
    values = [part.partition("=")[2].strip("\"' ") for part in text.split(";")]
    words = [value for value in values if len(value) >= 12 and " " not in value and value != value.upper()]
    return any(_is_random(word) and not _PLACEHOLDER.search(word) for word in words)


# The parts of patterns

_COLOUR = r"(?<=\[[0-9]m)|(?<=\[[0-9][0-9]m)|(?<=;[0-9][0-9]m)"
_BEGINS = rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|{_COLOUR}|(?<=%[2-3][0-9A-Fa-f]))"
"""No letter or digit stands ahead, but for those of an escaped line end, a colour of a terminal, a byte in a URL."""
_SPACE = r"(?:\s|\\[nrt])"
_QUOTE = r"""(?:\\{0,3}["'`]|&(?:quot|apos|\#39|\#x27|\#34);)?"""
_IS = rf"""{_QUOTE}\]?\s{{0,3}}(?:=>|:=|[:=])\s{{0,3}}{_QUOTE}"""
"""Between a name and its value, in code, JSON (inside of a string, too), YAML, HTML, a header, a shell."""
_THEN = r"""(?:\\{0,3}["'],?)?(?:\s{1,8}|=|(?<=,))\s{0,3}(?:\\{0,3}["'`])?"""
"""Between an option and its argument, in a shell or a list of words."""
_STUCK = r"""(?:["'],)?\s{0,3}(?:\\{0,3}["'`])?"""
"""The same where nothing need stand between them."""
_ESCAPED = r"\\/|\\u00(?:2[bdefBDEF56]|3[dfDF])"
"""Signs that JSON may have with an escape."""
_VALUE = rf"(?:[\w.~+/=:%-]|{_ESCAPED}){{8,4096}}+"
_LOOSE = rf"""(?:[^\s\x1b"'`\\,;()<>\[\]{{}}&|]|{_ESCAPED}){{3,512}}+"""
_ARGUMENT = r"""(?:[^\s\x1b"'`\\;()<>\[\]{}&|]|\\/){3,512}+"""
_NO_CALL = r"(?![(\[])"
_PEM = rb"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
PASSWORD_NAME = r"passw(?:or)?d|pwd|passphrase"
_KEY = "".join(
    f"|(?<={owner}{mark})key"
    for owner in ("api", "access", "auth", "account", "signing", "encryption", "private", "master", "admin", "app",
                  "license", "service", "role", "storage", "subscription")
    for mark in ("", "_", "-")
)  # fmt: skip
SECRET_NAME = f"secret|token|credential{_KEY}"


def _known(
    kind: str,
    signs: str,
    pattern: str,
    fits: Callable[[str], bool] = bool,
    *,
    lead: int = 0,
    probe: str | None = None,
) -> Rule:
    sought = None if probe is None else probe.encode()
    expression = f"{_BEGINS}{pattern}".encode()
    return Rule(kind, _signs(signs), expression, fits, known=True, lead=lead, probe=sought)


def _named(kind: str, signs: str, pattern: str, fits: Callable[[str], bool], *, lead: int = 0, gate: str = "") -> Rule:
    flags = re.IGNORECASE
    return Rule(kind, _signs(signs), pattern.encode(), fits, known=False, flags=flags, lead=lead, gate=gate.encode())


def _signs(signs: str) -> tuple[bytes, ...]:
    return tuple(sign.encode() for sign in signs.split() or [""])


_NAMED_PASSWORD = rf"(?:{PASSWORD_NAME})\w{{0,20}}{_IS}(?P<secret>{_LOOSE}){_NO_CALL}"
_ONE = r"[A-Za-z0-9_-]"

RULES: tuple[Rule, ...] = (  # where two overlap, the first one counts
    Rule(
        "private-key",
        (b"-----begin",),
        rb"-----BEGIN " + _PEM + rb"(?P<secret>.*?)(?=-----(?:END|BEGIN) |\\*[\"'`<]|\Z)",
        _is_key_block,
        known=False,
        flags=re.DOTALL,
    ),
    _known("private-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,80}"),
    _known("private-key", "ls0tls1crudjti", r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,20000}+={0,2}", _is_encoded_key),
    _known("anthropic-key", "sk-ant-", rf"sk-ant-{_ONE}{{20,512}}+"),
    _known("openai-key", "sk-", rf"sk-(?!ant-){_ONE}{{20,512}}+", _is_random),
    _known("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,512}+"),
    _known("github-token", "github_pat_", r"github_pat_\w{22,512}+"),
    _known("gitlab-token",
           "glpat- glptt- gldt- glrt- glcbt- glimt- glagent- glsoat- glffct- gloas- glft- glrtr-",
           rf"gl(?:pat|ptt|dt|rt|cbt|imt|agent|soat|ffct|oas|ft|rtr)-(?:{_ONE}|\.(?=\w)){{20,512}}+", _is_mixed),
    _known("gitlab-token", "gr1348941", rf"GR1348941{_ONE}{{20,64}}+"),
    _known("aws-key", "akia asia abia acca", r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _known("aws-key", "absk", r"ABSK[A-Za-z0-9+/]{100,300}+={0,2}", probe=r"absk[a-z0-9]{16}"),
    _known("slack-token", "xox", rf"xox[abeoprs](?:\.xox[bp])?-{_ONE}{{15,512}}+", _is_mixed),
    _known("slack-token", "xapp-", rf"xapp-{_ONE}{{15,512}}+", _is_mixed),
    _named("slack-webhook", "hooks.slack.",
           r"hooks\.slack(?:-gov)?\.com\\?/(?:services|workflows|triggers)(?P<secret>(?:\\?/[a-z0-9]{1,64}){2,6})",
           _is_mixed, gate="hook"),
    _named("discord-webhook", "api/webhooks/ api\\/webhooks\\/",
           rf"api\\?/webhooks\\?/(?P<secret>[0-9]{{15,22}}\\?/{_ONE}{{40,128}}+)", bool, gate="hook"),
    _known("discord-token", "", rf"[MNO][\w-]{{22,28}}\.{_ONE}{{6}}\.{_ONE}{{27,64}}+", _is_numbered,
           probe=r"[mno][\w-]{22,28}\.[\w-]{6}\.[\w-]{27}"),
    _known("google-key", "aiza", r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    _known("google-token", "ya29. gocspx-", r"(?:ya29\.|GOCSPX-)(?:[\w-]|\.(?=\w)){20,2048}+"),
    _known("firebase-key", "aaaa", r"AAAA[\w-]{7}:APA91b[\w-]{100,200}+", probe=r"aaaa[\w-]{7}:apa91b"),
    _known("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
           r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/]{16,256}+"),
    _known("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _known("pypi-token", "pypi-ag", rf"pypi-Ag{_ONE}{{50,512}}+"),
    _known("huggingface-token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,64}+(?!\w)",
           lambda text: _is_random(text) or _is_shuffled(text.partition("_")[2])),
    _known("sendgrid-key", "sg.", rf"SG\.{_ONE}{{16,64}}+\.{_ONE}{{16,64}}+"),
    _known("mailgun-key", "key-", r"key-[0-9a-f]{32}(?!\w)", probe=r"key-[0-9a-f]{32}"),
    _known("mailchimp-key", "-us", r"[0-9a-f]{32}-us[0-9]{1,2}(?!\w)", lead=32, probe=r"[0-9a-f]{32}-us[0-9]"),
    _known("twilio-key", "sk", r"SK[0-9a-f]{32}(?!\w)", probe=r"sk[0-9a-f]{32}"),
    _known("digitalocean-token", "doo_v1_ dop_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _known("square-token", "sq0atp- sq0csp- sq0idp-", rf"sq0(?:atp|csp|idp)-{_ONE}{{22,64}}+"),
    _known("square-token", "eaaa", rf"EAAA{_ONE}{{60}}(?!{_ONE})", _is_random, probe=r"eaaa[\w-]{60}"),
    _known("facebook-token", "eaa", r"(?<![+/=])EAA[A-Za-z0-9]{90,400}+(?![A-Za-z0-9+/=])", _is_random,
           probe=r"eaa[a-z0-9]{90}"),
    _known("twitter-token", "aaaaaaaaaaaaaaaaaaa",
           r"(?<![+/=A])A{19,22}(?!A)[A-Za-z0-9]{2,64}+(?:%[0-9A-F]{2}[A-Za-z0-9]{0,64}+){1,12}+", _is_random),
    _known("dropbox-token", "sl.", rf"sl\.(?:u\.)?{_ONE}{{60,2048}}+", _is_random, probe=r"sl\.[\w.-]{60}"),
    _known("vault-token", "hvs. hvb. hvr.", rf"hv[sbr]\.{_ONE}{{24,512}}+", _is_mixed),
    _known("terraform-token", ".atlasv1.", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_ONE}{{60,128}}+",
           lead=14, probe=r"[a-z0-9]{14}\.atlasv1\."),
    _known("shopify-token", "shpat_ shpss_ shpca_ shppa_", r"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
    _known("grafana-token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/]{32,400}+={0,2})"),
    _known("grafana-token", "eyjrijoi", r"eyJrIjoi[A-Za-z0-9_-]{60,400}+={0,2}"),
    _known("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-[0-9])?(?!\w)", probe=r"dapi[0-9a-f]{32}"),
    _known("notion-token", "secret_ ntn_", r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,64}+)(?!\w)", _is_mixed,
           probe=r"(?:secret|ntn)_[a-z0-9]{40}"),
    _known("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", probe=r"pat[a-z0-9]{14}\.[0-9a-f]{64}"),
    _known("sentry-token", "sntrys_ sntryu_", r"sntry(?:s_eyJ[\w+/=.-]{40,512}+|u_[0-9a-f]{64})"),
    _known("newrelic-key", "nrak- nrjs- nraa- nrii-", rf"NR(?:AK|JS|AA|II)-{_ONE}{{19,64}}+", _is_mixed),
    _known("newrelic-key", "nral", r"[0-9a-fA-F]{36}NRAL(?!\w)", lead=36, probe=r"[0-9a-f]{36}nral"),
    _known("pulumi-token", "pul-", r"pul-[0-9a-f]{40}(?!\w)", probe=r"pul-[0-9a-f]{40}"),
    _known("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,64}+",
           probe=r"dp\.(?:pt|st|ct|sa|scim|audit)\."),
    _known("mapbox-token", "sk.eyj tk.eyj", rf"[st]k\.eyJ{_ONE}{{20,400}}+\.{_ONE}{{16,64}}+"),
    _known("replicate-token", "r8_", r"r8_[A-Za-z0-9]{37}(?!\w)"),
    _known("supabase-key", "sbp_ sb_secret_", r"(?:sbp_(?:oauth_)?[0-9a-f]{40}|sb_secret_[\w-]{20,64}+)"),
    _known("fly-token", "fo1_ fm1 fm2", r"(?:fo1_[\w-]{40,64}+|fm[12][ar]?_[A-Za-z0-9+/]{60,4096}+={0,2})",
           probe=r"f(?:o1|m[12][ar]?)_[a-z0-9]{16}"),
    _known("cloudflare-token", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,200}+"),
    _known("cloudflare-token", "cfat_ cfut_ cfk_", r"cf(?:at|ut|k)_[A-Za-z0-9]{32,64}+", _is_mixed),
    _known("service-token",
           "dckr_pat_ dckr_oat_ lin_api_ lin_oauth_ gsk_ xai- figd_ figo_ nfp_ vcp_ vca_ vck_ vcr_ vci_ hrku- pplx- "
           "rubygems_ tvly- lsv2_pt_ lsv2_sk_ phx_ xkeysib- nvapi- e2b_ jina_ wandb_v1_ sm_aat_ atatt3x atctt3x "
           "dt0c01. ops_eyj",
           r"(?:dckr_[po]at_|lin_(?:api|oauth)_|gsk_|xai-|fig[do]_|nfp_|vc[pakri]_|HRKU-|pplx-|rubygems_|tvly-|"
           r"lsv2_[ps][tk]_|phx_|xkeysib-|nvapi-|e2b_|jina_|wandb_v1_|sm_aat_|AT[AC]TT3x|dt0c01\.|ops_eyJ)"
           rf"(?:{_ONE}|[.=](?=\w)){{20,1024}}+", _is_random),
    Rule("telegram-token", (b":aa",), rb"(?<=[0-9]{8}):(?P<secret>AA[\w-]{33})(?![\w-])", bool, known=True,
         probe=rb"(?:bot)?[0-9]{8,10}:aa[\w-]{33}"),
    _known("jwt", "eyj",
           rf"eyJ{_ONE}{{8,4000}}+\.(?:eyJ{_ONE}{{8,8000}}+|{_ONE}{{0,1000}}+)\.{_ONE}{{8,2000}}+"
           rf"(?:\.{_ONE}{{4,8000}}+)*+"),
    _named("azure-secret", "q~",
           rf"(?:(?<![\w~.-])|{_COLOUR})[\w~.-]{{3}}[0-9]Q~[\w~.-]{{31,40}}+", _is_random, lead=4, gate="~"),
    _named("url-signature", "sig=",
           r"(?<=[?&;\s\"'])sig=(?P<secret>[a-z0-9%+/]{40,128}+={0,2})", _is_mixed, gate="&"),
    _named("password-hash", "$apr1$ $2a$ $2b$ $2y$ $1$ $5$ $6$ $y$ $argon2",
           r"\$(?:apr1|2[aby]|[156y]|argon2(?:id|i|d))\$(?P<secret>(?:[\w.,=]{1,40}\$){0,4}[./A-Za-z0-9+]{20,128}+)",
           bool, gate="$"),
    _named("authorization", "authorization",
           rf"authorization{_IS}(?:(?:bearer|basic|token|negotiate|apikey|ssws|digest|bot|key)\s+)?"
           rf"(?P<secret>(?:[\w.~+/=:-]|{_ESCAPED}){{4,8192}}+){_NO_CALL}", _is_credential, gate="auth"),
    _named("authorization", "bearer", rf"bearer\s{{1,8}}(?P<secret>{_VALUE}){_NO_CALL}", _is_value),
    _named("basic-auth", 'auth" auth\\" auth\' _auth',
           rf"(?:auth|_auth){_IS}(?P<secret>[a-z0-9+/]{{8,512}}+={{0,2}})", _is_basic, gate="auth"),
    _named("cookie", "cookie",
           r"""cookie(?:\\{0,3}["'])?\s?:\s?(?:\\{0,3}["'])?(?P<secret>[\w.-]{1,64}=[^\r\n"'\\<>]{4,4096}+)""",
           _is_cookie),
    _named("cookie", "cookie", rf"(?<=-)cookie{_THEN}(?P<secret>[\w.-]{{1,64}}=[^\r\n\"'\\<>]{{4,4096}}+)", _is_cookie),
    _named("url-password", "://",
           rf"(?<=\w)://[^\s/:@\"'<>\\\[]{{0,100}}:(?P<secret>(?:[^\s\"'<>`\\]|{_ESCAPED}){{1,256}})@(?=[\w\[])",
           _is_url_password, gate="@"),
    _named("url-password", "://", r"(?<=\w)://(?P<secret>[0-9a-f]{32}(?::[0-9a-f]{32})?)@(?=[\w\[])", bool, gate="@"),
    _named("command-password", "curl",
           rf"curl\b[^\n]{{0,400}}?(?:(?<=\s)|(?<=[\"']))-(?:u|U|-user|-proxy-user)(?:{_THEN}|['\"]?)"
           rf"[\w.@%+-]{{1,100}}:(?P<secret>{_ARGUMENT})", _is_user_password),
    _named("command-password", "mysql",
           rf"mysql[\w-]{{0,12}}\b[^\n]{{0,300}}?(?:\s|[\"'])-p['\"]?(?P<secret>{_ARGUMENT})", is_password),
    _named("command-password", "sshpass", rf"sshpass\s-p{_STUCK}(?P<secret>{_ARGUMENT})", _is_account,
           gate="pass"),
    _named("command-password", "passw passphrase",
           rf"(?<=-)(?:{PASSWORD_NAME}){_THEN}(?P<secret>{_ARGUMENT}){_NO_CALL}", _is_argument, gate="pass"),
    _named("command-password", "token secret key",
           rf"(?<=-)(?:token|secret|(?<=api-|ret-|ess-)key){_THEN}(?P<secret>{_VALUE}){_NO_CALL}", _is_value),
    _named("netrc-password", "login",
           rf"login{_SPACE}{{1,8}}[^\s\"'\\]{{1,100}}{_SPACE}{{1,8}}(?:account{_SPACE}{{1,8}}[^\s\"'\\]{{1,100}}"
           rf"{_SPACE}{{1,8}})?password{_SPACE}{{1,8}}(?P<secret>{_ARGUMENT})", is_password, gate="pass"),
    _named("pgpass-password", ":5432:",
           r":5432:[^:\s]{1,64}:[^:\s]{1,64}:(?P<secret>[^\s\"'\\,]{4,128}+)", is_password),
    _named("password", "passw passphrase", _NAMED_PASSWORD, is_password, gate="pass"),
    _named("password", "pwd", _NAMED_PASSWORD, is_password),
    _named("secret", "secret token credential key",
           rf"(?:{SECRET_NAME})(?!\w{{0,20}}id\b)\w{{0,20}}{_IS}(?P<secret>{_VALUE}){_NO_CALL}", is_token),
    _named("private-key", "key", rf"(?<=client-)key-data{_IS}(?P<secret>[a-z0-9+/=]{{40,20000}}+)", bool),
)  # fmt: skip
