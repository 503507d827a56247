"""What of a record is searched, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout import Store
from rollout.items.texts import KINDS
from tests import builders as b
from tests.homes import put
from tests.searching import hits, marked


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home)


CAT = {"type": "exec", "command": ["cat", "alpha"]}
KINDS_FOUND = [
    ("user", b.user("alpha"), "alpha"),
    ("user", b.inter_agent("alpha"), "alpha"),
    ("user", b.agent_message("alpha"), "alpha"),
    ("user", b.bare_item(b.user_item("alpha")), "alpha"),
    ("assistant", b.assistant("an", "alpha"), "an alpha"),
    (
        "tool_call",
        b.item("function_call", call_id="c", name="shell", arguments='{"command":["rg","alpha"],"n":3}'),
        "shell rg alpha 3",
    ),
    ("tool_call", b.item("function_call", call_id="c", name="shell", arguments="{broken alpha"), "shell {broken alpha"),
    ("tool_call", b.item("function_call", call_id="c", name="alpha", arguments=""), "alpha"),
    ("tool_call", b.item("custom_tool_call", call_id="c", name="apply_patch", input="+alpha\n"), "apply_patch +alpha "),
    (
        "tool_call",
        b.item("local_shell_call", status="completed", action={"type": "exec", "command": ["cat", "alpha"]}),
        "cat alpha",
    ),
    ("tool_call", b.item("web_search_call", action={"type": "search", "query": "alpha"}), "alpha"),
    ("tool_output", b.item("function_call_output", output="line\nalpha"), "line alpha"),
    ("tool_output", b.item("function_call_output", output='{"output":"x\\nalpha","metadata":{"e":0}}'), "x alpha"),
    ("tool_output", b.item("function_call_output", output='{"k":"x\\nalpha"}'), '{"k":"x alpha"}'),
    ("tool_output", b.item("function_call_output", output=[{"type": "input_text", "text": "alpha"}]), "alpha"),
    ("tool_output", b.item("tool_search_output", status="s", execution="e", tools=[{"name": "alpha"}]), "alpha"),
    ("tool_output", b.item("custom_tool_call_output", call_id="c", output="alpha"), "alpha"),
    ("tool_output", b.item("custom_tool_call_output", call_id="c", output='{"broken alpha'), '{"broken alpha'),
]


@pytest.mark.parametrize(("kind", "line", "snippet"), KINDS_FOUND)
def test_what_was_said_asked_for_and_answered_is_found(
    home: Path, store: Store, kind: str, line: bytes, snippet: str
) -> None:
    put(home, 1, b.user("first"), line)
    (hit,) = hits(store, "alpha")
    assert (hit.kind, hit.snippet, hit.status) == (kind, snippet, "visible")
    assert marked(hit).count("[alpha]") == 1
    for other in KINDS:
        assert bool(hits(store, "alpha", kinds=[other])) == (other == kind)


@pytest.mark.parametrize(
    "line",
    [
        b.contextual(text="alpha"),
        b.developer("alpha"),
        b.line("response_item", b.text_item("system", "alpha")),
        b.item(
            "reasoning", summary=[{"type": "summary_text", "text": "alpha"}], content=[{"type": "t", "text": "alpha"}]
        ),
        b.event("agent_message", message="alpha"),
        b.user_message("alpha"),
        b.compacted([b.user_item("alpha")], message="alpha"),
        b.legacy_compacted("alpha"),
        b.item("function_call_output", output=[{"type": "input_image", "image_url": "data:image/png;base64,alpha"}]),
        b.item("function_call_output", output="data:image/png;base64," + "alpha+" * 100),
        b.item("message", content=[{"type": "input_text", "text": "alpha"}]),
        b.item("function_call_output", output=7),
        b.item("function_call_output", output=None),
        b.item("local_shell_call", action="7"),
        b.item("custom_tool_call", name=None, input={"type": "alpha"}),
        b.line("inter_agent_communication", {"content": ["alpha"]}),
    ],
)
def test_what_nobody_said_is_not_found(home: Path, store: Store, line: bytes) -> None:
    put(home, 1, line, b.user("omega"))
    assert not hits(store, "alpha")
    assert len(hits(store, "omega")) == 1
