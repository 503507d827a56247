"""Secrets are masked, and what only looks like one is not: a corpus of both.

True secrets are put together here from parts, so that no scanner of repositories takes this file for a leak.
"""

from __future__ import annotations

import json
import string
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout.items.redaction import Redactor
from rollout.items.secret_rules import RULES
from tests.secret_kinds import KINDS

MIXED = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7dEf0hIj3kLm6n"
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9" * 2
PEM = f"MIIEpAIBAAKCAQEA{MIXED}\n{MIXED}\n"
BEGIN, END = "-----BEGIN {}PRIVATE KEY-----\n", "-----END {}PRIVATE KEY-----"

SECRETS = {  # by what is masked, (the text, the part that must not be left)
    "openai-key": [f"sk-{MIXED}", f"sk-proj-{MIXED}", f"export OPENAI_API_KEY=sk-{MIXED}", f"'sk-svcacct-{MIXED}'"],
    "anthropic-key": [f"sk-ant-api03-{MIXED}"],
    "github-token": [f"gh{kind}_{MIXED[:36]}" for kind in "pousr"] + [f"github_pat_11{MIXED}"],
    "gitlab-token": [f"glpat-{MIXED[:20]}"],
    "aws-key": ["AKIA" + "Q3EGRIJ7N5TZ2WXY", "id ASIA" + "Q3EGRIJ7N5TZ2WXY."],
    "slack-token": [f"xoxb-{'1234567890'}-{MIXED[:24]}", f"xapp-1-{MIXED[:24]}"],
    "slack-webhook": [f"https://hooks.slack.com/services/{'T0123ABCD/B0123ABCD'}/{MIXED[:24]}"],
    "google-key": [f"AIza{MIXED[:35]}"],
    "google-token": [f"ya29.{MIXED}", f"GOCSPX-{MIXED[:28]}"],
    "stripe-key": [f"sk_live_{MIXED[:24]}", f"rk_test_{MIXED[:24]}", f"whsec_{MIXED[:32]}"],
    "npm-token": [f"//registry.npmjs.org/:_authToken=npm_{MIXED[:36]}"],
    "pypi-token": [f"pypi-AgEIcHlwaS5vcmc{MIXED}"],
    "huggingface-token": [f"hf_{MIXED[:34]}"],
    "sendgrid-key": [f"SG.{MIXED[:22]}.{MIXED[:43]}"],
    "digitalocean-token": [f"dop_v1_{HEX}"],
    "service-token": [f"gsk_{MIXED}", f"xai-{MIXED}", f"dckr_pat_{MIXED}"],
    "telegram-token": [f"bot123456789:AA{MIXED[:33]}"],
    "jwt": [f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{MIXED}"],
    "private-key": [
        BEGIN.format("RSA ") + PEM + END.format("RSA "),
        BEGIN.format("OPENSSH ") + PEM,  # cut before its end
        json.dumps(BEGIN.format("") + PEM + END.format("")),
        f"AGE-SECRET-KEY-1{HEX.upper()}",
    ],
    "authorization": [
        f"Authorization: Bearer {MIXED}",
        f"curl -H 'authorization: token {MIXED}'",
        f'{{"Authorization": "Basic {MIXED}="}}',
        json.dumps({"cmd": f'{{"Authorization":"{MIXED}"}}'}),
        f"headers: bearer {MIXED}",
    ],
    "url-password": [f"postgres://app:{MIXED[:9]}@db.internal:5432/x", f"https://me:{MIXED[:30]}@example.com/a.git"],
    "password": ["DB_PASSWORD=hunter2!x", 'password: "corr3ct-horse"', '"passwd": "s3cr3t-pw"', "PGPASSWORD=a1b2c3 x"],
    "secret": [
        f"aws_secret_access_key = {MIXED[:40]}",
        f"API_KEY={HEX[:32]}",
        f'"client_secret": "{MIXED[:24]}"',
        f"x-api-key: {MIXED[:24]}",
        f"refresh_token => '{MIXED[:40]}'",
        f"AccountKey={MIXED}==;EndpointSuffix=core.windows.net",
    ],
}  # fmt: skip
NO_SECRETS = [
    "total_tokens: 1234567890123, max_tokens=4096",
    "token = next(tokens)",
    "token: str | None = None",
    "def password(self) -> str: ...",
    "password = getpass.getpass()",
    "password: ${DB_PASSWORD}",
    "PASSWORD=<your password>",
    "api_key = os.environ['OPENAI_API_KEY']",
    'api_key="your-api-key-here-12345"',
    "OPENAI_API_KEY=sk-...",
    "export TOKEN=xxxxxxxxxxxxxxxx1A",
    "sk-circle-fade-dot-wrapper-container",
    "risk-management-framework-v2-Final",
    "Authorization: required",
    "authorization: Bearer $TOKEN",
    "the bearer of this letter is authorised",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "id 019d0000-0000-7000-8000-000000000001",
    "secret_id: 019d0000-0000-7000-8000-000000000001",
    "https://example.com:8080/path@x",
    "git@github.com:me/repo.git",
    "AKIA is how they begin",
    'eyJ is base64 of {"',
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "a key begins with -----BEGIN PRIVATE KEY----- and is to be kept",
    "tests/test_token.py::test_secret_key_is_read PASSED",
    "monkey: banana1234567, keyboard = qwerty12345678",
    "secret = self.secrets.lookup1A",
    "ghp_short",
    "token_path: /home/dev/.config/token1A",
    "password",
    "",
]
HIDDEN = [(kind, text) for kind, texts in SECRETS.items() for text in texts]


@pytest.mark.parametrize(("kind", "text"), HIDDEN)
def test_a_secret_is_masked_by_its_kind_and_counted(kind: str, text: str) -> None:
    redactor = Redactor()
    masked = redactor.text(f"before {text} after")
    assert redactor.counts == {kind: 1}
    assert f"[redacted:{kind}]" in masked
    assert masked.startswith("before ")
    assert not any(part in masked for part in (MIXED[2:9], HEX[:8], "Q3EGRIJ7", "hunter2", "corr3ct", "s3cr3t", "a1b2"))


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_looks_like_a_secret_stays_as_it_is(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.total == 0


@pytest.mark.parametrize(("kind", "text"), HIDDEN)
def test_what_was_masked_once_is_not_masked_again(kind: str, text: str) -> None:
    masked = Redactor().text(text)
    again = Redactor()
    assert again.text(masked) == masked
    assert again.total == 0


@pytest.mark.parametrize(("kind", "text"), HIDDEN)
def test_json_that_holds_a_secret_stays_json(kind: str, text: str) -> None:
    shown = json.loads(Redactor().text(json.dumps({"a": text, "b": [1, "end"]})))
    assert shown["b"] == [1, "end"]
    assert f"[redacted:{kind}]" in shown["a"]


def test_all_secrets_of_a_text_are_masked_and_all_else_stays() -> None:
    redactor = Redactor()
    text = "\n".join(f"é {text} ü" for _, text in HIDDEN if "PRIVATE KEY" not in text)
    masked = redactor.text(text)
    assert redactor.total == len([text for _, text in HIDDEN if "PRIVATE KEY" not in text])
    assert masked.count("é ") == masked.count(" ü") == redactor.total
    assert MIXED[:9] not in masked


def test_values_are_masked_by_the_name_of_their_key() -> None:
    redactor = Redactor()
    value = {"headers": {"Authorization": f"Bearer {MIXED}", "Accept": "json"}, "env": [{"DB_PASSWORD": "hunter2!"}]}
    assert redactor.value(value | {"n": 10**30, "token": "none", f"sk-{MIXED}": True}) == {
        "headers": {"Authorization": "Bearer [redacted:authorization]", "Accept": "json"},
        "env": [{"DB_PASSWORD": "[redacted:password]"}],
        "n": 10**30,
        "token": "none",
        "[redacted:openai-key]": True,
    }
    assert redactor.counts == {"authorization": 1, "password": 1, "openai-key": 1}


def _forms(text: str) -> list[str]:
    """What a shell prints, JSON, a source: in each a secret is spelt in another way."""
    return [f"$ cat x\n{text}\n$ ", json.dumps({"cmd": text, "n": 1}), f"x = f({json.dumps(text)})  # go\n"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_masked_whole_wherever_it_stands_and_only_once(kind: str) -> None:
    text, secret = KINDS[kind]
    pieces = [secret] if secret else [line for line in text.splitlines() if len(line) == 64]
    for form in [*_forms(text), f"\x1b[32m{text}\x1b[0m", text]:
        redactor = Redactor()
        masked = redactor.text(form)
        assert redactor.total >= 1
        assert not any(part in masked for piece in pieces for part in (piece, piece[4:], piece[:-2]))
        again = Redactor()
        assert (again.text(masked), again.total) == (masked, 0)
    value = {"message": text, "arguments": json.dumps({"cmd": text}).replace("/", "\\/").replace("+", "\\u002b")}
    told = json.dumps(Redactor().value(value))
    assert not any(part in told for piece in pieces for part in (piece, piece[4:], piece[:-2]))


def test_every_kind_of_rule_masks_something() -> None:
    redactor = Redactor()
    for text in [*(text for _, text in HIDDEN), *(text for text, _ in KINDS.values()), *MORE]:
        redactor.text(text)
    assert set(redactor.counts) == {rule.kind for rule in RULES}


MORE = [  # kinds of rules that are named elsewhere by another kind
    f"EAA{MIXED * 3}",
    "A" * 21 + f"{MIXED[:20]}%2F{MIXED}%3D{MIXED}",
    f"cfat_{MIXED[:40]}",
    f"sntryu_{HEX}",
]


def test_a_secret_in_several_strings_of_a_list_is_masked_as_one() -> None:
    key = f"ghp_{MIXED[:36]}"
    parts = [{"type": "input_text", "text": f"a {key[:9]}"}, {"type": "input_text", "text": f"{key[9:]} b"}]
    masked = Redactor().value(parts)
    assert [part["text"] for part in masked] == ["a [redacted:github-token]", " b"]
    command = ["curl", "-u", "me:hunter2!", "https://x.org"]
    assert Redactor().value(command) == ["curl", "-u", "me:[redacted:command-password]", "https://x.org"]
    block = BEGIN.format("RSA ") + PEM
    told = Redactor().value([{"text": block}, {"text": f"{MIXED}\n{END.format('RSA ')} after"}])
    assert MIXED not in json.dumps(told)
    assert told[1]["text"].endswith(" after")


def test_the_name_of_a_variable_tells_what_its_value_is() -> None:
    value = [{"name": "DB_PASSWORD", "value": "hunter2!x"}, {"key": "PATH", "value": "/usr/bin"}]
    assert [each["value"] for each in Redactor().value(value)] == ["[redacted:password]", "/usr/bin"]


ORDINARY = [
    "    headers['Authorization'] = _basic_auth_str(username, password)",
    "    self.key_password = key_password",
    "private_key: ed25519.Ed25519PrivateKey | None",
    "docker run -u 1000:1000 -p 8080:80 image",
    "mysql -u root -p app",
    "cookie = SimpleCookie()",
    "# Set-Cookie: PART_NUMBER=ROCKET_LAUNCHER_0001; path=/; expires=Wednesday, 09-Nov-99 23:12:40 GMT",
    "'https://user:pass@host.com:80/path?query#fragment'",
    "https://example.com:8080/path@v1.2.3",
    "echo $1$2 and $5$6",
    '"integrity": "sha512-' + MIXED * 2 + '=="',
    "data:image/png;base64," + MIXED * 4,
    "login and password are required",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_code_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


def test_hardly_anything_in_the_standard_library_is_taken_for_a_secret() -> None:
    """Its own tests and samples of passwords are left out; at most one line in 50,000 may be masked."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = list(sorted(folder.glob("*.py")) + sorted(folder.glob("[a-h]*/*.py")))
    lines, redactor = 0, Redactor()
    for path in paths:
        text = path.read_text("utf-8", errors="replace")
        lines += text.count("\n")
        redactor.text(text)
    assert lines > 100_000
    assert redactor.total <= lines / 50_000


HOSTILE = ["password", "eyJ", "-eyJ", "://a:", "-----BEGIN RSA PRIVATE KEY-----", "curl -u", "mysql ", "bearer ", "sk-",
           "token=", "login a ", "cookie: a=", "$1$", "a.", "key-", "Q~", "EAA", ":5432:a:", "--password", '{"a":[',
           "secret\\", "authorization: basic ", "AKIA" + "Q3EGRIJ7N5TZ2WXY "]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_grows_with_the_text_and_no_faster(piece: str) -> None:
    """One rule could look at the same bytes again and again: 16 times the text may take 64 times as long at most."""
    times = []
    for size in (8_000, 128_000):
        text = (piece * size)[:size]
        begin = time.process_time()
        Redactor().text(text)
        times.append(time.process_time() - begin)
    assert times[1] <= 64 * max(times[0], 0.002)


@given(st.text(alphabet=st.one_of(st.sampled_from(string.printable), st.characters()), max_size=200))
def test_any_text_comes_through_and_masking_is_settled_after_one_pass(text: str) -> None:
    masked = Redactor().text(text)
    again = Redactor()
    assert again.text(masked) == masked
    if again.total == 0 and masked.count("[redacted:") == text.count("[redacted:"):
        assert masked == text


@given(st.sampled_from(HIDDEN), st.text(max_size=30), st.text(max_size=30))
def test_a_secret_is_found_in_whatever_text_it_stands(hidden: tuple[str, str], before: str, after: str) -> None:
    redactor = Redactor()
    redactor.text(f"{before} {hidden[1]} {after}")
    assert redactor.counts[hidden[0]] >= 1


@pytest.mark.parametrize("text", ["pwd=abcde1", "a://:b1c@d"])
def test_the_shortest_secrets_that_there_are_do_not_pass_for_too_short(text: str) -> None:
    for _ in range(2):  # short texts are remembered
        assert Redactor().text(text) != text
        assert Redactor().value({"cmd": text}) != {"cmd": text}


fragments = st.one_of(
    st.sampled_from([text for _, text in HIDDEN] + NO_SECRETS),
    st.sampled_from([sign.decode() for rule in RULES for sign in rule.signs] + [": ", "='", "\n", "\\n", '"', "@a"]),
    st.text(alphabet=string.ascii_letters + string.digits + "_-.: é", max_size=40),
)
texts = st.lists(st.one_of(fragments, st.builds(lambda text: text[:12], fragments)), max_size=6).map("".join)


def secrets_in(data: bytes) -> list[tuple[int, int, str]]:
    """Begin, end and kind of each secret: every rule is tried where one of its signs stands, the first one counts."""
    found: list[tuple[int, int, str]] = []
    taken: set[int] = set()
    for rule in RULES:
        group = "secret" if rule.pattern.groupindex else 0
        for sign in rule.signs:
            after = 0
            for at in range(len(data)):
                if at < after or not data.lower().startswith(sign, at):
                    continue
                match = rule.pattern.match(data, max(0, at - rule.lead))
                if match is None:
                    continue
                begin, end = match.span(group)
                is_free = taken.isdisjoint(range(begin, end))
                fits = not data.startswith(b"[redacted:", begin) and rule.fits(data[begin:end].decode(errors="replace"))
                if is_free and fits:
                    found.append((begin, end, rule.kind))
                    taken |= set(range(begin, end))
                after = end if is_free else min((n for n in range(begin, end) if n not in taken), default=end)
    return sorted(found)


@given(st.lists(texts, min_size=1, max_size=3))
def test_no_secret_is_missed_for_the_rules_and_texts_that_are_passed_over(said: list[str]) -> None:
    redactor = Redactor()
    for text in [*said, *said]:
        data, before = text.encode(), redactor.total
        spans, masked = secrets_in(data), redactor.text(text)
        assert redactor.total - before == len(spans)
        rest, done = b"", 0
        for begin, end, kind in spans:
            rest, done = rest + data[done:begin] + f"[redacted:{kind}]".encode(), end
        assert masked.encode() == rest + data[done:]
