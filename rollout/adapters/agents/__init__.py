"""Sessions of the OpenAI Agents SDK as rollouts (extra `rollout[agents]`)."""

from __future__ import annotations

from rollout.adapters.agents.gate import SessionClosed
from rollout.adapters.agents.session import RolloutSession

__all__ = ["RolloutSession", "SessionClosed"]
