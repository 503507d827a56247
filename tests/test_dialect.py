"""A dialect's names stand in its own folder: nobody else spells a type, a key, a tag or a file name of Codex's logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rollout.dialects.codex import contextual, names
from tests.test_layers import MODULES, nodes, within

NAMES = names.RECORD_TYPES | names.EVENT_TYPES | names.KEYS
TAGS = (
    *(opening for opening, _ in contextual.USER_FRAGMENTS),
    *contextual.DEVELOPER_OPENINGS,
    *contextual.USER_OPENINGS,
    "<proposed_plan>",
    names.ARCHIVE_FOLDER,
    names.THREAD_NAMES_FILE,
)
OWN = frozenset({"turn_id", "world_state", "base_instructions", "originator", "cli_version", "model_provider"})
"""Of these, what results of our own call so, too: those who only show results may name it."""
SHOWING = ("rollout_cli", "rollout.agent_tools")
STILL = {
    # rollout.adapters
    "rollout.adapters.agents.opaque",
    "rollout.adapters.agents.turns",
    "rollout.adapters.agents.usage",
    # rollout.files
    "rollout.files.log_end",
    "rollout.files.positions",
    # rollout.session
    "rollout.session.difference",
    "rollout.session.following",
    "rollout.session.log",
    "rollout.session.state",
    "rollout.session.summary",
    "rollout.session.turn_context",
    "rollout.session.verification",
    # rollout_cli
    "rollout_cli.export.chronicle",
    "rollout_cli.export.headings",
    "rollout_cli.export.presenting",
    "rollout_cli.export.values",
    "rollout_cli.views.lines",
    "rollout_cli.views.state",
    "rollout_cli.replay.words",
}
"""The modules that still do: take yours out once it does not. Nobody comes in."""


def constants(module: str) -> Iterator[str]:
    """The strings and bytes in a module's code; a text that stands alone is a docstring."""
    docstrings = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    for node in nodes(module):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode(errors="replace")


def spelled(module: str) -> set[str]:
    """The names that a module spells: alone, or in quotes within a piece of JSON; tags, wherever they stand."""
    texts = list(constants(module))
    known = NAMES - OWN if module.startswith(SHOWING) else NAMES
    own = {name for name in known if any(text == name or f'"{name}"' in text for text in texts)}
    return own | {tag for tag in TAGS if any(tag in text.lower() for text in texts)}


def test_only_the_dialect_spells_the_names_of_its_logs() -> None:
    found = {module: spelled(module) for module in MODULES if not within(module, "rollout.dialects")}
    told = {module: sorted(spelt) for module, spelt in found.items() if spelt and module not in STILL}
    assert not told
    assert sorted(STILL) == sorted(module for module, spelt in found.items() if spelt)


def test_the_tables_of_names_are_those_that_the_dialect_reads_by() -> None:
    spelt = set[str]().union(*(spelled(module) for module in MODULES if within(module, "rollout.dialects")))
    assert spelt >= names.RECORD_TYPES | names.EVENT_TYPES | names.KEYS
