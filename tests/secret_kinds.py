"""79 kinds of secrets as they really look, each put together from parts: no scanner takes this file for a leak.

By kind, the text that it stands in and the secret itself, which must be gone whole (empty: the lines of a key). Values
are drawn from one seed.
"""

from __future__ import annotations

import base64
import random
import string

_random = random.Random(20260320)
ALPHANUMERIC, HEX = string.ascii_letters + string.digits, "0123456789abcdef"


def some(n: int, of: str = ALPHANUMERIC) -> str:
    """So many random signs, among them one digit, one small and one capital letter where there are such."""
    found = [_random.choice(of) for _ in range(n)]
    for at, least in enumerate((string.digits, string.ascii_lowercase, string.ascii_uppercase)):
        if n > 8 and set(least) <= set(of):
            found[2 + 2 * at] = _random.choice(least)
    return "".join(found)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pem(name: str) -> str:
    body = "\n".join(some(64) for _ in range(4))
    return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"


def _token(before: str, secret: str, after: str = "") -> tuple[str, str]:
    return f"{before}{secret}{after}", secret


def _alone(secret: str) -> tuple[str, str]:
    return secret, secret


PASSWORD = "v3ry-S3cret" + "!x"
JWT = f"eyJ{some(20)}.eyJ{some(60)}.{some(43)}"

