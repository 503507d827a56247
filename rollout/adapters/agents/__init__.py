"""Sessions of the OpenAI Agents SDK as rollouts (extra `rollout[agents]`)."""

from __future__ import annotations

from rollout.adapters.agents.conversation import BranchError
from rollout.adapters.agents.session import RolloutSession, SessionClosed

__all__ = ["BranchError", "RolloutSession", "SessionClosed"]
