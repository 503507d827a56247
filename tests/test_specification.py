"""The specification keeps its word: its examples give what they show, and each rule that the code names is in it.

An example is a ```rollout block of docs/semantics.md: statements, separated by line ends or `|`, then lines
`=> what: value`. Both the engine and the slow reference must give each value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rollout
from tests import builders as b
from tests import reference

ROOT = Path(__file__).parent.parent
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
BUILD: dict[str, Callable[..., bytes]] = {
    "started": b.started,
    "completed": b.completed,
    "aborted": b.aborted,
    "context": b.context,
    "user": b.user,
    "assistant": b.assistant,
    "agent": b.agent_message,
    "program": lambda text: b.contextual(text=text),
    "compact": lambda text: b.compacted([b.user_item(text)]),
    "compact-old": b.legacy_compacted,
    "rollback": lambda n: b.rolled_back(int(n)),
    "removed": lambda n: b.items_removed(int(n)),
}
_PROGRAM = re.compile(r"<environment_context>(.*)</environment_context>")


def examples() -> list[str]:
    return re.findall(r"^```rollout\n(.*?)^```$", SEMANTICS, re.MULTILINE | re.DOTALL)


def log_of(example: str) -> bytes:
    statements = [
        statement.split() for line in example.splitlines() if not line.startswith("=>") for statement in line.split("|")
    ]
    return b.log(b.session_meta(), *(BUILD[name](*arguments) for name, *arguments in statements))


def shown(example: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"^=> (\w+): (.*)$", example, re.MULTILINE):
        yield found[1], found[2]


def words_of(history: Any) -> str:
    texts = ["".join(part["text"] for part in item["content"]) for item in history]
    return " ".join(_PROGRAM.sub(r"\1", text) for text in texts)


def told(answer: Any, turns: Any) -> dict[str, str]:
    context = answer.reference_context
    return {
        "history": words_of(answer.history),
        "turns": ", ".join(f"{turn.id} {turn.status}" for turn in turns),
        "previous_model": str(answer.previous_model),
        "reference": "cleared" if context is None else str(context["model"]),
    }


def by_engine(data: bytes) -> dict[str, str]:
    state = rollout.reconstruct(data)
    return told(state, state.turns)


def by_reference(data: bytes) -> dict[str, str]:
    answer = reference.fold(data)
    return told(answer, answer.standing_turns)


@pytest.mark.parametrize("example", examples())
@pytest.mark.parametrize("answer", [by_engine, by_reference])
def test_an_example_of_the_rules_gives_what_it_shows(example: str, answer: Callable[[bytes], dict[str, str]]) -> None:
    expected = dict(shown(example))
    assert expected
    given = answer(log_of(example))
    assert {what: given[what] for what in expected} == expected


def test_every_rule_that_the_code_names_can_be_looked_up() -> None:
    headings = set(re.findall(r"^## (S\d+) ", SEMANTICS, re.MULTILINE))
    sources = [path for folder in ("rollout", "cli", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = {rule for path in sources for rule in re.findall(r"\bS\d+\b(?!\w)", path.read_text(encoding="utf-8"))}
    assert {"S1", "S5"} <= named
    assert named - {"S3"} <= headings  # S3 is also the name of a kind of object storage
    assert "S3" in headings


def links() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [
        (str(page.relative_to(ROOT)), target)
        for page in pages
        for target in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "target"), links())
def test_a_link_of_the_documentation_leads_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    assert file.exists()
    if anchor:
        headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