KINDS: dict[str, tuple[str, str]] = {
    "aws access key": _alone("AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
    "aws secret key": _token("aws_secret_access_key = ", some(40)),
    "aws session token": _token("AWS_SESSION_TOKEN=", "IQoJ" + some(200)),
    "gcp service account": (pem("PRIVATE KEY"), ""),
    "google api key": _alone("AIza" + some(35)),
    "google oauth token": _alone("ya29." + some(80)),
    "google client secret": _alone("GOCSPX-" + some(28)),
    "firebase server key": _alone("AAAA" + some(7) + ":APA91b" + some(134)),
    "azure storage key": _token("AccountName=a;AccountKey=", some(86) + "==", ";EndpointSuffix=core.windows.net"),
    "azure sas": _token("https://a.blob.core.windows.net/c?sv=2023-01-03&sr=c&sig=", some(43) + "%3D"),
    "azure client secret": _alone(some(3) + "8Q~" + some(34)),
    "azure service bus": _token("Endpoint=sb://a.net/;SharedAccessKeyName=r;SharedAccessKey=", some(43) + "="),
    "github classic token": _alone("ghp_" + some(36)),
    "github fine-grained token": _alone("github_pat_" + some(22) + "_" + some(59)),
    "github app token": _alone("ghs_" + some(36)),
    "gitlab token": _alone("glpat-" + some(20)),
    "slack token": _alone("xoxb-" + some(12, string.digits) + "-" + some(24)),
    "slack webhook": _token("https://hooks.slack.com/services", "/T0" + some(8) + "/B0" + some(8) + "/" + some(24)),
    "stripe key": _alone("sk_live_" + some(24)),
    "twilio key": _alone("SK" + some(32, HEX)),
    "twilio auth token": _token("TWILIO_AUTH_TOKEN=", some(32, HEX)),
    "sendgrid key": _alone("SG." + some(22) + "." + some(43)),
    "mailgun key": _alone("key-" + some(32, HEX)),
    "mailchimp key": _alone(some(32, HEX) + "-us14"),
    "npm token": _alone("npm_" + some(36)),
    "pypi token": _alone("pypi-AgEIcHlwaS5vcmc" + some(60)),
    "docker hub token": _alone("dckr_pat_" + some(27)),
    "docker config auth": _token('{"auths":{"r.io":{"auth":"', encoded("me:" + some(12)), '"}}}'),
    "huggingface token": _alone("hf_" + some(34, string.ascii_letters)),
    "openai project key": _alone("sk-proj-" + some(80)),
    "openai legacy key": _alone("sk-" + some(48)),
    "anthropic key": _alone("sk-ant-api03-" + some(80)),
    "jwt": _alone(JWT),
    "openssh key": (pem("OPENSSH PRIVATE KEY"), ""),
    "pgp key": (pem("PGP PRIVATE KEY BLOCK"), ""),
    "age key": _alone("AGE-SECRET-KEY-1" + some(58, string.ascii_uppercase + string.digits)),
    "postgres url": _token("postgres://app:", "p@ss/" + some(8), "@db.internal:5432/x"),
    "mongodb url": _token("mongodb+srv://app:", some(14), "@c0.mongodb.net/x?retryWrites=true"),
    "netrc": _token("machine api.example.org\n  login me\n  password ", some(14)),
    "pgpass": _token("db.internal:5432:app:me:", some(12)),
    "htpasswd": _token("me:$apr1$", some(8) + "$" + some(22)),
    "basic auth header": _token("Authorization: Basic ", encoded("me:" + some(9))),
    "bearer header": _token("Authorization: Bearer ", some(40)),
    "cookie header": _token("Cookie: theme=dark; session=", some(32)),
    "set-cookie header": _token("Set-Cookie: sid=", some(32), "; Path=/; HttpOnly"),
    "kubeconfig key": _token("    client-key-data: ", encoded("-----BEGIN RSA PRIVATE" + " KEY-----\n" + some(90))),
    "kubeconfig token": _token("    token: ", JWT),
    "terraform cloud token": _alone(some(14) + ".atlasv1." + some(67)),
    "vault token": _alone("hvs." + some(90)),
    "datadog key": _token("DD_API_KEY=", some(32, HEX)),
    "new relic key": _alone("NRAK-" + some(27, string.ascii_uppercase + string.digits)),
    "sentry dsn": _token("https://", some(32, HEX), "@o12.ingest.sentry.io/345"),
    "linear key": _alone("lin_api_" + some(40)),
    "notion token": _alone("ntn_" + some(46)),
    "airtable token": _alone("pat" + some(14) + "." + some(64, HEX)),
    "figma token": _alone("figd_" + some(40)),
    "shopify token": _alone("shpat_" + some(32, HEX)),
    "square token": _alone("sq0atp-" + some(22)),
    "digitalocean token": _alone("dop_v1_" + some(64, HEX)),
    "heroku key": _token("HEROKU_API_KEY=", "-".join(some(n, HEX) for n in (8, 4, 4, 4, 12))),
    "fly token": _alone("fm2_lJPE" + some(120)),
    "cloudflare token": _token("CLOUDFLARE_API_TOKEN=", some(40)),
    "supabase token": _alone("sbp_" + some(40, HEX)),
    "replicate token": _alone("r8_" + some(37)),
    "databricks token": _alone("dapi" + some(32, HEX)),
    "discord bot token": _alone(f"{encoded('123456789012345678')}.{some(6)}.{some(38)}"),
    "discord webhook": _token("https://discord.com/api/webhooks/", some(18, string.digits) + "/" + some(68)),
    "telegram token": _token("", some(9, "123456789") + ":AA" + some(33)),
    "dropbox token": _alone("sl.u." + some(140)),
    "mapbox token": _alone("sk.eyJ" + some(60) + "." + some(22)),
    "grafana token": _alone("glsa_" + some(32) + "_" + some(8, HEX)),
    "pulumi token": _alone("pul-" + some(40, HEX)),
    "doppler token": _alone("dp.pt." + some(43)),
    "curl -u": _token("curl -fsS -u me:", PASSWORD, " https://api.example.org/"),
    "--password": _token("tool login --user me --password ", PASSWORD, " --force"),
    "mysql -p": _token("mysql -h db -u root -p", PASSWORD, " app"),
    "sshpass": _token("sshpass -p ", PASSWORD, " ssh me@host"),
    "environment": _token("export DB_PASSWORD=", PASSWORD),
    "yaml password": _token("  password: ", PASSWORD),
}  # fmt: skip
