"""What the index remembers of a rollout file, and a list is made of: its entry. A warm list reads nothing else."""

from __future__ import annotations

import msgspec

from rollout.fold.tokens import Ledger, TokenSpend

UNREADABLE = "cannot be read: "
"""How the trouble of a file begins that cannot be."""
TOO_LARGE = "too large to read for a list: `rollout show` reads it whole"
"""The trouble of a file beyond `limits.LISTED`: no more is told of it than what its head says."""
EMPTY, FOREIGN = "empty", "no record of a rollout"


class Summary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a log says up to its end, or up to a turn. What it does not say is None; counts are of the whole lineage."""

    turns: int = 0
    """Turns that stand."""
    messages: int = 0
    """User and assistant messages in the history then; not those that the program wrote."""
    first_message: str | None = None
    """How the first user's text of the log begins, standing or not, up to 1,000 characters."""
    is_asked: bool = False
    """`first_message` is that of an item, not of an announcement."""
    model: str | None = None
    """S4: previous_model."""
    tokens: int | None = None
    """total_tokens of the newest totals (S4)."""
    context_tokens: int | None = None
    """What the conversation took of the model's window when that was last measured; None if it was compacted since."""
    session_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    """The labels that occur, sorted."""
    damaged: int = 0
    """Lines of the file that hold damaged bytes, and files that are missing or damaged (as `verify` counts them)."""
    ledger: Ledger = Ledger()
    """What the file's own records say was spent; of the log that it continues, how far that had come."""
    bases: tuple[tuple[str, int, int], ...] = ()
    """Path, device and inode of the file that it goes on from, if it does."""
    base_thread: str | None = None
    """The thread of that file, if it is there."""
    wants: str | None = None
    """The id of the file of a base that is missing."""


class Entry(Summary, frozen=True, kw_only=True):
    """What a rollout file says, and what the disk says of it."""

    thread: str
    created: str | None = None
    """The timestamp of the session_meta, as it stands there."""
    cwd: str | None = None
    git_branch: str | None = None
    model_provider: str | None = None
    originator: str | None = None
    cli_version: str | None = None
    source: str | None = None
    """cli, exec, vscode, mcp, subagent, … also where the file says more than a word."""
    parent: str | None = None
    """The thread that a subagent was started from."""
    forked_from: str | None = None
    base: str | None = None
    """The id of the file that this one continues by reference, or what stands there instead of one."""
    text_bytes: int = 0
    """Those of the text of a sealed file; of a plain one, all that it has."""
    trouble: str | None = None
    """None, or why there is little to say: empty, no record of a rollout, too large …, cannot be read: …"""

    size: int = 0
    """What the disk said of the file ahead of the scan: size, time of change (Unix ns), device and inode."""
    mtime_ns: int = 0
    identity: tuple[int, int] = (0, 0)
    scanned_ns: int = 0
    """When it was scanned (Unix ns)."""
    id: int = 0
    """A number that stands for the file while it grows; once its contents are others, it has another."""
    bases_print: bytes = b""
    """What the index saw of all files beneath it (see `Index`)."""

    @property
    def spent(self) -> tuple[TokenSpend, ...]:
        """What the file's own records say was spent, by day and model; not what it holds of the log it continues."""
        return self.ledger.spent

    @property
    def is_subagent(self) -> bool:
        """Another agent's thread started it."""
        return self.parent is not None or self.source == "subagent"

    def fork_of(self, thread: str) -> str | None:
        """The other thread from a point of which this one goes on, if it does."""
        of = (self.forked_from, self.base_thread or self.base)
        return next((other for other in of if other not in (None, thread)), None)
