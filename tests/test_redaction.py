"""Secrets are masked, and what only looks like one is not: a corpus of both.

True secrets are put together here from parts, so that no scanner of repositories takes this file for a leak.
"""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout import redaction
from rollout.redaction import RULES, Redactor

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
    "service-token": [f"gsk_{MIXED}", f"hvs.{MIXED}", f"xai-{MIXED}", f"dckr_pat_{MIXED}"],
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


def test_every_rule_masks_something_of_the_corpus() -> None:
    assert {rule.kind for rule in RULES} == set(SECRETS)
    redactor = Redactor()
    for rule in RULES:
        assert any(redactor.text(text) != text and rule.kind == kind for kind, text in HIDDEN)


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
    assert len(text) == redaction._LEAST_CHARACTERS
    assert Redactor().text(text) != text


fragments = st.one_of(
    st.sampled_from([text for _, text in HIDDEN] + NO_SECRETS),
    st.sampled_from([sign.decode() for rule in RULES for sign in rule.signs] + [": ", "='", "\n", "\\n", '"', "@a"]),
    st.text(alphabet=string.ascii_letters + string.digits + "_-.: é", max_size=40),
)
texts = st.lists(st.one_of(fragments, st.builds(lambda text: text[:12], fragments)), max_size=6).map("".join)


@given(st.lists(texts, min_size=1, max_size=3))
def test_no_secret_is_missed_for_the_rules_and_texts_that_are_passed_over(said: list[str]) -> None:
    redactor = Redactor()
    for text in [*said, *said]:
        data, spans = text.encode(), list[tuple[int, int, str]]()
        for is_known in (True, False):
            for rule in (rule for rule in RULES if rule.known == is_known):
                for sign in rule.signs:
                    redaction._find(sign, rule, data, data.lower(), spans)
        before = redactor.total
        masked = redactor.text(text)
        assert redactor.total - before == len(spans)
        rest, done = b"", 0
        for begin, end, kind in sorted(spans):
            rest, done = rest + data[done:begin] + f"[redacted:{kind}]".encode(), end
        assert masked.encode() == rest + data[done:]
