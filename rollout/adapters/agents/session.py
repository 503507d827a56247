"""`RolloutSession`: the session of an OpenAI Agents SDK run, kept as a rollout.

It follows the SDK's `Session` protocol and opts in to the run's context (`wrapper`, which it does not need). Files are
touched in threads, never on the event loop; a call that changes something is waited for even if its task is cancelled,
so that its outcome is known when the cancellation goes on.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

from rollout.adapters.agents.branches import Branches
from rollout.adapters.agents.conversation import Conversation, add_up
from rollout.adapters.agents.opaque import items_of
from rollout.errors import Closed, RolloutError
from rollout.files.disk import RealFileSystem
from rollout.files.encrypted.keys import Cipher, keys_given
from rollout.files.memory import MemoryFileSystem
from rollout.session.asyncio_bridge import change_in_thread, read_in_thread
from rollout.session.environment import Ports

try:
    from agents.memory.session import _CompactionSnapshot
except ImportError:  # an older SDK, which does not ask for one
    _CompactionSnapshot = None  # type: ignore[assignment, misc]  # older SDKs have none

T = TypeVar("T")
_logger = logging.getLogger(__name__)
_PREVIEW_CHARACTERS = 100
_TRANSFORMING = ("get_items", "add_items", "pop_item", "clear_session")
LOCK_TIMEOUT_S = 30.0
"""How long a call waits for another writer, unless the session says otherwise."""


class SessionClosed(Closed, RuntimeError):
    """The session is closed. A RuntimeError too, as a closed session of the SDK raises."""


class _Gate:
    """The branches of a session as long as it is open: the last call that is inside lets go of their files.

    Closing never waits, so that it can be done on an event loop. An interrupted call goes out by one call into C.
    """

    def __init__(self, name: str, branches: Branches) -> None:
        self._name, self._branches = name, branches
        self._guard = threading.Lock()  # of those who come in, and of closing
        self._inside: set[object] = set()
        self.is_closed = False

    def carry_out(self, work: Callable[[Branches], T]) -> T:
        """What `work` returns. SessionClosed."""
        ticket = object()
        try:
            with self._guard:
                if self.is_closed:
                    raise SessionClosed(f"{self._name} is closed", remedy="make a new one")
                self._inside.add(ticket)
            return work(self._branches)
        finally:
            try:
                self._inside.discard(ticket)
            finally:
                if self.is_closed and not self._inside:
                    self._branches.close()

    def close(self) -> None:
        """Refuses all later calls; again, it makes sure that everything was let go of."""
        with self._guard:
            self.is_closed = True
            is_over = not self._inside
        if is_over:
            self._branches.close()


class RolloutSession:
    """A session by its id: any text. Without a `path` it is kept in memory; else `path` is a home, made if need be.

    Safe to use from several tasks, event loops, threads and processes at once, by one object or by many. Items come
    back equal and in order, as new objects; only a lone surrogate (half a character, as `os.fsdecode` makes of a byte
    that is no text) is kept, and comes back, as U+FFFD, in keys too. What is no JSON is refused (RecordError) before
    anything is written. Locked if another program holds the file for longer than `lock_timeout_s`, WriteError if the
    disk refuses: a call that raises one of these before it has written leaves everything as it was.

    What is begun with a `cipher` is encrypted, as it is with $ROLLOUT_KEYS_FILE; without its key it is neither read nor
    written (NoKey, WrongKey).
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        path: str | os.PathLike[str] | None = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        cipher: Cipher | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        home = Path(os.sep, "memory") if path is None else Path(path).expanduser().absolute()
        fs = RealFileSystem() if path is not None else MemoryFileSystem()
        if path is None:
            fs.mkdir(home)
        self._ports = Ports(home, fs, keys=keys_given(cipher))
        self._lock_timeout_s = lock_timeout_s
        self._open()

    async def get_items(
        self, limit: int | None = None, branch_id: str | None = None, *, wrapper: object = None
    ) -> list[Any]:
        """The newest `limit` items (None: as the settings say, else all), oldest first; 0: none, below 0: all.

        Of the current branch, or of another one. There are none in a branch that is not there.
        """
        wanted = resolve_session_limit(limit, self.session_settings)
        most = None if wanted is None or wanted < 0 else wanted
        return await self._read(lambda branches: branches.items(most, branch_id))

    async def add_items(self, items: list[Any], *, wrapper: object = None) -> None:
        """Appends items as one durable batch: after a crash all of them are there or none is."""
        taken = list(items)
        await self._change(lambda branches: branches.add(taken))

    async def pop_item(self, *, wrapper: object = None) -> Any:
        """Takes the newest item out and returns it; None if there is none."""
        return await self._change(lambda branches: branches.pop())

    async def clear_session(self, *, wrapper: object = None) -> None:
        """Takes all items out, and deletes all branches but `main`, which is current then.

        What was there stays in the files, for `rollout explain`.
        """
        await self._change(lambda branches: branches.clear())

    @property
    def current_branch_id(self) -> str:
        """The branch that the methods mean that are told no other. May look at a file."""
        return self._call(lambda branches: branches.current)

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None, *, after: bool = False
    ) -> str:
        """A branch that begins ahead of a turn of the current one, or with `after` behind it; it is current then.

        Its name, made up if none is given. BranchError (a ValueError) if there is no such turn, or the name is blank
        or was ever used in this session.
        """
        return await self._change(lambda branches: branches.create(branch_name, lambda _: turn_number, after=after))

    async def create_branch_from_content(self, search_term: str, branch_name: str | None = None) -> str:
        """The same ahead of the first turn whose user message has a text in it."""
        return await self._change(
            lambda branches: branches.create(branch_name, lambda conversation: conversation.first_with(search_term))
        )

    async def create_branch(self, branch_name: str | None = None) -> str:
        """The same behind everything."""
        return await self._change(lambda branches: branches.create(branch_name))

    async def switch_to_branch(self, branch_id: str) -> None:
        """Makes another branch the current one, also for those who open the session from now on. BranchError."""
        await self._change(lambda branches: branches.switch(branch_id))

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Deletes a branch, never `main`; with `force` also the current one, and `main` is current then. BranchError.

        Its rollout stays, as others may go on from it; the command line deletes that.
        """
        await self._change(lambda branches: branches.delete(branch_id, force=force))

    async def list_branches(self) -> list[dict[str, Any]]:
        """One row a branch: branch_id, message_count, user_turns, is_current, created_at, parent, thread_id, path.

        None if nothing was ever said, or all of it is cleared.
        """
        return await self._read(_show_branches)

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """One row a turn: turn, content (its first 100 characters), full_content, timestamp, can_branch."""
        return (await self._conversation(branch_id)).rows(most=_PREVIEW_CHARACTERS)

    async def find_turns_by_content(self, search_term: str, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Such rows, whole, of the turns whose user message has a text in it, whatever the case of ASCII letters."""
        return (await self._conversation(branch_id)).find(search_term)

    async def get_conversation_by_turns(self, branch_id: str | None = None) -> dict[int, list[dict[str, str | None]]]:
        """For each turn type and tool_name of its items; what comes ahead of the first turn is turn 0."""
        return (await self._conversation(branch_id)).types_by_turn()

    async def items_at_turn(self, turn_number: int, branch_id: str | None = None) -> list[Any]:
        """The items as they stood when a turn ended (0: before the first one). BranchError if there is no such turn."""
        conversation = await self._conversation(branch_id)
        return conversation.items[: conversation.count_up_to(turn_number, after=True)]

    async def store_run_usage(self, result: Any) -> None:
        """Records what a run (a RunResult) has used for the newest turn; the last record of a turn counts.

        Where there is no turn nothing is recorded. What goes wrong is logged, not raised: the run itself went well.
        """
        try:
            counted = result.context_wrapper.usage
            if counted is not None:
                await self._change(lambda branches: branches.record_usage(counted))
        except (RolloutError, OSError, AttributeError) as error:
            _logger.error("the usage of a run was not recorded: %s", type(error).__name__)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """What the turns of a branch have used, or those of all branches (what they share counts once); None: nothing.

        Keys: requests, input_tokens, output_tokens, total_tokens, total_turns.
        """
        if branch_id is not None:
            return add_up((await self._conversation(branch_id)).used.values())
        found = await self._read(Branches.list_all)
        return add_up(used for _, conversation in found for used in conversation.used.values())

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """What one turn has used ({}: nothing is recorded), or one row a turn, with its user_turn_number.

        Keys: requests, input_tokens, output_tokens, total_tokens, input_tokens_details, output_tokens_details.
        """
        used = (await self._conversation(branch_id)).used
        if user_turn_number is not None:
            return used[user_turn_number][0].show() if user_turn_number in used else {}
        return [{"user_turn_number": turn, **usage.show()} for turn, (usage, _) in used.items()]

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """(tool name, calls, turn number), by turn."""
        return (await self._conversation(branch_id)).tools()

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """What the SDK's compaction asks for: all items replaced at once.

        False where that would pass by methods that a subclass, or somebody on this object, has put in their place.
        """
        if self._is_transformed():
            return False
        taken = list(items)
        await self._change(lambda branches: branches.replace_all(taken))
        return True

    async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None) -> Any:
        """What the SDK's compaction asks for: the newest items, and a way to replace the last of them at once.

        The oldest items that `prune_prefix` is true of go with that, if they are as many as those that stay in between.
        """
        if _CompactionSnapshot is None or self._is_transformed():
            return None
        found = await self._read(lambda branches: branches.snapshot(limit))
        if found is None:
            return None

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            taken = list(output)
            return await self._change(lambda branches: branches.replace(found, start, taken, prune_prefix))

        return _CompactionSnapshot(items_of(found.entries), found.is_whole, replace_suffix)

    async def _conversation(self, branch_id: str | None) -> Conversation:
        return await self._read(lambda branches: branches.read(branch_id))

    def _is_transformed(self) -> bool:
        """Whether what goes in or comes out is another's business too."""
        own = {name: getattr(getattr(self, name), "__func__", None) for name in _TRANSFORMING}
        return any(method is not getattr(RolloutSession, name) for name, method in own.items())

    def close(self) -> None:
        """Every later call raises `SessionClosed`. Those under way go on; the last one lets go of all files."""
        self._gate.close()

    def _open(self) -> None:
        self._gate = _Gate(type(self).__name__, Branches(self._ports, self.session_id, self._lock_timeout_s))
        self._pid = os.getpid()  # last: other threads of a forked process go by it

    def _call(self, work: Callable[[Branches], T]) -> T:
        """Carries `work` out, in the thread that it is called in."""
        if self._pid != os.getpid() and not self._gate.is_closed:
            self._open()  # in a forked process: what threads held when it was made is never given back
        return self._gate.carry_out(work)

    async def _read(self, work: Callable[[Branches], T]) -> T:
        return await read_in_thread(lambda: self._call(work))

    async def _change(self, work: Callable[[Branches], T]) -> T:
        """Does it and waits for the outcome, also when this task is cancelled, which goes on then."""
        return await change_in_thread(lambda: self._call(work))


def _show_branches(branches: Branches) -> list[dict[str, Any]]:
    current = branches.current
    return [
        {
            "branch_id": branch.branch,
            "message_count": len(conversation.placed),
            "user_turns": len(conversation.starts),
            "is_current": branch.branch == current,
            "created_at": branch.created,
            "parent": branch.parent,
            "thread_id": branch.thread,
            "path": str(branches.path_of(branch)),
        }
        for branch, conversation in branches.list_all()
    ]
