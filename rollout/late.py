"""Modules that are imported when they are first used: `late.doctor.diagnose(…)`.

Who opens a home pays for what is done in it, not for all that could be done. Modules that every look at a home needs
are imported as ever, at the top of a file.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rollout import encoding as encoding
    from rollout import keeping as keeping
    from rollout import labelling as labelling
    from rollout import log as log
    from rollout import places as places
    from rollout.catalog import abbreviation as abbreviation
    from rollout.catalog import doctor as doctor
    from rollout.catalog import fates as fates
    from rollout.catalog import listing as listing
    from rollout.catalog import look as look
    from rollout.catalog import query as query
    from rollout.catalog import row as row
    from rollout.catalog import search as search
    from rollout.catalog import sessions as sessions
    from rollout.catalog import stats as stats
    from rollout.catalog import status as status
    from rollout.catalog import texts as texts
    from rollout.catalog import tree as tree
    from rollout.catalog import upkeep as upkeep
    from rollout.core import memory as memory
    from rollout.storage import origin as origin
    from rollout.storage import sealing as sealing
    from rollout.storage import writer as writer
    from rollout.upkeeping import rekeying as rekeying
    from rollout.upkeeping import room as room

_MODULES = {  # those above, as they are imported for a type checker
    "rollout": "encoding keeping labelling log places",
    "rollout.catalog": (
        "abbreviation doctor fates listing look query row search sessions stats status texts tree upkeep"
    ),
    "rollout.core": "memory",
    "rollout.storage": "origin sealing writer",
    "rollout.upkeeping": "rekeying room",
}
_PACKAGES = {name: package for package, names in _MODULES.items() for name in names.split()}


def _load(name: str) -> ModuleType:
    """One of the modules, which is a plain attribute from then on. AttributeError."""
    if name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = importlib.import_module(f"{_PACKAGES[name]}.{name}")
    return found


if not TYPE_CHECKING:  # for which every name would be there
    __getattr__ = _load
