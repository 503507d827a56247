"""The types of what a home gives, each imported when it is asked for: hints name them, and nobody waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollout.files.sealed.seal import SealResult as SealResult
    from rollout.home.doctor import Diagnosis as Diagnosis
    from rollout.home.index.index import IndexStatus as IndexStatus
    from rollout.home.listing import SessionPage as SessionPage
    from rollout.home.maintenance.disk_usage import DiskUsage as DiskUsage
    from rollout.home.search import Hits as Hits
    from rollout.home.stats import Stats as Stats
    from rollout.home.tree import SessionTree as SessionTree
    from rollout.session.log import SessionLog as SessionLog
else:

    def __getattr__(name: str) -> Any:
        """The type of that name. AttributeError."""
        match name:
            case "SealResult":
                from rollout.files.sealed import seal as module
            case "Diagnosis":
                from rollout.home import doctor as module
            case "IndexStatus":
                from rollout.home.index import index as module
            case "SessionPage":
                from rollout.home import listing as module
            case "DiskUsage":
                from rollout.home.maintenance import disk_usage as module
            case "Hits":
                from rollout.home import search as module
            case "Stats":
                from rollout.home import stats as module
            case "SessionTree":
                from rollout.home import tree as module
            case "SessionLog":
                from rollout.session import log as module
            case _:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(module, name)
