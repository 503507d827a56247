"""What the tests of branches share: made over any file system, talks and runs to fill them with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.usage import Usage

from rollout.adapters.agents.branches import Branches
from rollout.files.disk import FileSystem
from rollout.files.memory import MemoryFileSystem
from rollout.session.environment import Ports
from tests.integrations.agent_sessions import say

HOME = Path("/home")


def opened(fs: FileSystem) -> Branches:
    return Branches(Ports(HOME, fs, clock=lambda: 1_790_000_000.0), "s", 5.0)


def in_memory() -> FileSystem:
    fs = MemoryFileSystem()
    fs.mkdir(HOME)
    return fs


def talk(*turns: str) -> list[Any]:
    """A question and an answer for each."""
    return [item for text in turns for item in (say(text), say(f"{text}!", "assistant"))]


def ran(total_tokens: int, requests: int = 1) -> Any:
    usage = Usage(requests=requests, input_tokens=total_tokens - 1, output_tokens=1, total_tokens=total_tokens)
    return SimpleNamespace(context_wrapper=SimpleNamespace(usage=usage))


def texts_of(items: list[Any]) -> list[str]:
    """Of messages in the SDK's short form, and of those that a compaction put there."""
    return [said if isinstance(said := item["content"], str) else said[0]["text"] for item in items]
