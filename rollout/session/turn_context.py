"""The settings that a turn runs with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class TurnContext(dict[str, Any]):
    """The settings that a turn runs with: the payload of its turn_context, a mapping.

    Only `model` is needed; any other key of the payload, known or not, is kept. (Codex reads it back only with cwd,
    approval_policy, sandbox_policy and summary.)
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        model: str,
        cwd: str | os.PathLike[str] | None = None,
        approval_policy: str | Mapping[str, Any] | None = None,
        sandbox_policy: Mapping[str, Any] | None = None,
        effort: str | None = None,
        summary: str | None = None,
        personality: str | None = None,
        collaboration_mode: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        given = {
            "cwd": None if cwd is None else os.fspath(cwd),
            "approval_policy": approval_policy,
            "sandbox_policy": sandbox_policy,
            "model": model,
            "personality": personality,
            "collaboration_mode": collaboration_mode,
            "effort": effort,
            "summary": summary,
        }
        super().__init__({key: value for key, value in given.items() if value is not None}, **more)

    def __repr__(self) -> str:
        return f"TurnContext({', '.join(f'{key}={value!r}' for key, value in self.items())})"
