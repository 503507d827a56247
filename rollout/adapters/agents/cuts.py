"""Where a branch leaves the one that it is made of, and what it may be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rollout.adapters.agents.turns import Conversation
from rollout.adapters.agents.views import find_turns
from rollout.errors import UsageError


class BranchError(UsageError, ValueError):
    """No branch can be made, found or deleted like this. A ValueError too, as the SDK raises."""


class Cut(NamedTuple):
    """Where a branch leaves its source: `kept` items are its own too. `name` begins the name, if it is given none."""

    kept: int | None
    """None: all."""
    name: str
    turn: int | None = None
    after: bool = False


def before_turn(turn: int) -> Callable[[Conversation], Cut]:
    """Ahead of the user message that opens a turn."""
    return lambda conversation: Cut(
        _found(conversation.start_of(turn), turn), f"branch_from_turn_{turn}", turn, after=False
    )


def behind_turn(turn: int) -> Callable[[Conversation], Cut]:
    """Behind all that belongs to a turn."""
    return lambda conversation: Cut(
        _found(conversation.end_of(turn), turn), f"branch_after_turn_{turn}", turn, after=True
    )


def before_turn_with(term: str) -> Callable[[Conversation], Cut]:
    """Ahead of the first turn whose user message has a text in it."""

    def choose(conversation: Conversation) -> Cut:
        found = find_turns(conversation, term)
        if not found:
            raise BranchError(f"no user message has {term!r} in it", remedy="see get_conversation_turns()")
        return before_turn(found[0]["turn"])(conversation)

    return choose


AT_END = Cut(None, "branch_from_end", after=True)
"""Behind everything: nothing needs to be read for that."""


def _found(kept: int | None, turn: object) -> int:
    if kept is None:
        raise BranchError(f"there is no turn {turn}", remedy="see get_conversation_turns()")
    return kept


def check_name(name: object) -> None:
    """BranchError for what is no name of a branch."""
    if not isinstance(name, str) or not name.strip():
        raise BranchError("a branch needs a name", remedy="give one that is not blank")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BranchError(f"{name!r} is no text", remedy="give a name without lone surrogates") from None


def no_branch(name: str) -> BranchError:
    """What is wrong with a name that no branch has."""
    return BranchError(f"there is no branch {name!r}", remedy="see list_branches()")
