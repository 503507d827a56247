"""What users get to test their own agents and stores: a disk that crashes and fails on request, and what to ask of it.

`rollout.testing.strategies` and `rollout.testing.machine` need Hypothesis (`pip install 'rollout[testing]'`), what is
named here does not. docs/testing.md shows each.
"""

from rollout.testing.crashes import (
    Check,
    CrashFailure,
    Explored,
    Tree,
    Workload,
    crash_state,
    crash_states,
    explore,
    mutants,
)
from rollout.testing.disk import Effect, Fault, Op, OpKind, SimulatedDisk
from rollout.testing.sessions import Compact, Conversation, Item, RollBack, Step, TakeTurn, new_store, record, said

__all__ = [
    "Check",
    "Compact",
    "Conversation",
    "CrashFailure",
    "Effect",
    "Explored",
    "Fault",
    "Item",
    "Op",
    "OpKind",
    "RollBack",
    "SimulatedDisk",
    "Step",
    "TakeTurn",
    "Tree",
    "Workload",
    "crash_state",
    "crash_states",
    "explore",
    "mutants",
    "new_store",
    "record",
    "said",
]
