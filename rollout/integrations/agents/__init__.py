"""Sessions of the OpenAI Agents SDK as rollouts (extra `rollout[agents]`)."""

from __future__ import annotations

from rollout.integrations.agents.gate import SessionClosed
from rollout.integrations.agents.session import RolloutSession

__all__ = ["RolloutSession", "SessionClosed"]
