"""A state machine for Hypothesis: sessions are written, rolled back, compacted, forked, killed, crashed in any order.

After each step, what is read back of the log that was touched is what its live model says; after a crash, of every log.
To test an agent of your own, derive from `SessionMachine`: change `items` and `contexts`, add rules that write with
`self.pick(…)`, look at a log in `verify`. A module that imports this one needs Hypothesis:

    TestMySessions = MyMachine.TestCase
    TestMySessions.settings = settings(max_examples=100, stateful_step_count=40)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rollout.errors import Conflict, Locked, RecordError, RolloutError, UsageError
from rollout.files.port import Durability
from rollout.testing.crashes import crash_state
from rollout.testing.disk import SimulatedDisk
from tests.witness import START, Trial, Witness, assistant, message

MOST_LOGS = 6
CRASH_WITHIN_OPS = 16
"""A crash comes so many operations of the disk before now at the most."""
Data = st.DataObject
Fits = Callable[[Witness], bool]

texts = st.one_of(st.sampled_from(["fix it", "", 'é\n\u2028{"timestamp":"', "x" * 300]), st.text(max_size=6))
durabilities = st.sampled_from([Durability.TURN, Durability.TURN, Durability.RECORD, Durability.NONE])
contextual_items = st.sampled_from(
    [
        message("user", "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>"),
        message("user", "# AGENTS.md instructions\n<INSTRUCTIONS>be brief</INSTRUCTIONS>"),
        message("developer", "<permissions instructions>ask</permissions instructions>"),
    ]
)


def agent_message(text: str) -> dict[str, Any]:
    """An instruction from another agent."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": content}


def items_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Items that models see, of many types."""
    return st.one_of(
        texts.map(assistant),
        st.builds(assistant, texts, st.just("first this\nthen that")),
        st.builds(lambda text: {"type": "function_call", "name": "f", "arguments": text, "call_id": "c"}, texts),
        st.builds(lambda text: {"type": "function_call_output", "call_id": "c", "output": text}, texts),
        st.builds(lambda n: {"type": "brand_new", "n": n, "deep": [{"x": None}]}, st.integers()),
        texts.map(agent_message),
        contextual_items,
    )


def is_any(witness: Witness) -> bool:
    """Every log."""
    return True


def is_open(witness: Witness) -> bool:
    """Logs that are open for append."""
    return witness.is_open


def is_closed(witness: Witness) -> bool:
    """Logs that are not."""
    return not witness.is_open


def is_in_turn(witness: Witness) -> bool:
    """Logs with a turn that is running."""
    return witness.turn is not None


def is_idle(witness: Witness) -> bool:
    """Open logs without one."""
    return witness.is_open and witness.turn is None


def step(fits: Fits) -> Callable[[Callable[[Any, Data], None]], Any]:
    """A rule that is tried while a log fits."""

    def decorate(function: Callable[[Any, Data], None]) -> Any:
        return precondition(lambda self: self.has(fits))(rule(data=st.data())(function))

    return decorate


def fork_step(fits: Fits) -> Callable[[Callable[[Any, Data], None]], Any]:
    """The same for one that makes another log."""

    def decorate(function: Callable[[Any, Data], None]) -> Any:
        return precondition(lambda self: len(self.trial.witnesses) < MOST_LOGS)(step(fits)(function))

    return decorate


class SessionMachine(RuleBasedStateMachine):
    """Some logs in one home on a disk that crashes. `contexts`, `items` and `replacements` are what is drawn from."""

    contexts: st.SearchStrategy[dict[str, Any]] = st.builds(
        lambda model, cwd: {"model": model, "cwd": cwd}, st.sampled_from(["m1", "m2"]), st.sampled_from(["/p", "/q"])
    )
    items: st.SearchStrategy[dict[str, Any]] = items_of(texts)
    replacements: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
        st.one_of(items, texts.map(lambda text: message("user", text))), max_size=3
    )

    def __init__(self) -> None:
        super().__init__()
        self.acks: list[tuple[int, int, int]] = []
        self.trial = Trial(SimulatedDisk(START), self._ack)
        self.touched: list[Witness] = []

    def _ack(self, what: tuple[int, int]) -> None:
        self.acks.append((len(self.trial.disk.ops), *what))

    def verify(self, witness: Witness) -> None:
        """For more checks of a log; called after each step that touched it."""

    def pick(self, data: Data, fits: Callable[[Witness], bool]) -> Witness:
        """One of the logs that fit; it is checked after this step."""
        witness = data.draw(st.sampled_from([found for found in self.trial.witnesses if fits(found)]), label="log")
        self.touched.append(witness)
        return witness

    @invariant()
    def what_is_read_is_what_was_written(self) -> None:
        for witness in self.touched:
            witness.check()
            self.verify(witness)
        self.touched.clear()

    def has(self, fits: Fits) -> bool:
        """Whether a log fits."""
        return any(fits(witness) for witness in self.trial.witnesses)

    # logs

    @initialize(durability=durabilities)
    def create_first(self, durability: Durability) -> None:
        self.touched.append(self.trial.create(durability))

    @precondition(lambda self: len(self.trial.witnesses) < MOST_LOGS)
    @rule(durability=durabilities)
    def create(self, durability: Durability) -> None:
        self.create_first(durability)

    @step(is_open)
    def commit(self, data: Data) -> None:
        self.pick(data, is_open).commit()

    @step(is_open)
    def close(self, data: Data) -> None:
        self.pick(data, is_open).close()

    @step(is_closed)
    def reopen(self, data: Data) -> None:
        self.pick(data, is_closed).reopen()

    @step(is_open)
    def a_second_writer_is_refused(self, data: Data) -> None:
        witness = self.pick(data, is_open)
        refused(Locked, lambda: self.trial.new_store().open(witness.path))

    # turns

    @step(is_idle)
    def begin(self, data: Data) -> None:
        witness = self.pick(data, is_idle)
        witness.begin(data.draw(st.none() | self.contexts, label="context"))
        for text in data.draw(st.lists(texts, max_size=2), label="texts"):
            witness.user(text)

    @step(is_in_turn)
    def user(self, data: Data) -> None:
        self.pick(data, is_in_turn).user(data.draw(texts))

    @step(is_in_turn)
    def append(self, data: Data) -> None:
        self.pick(data, is_in_turn).append(data.draw(self.items))

    @step(is_in_turn)
    def append_batch(self, data: Data) -> None:
        self.pick(data, is_in_turn).append_all(data.draw(st.lists(self.items, max_size=4)))

    @step(is_in_turn)
    def compact_in_turn(self, data: Data) -> None:
        witness = self.pick(data, is_in_turn)
        witness.compact_in_turn(data.draw(self.replacements), data.draw(st.none() | self.contexts, label="context"))

    @step(is_in_turn)
    def end(self, data: Data) -> None:
        self.pick(data, is_in_turn).end()

    @step(is_in_turn)
    def fail(self, data: Data) -> None:
        self.pick(data, is_in_turn).fail(data.draw(st.sampled_from([ValueError("x"), KeyboardInterrupt()])))

    @step(is_in_turn)
    def abort(self, data: Data) -> None:
        self.pick(data, is_in_turn).abort(data.draw(st.sampled_from(["interrupted", "replaced", "review_ended"])))

    @step(is_in_turn)
    def what_may_not_stand_in_a_turn_is_refused(self, data: Data) -> None:
        log = self.pick(data, is_in_turn).log
        refused(UsageError, lambda: log.rollback(1))
        refused(UsageError, lambda: log.compact([]))
        refused(UsageError, log.turn().__enter__)

    @step(is_in_turn)
    def what_is_no_record_or_comes_too_late_is_refused(self, data: Data) -> None:
        witness = self.pick(data, is_in_turn)
        turn = witness.turn
        assert turn is not None
        refused(RecordError, lambda: turn.append_all([message("user", "a"), {"no": "type"}]))
        refused(Conflict, lambda: turn.user("late", expected_end=witness.log.end - 1))

    # in turns and outside

    @step(is_open)
    def record(self, data: Data) -> None:
        self.pick(data, is_open).record(data.draw(self.items | texts.map(lambda text: message("user", text))))

    @step(is_open)
    def event(self, data: Data) -> None:
        keys = st.fixed_dictionaries({"message": texts})
        self.pick(data, is_open).event("something_new", **data.draw(keys))

    @step(is_open)
    def remove_items(self, data: Data) -> None:
        self.pick(data, is_open).event("items_removed", num_items=data.draw(st.integers(0, 3)))

    @step(is_open)
    def count_tokens(self, data: Data) -> None:
        total = data.draw(st.integers(0, 2**70))
        self.pick(data, is_open).event("token_count", info={"total_token_usage": {"total_tokens": total}})

    @step(is_open)
    def change_world(self, data: Data) -> None:
        state = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers() | st.just({"deep": 1}), max_size=2)
        self.pick(data, is_open).world(data.draw(st.booleans()), data.draw(state))

    # outside of turns

    @step(is_idle)
    def compact(self, data: Data) -> None:
        self.pick(data, is_idle).compact(data.draw(self.replacements))

    @step(is_idle)
    def rollback(self, data: Data) -> None:
        witness = self.pick(data, is_idle)
        refused(UsageError, lambda: witness.log.rollback(0))
        witness.rollback(data.draw(st.integers(1, witness.live.boundary_count + 1)))

    # forks

    @fork_step(is_open)
    def fork(self, data: Data) -> None:
        self.touched.append(self.pick(data, is_open).fork(copy=data.draw(st.booleans(), label="copy")))

    @fork_step(is_open)
    def fork_at_an_older_line(self, data: Data) -> None:
        witness = self.pick(data, is_open)
        at = data.draw(st.integers(0, len(witness.moments) - 1), label="moment")
        self.touched.append(witness.fork(witness.moments[at], copy=data.draw(st.booleans(), label="copy")))

    @fork_step(lambda witness: is_open(witness) and bool(witness.turns))
    def fork_at_a_turn(self, data: Data) -> None:
        witness = self.pick(data, lambda found: is_open(found) and bool(found.turns))
        turn_id = data.draw(st.sampled_from(witness.turns), label="turn")
        before, copy = data.draw(st.tuples(st.booleans(), st.booleans()), label="before, copy")
        self.touched.append(witness.fork_at_turn(turn_id, before=before, copy=copy))

    @fork_step(is_any)
    def fork_from_a_reader(self, data: Data) -> None:
        witness = self.pick(data, is_any)
        copy = data.draw(st.booleans(), label="copy")
        reader = self.trial.new_store().open(witness.path, "read")
        self.touched.append(witness.fork(copy=copy, source=reader))

    # what no program wishes for

    @rule()
    def kill(self) -> None:
        self.trial.kill()
        self.touched.extend(self.trial.witnesses)

    @rule(data=st.data())
    def crash(self, data: Data) -> None:
        ops = len(self.trial.disk.ops)
        at = ops - data.draw(st.integers(0, min(ops, CRASH_WITHIN_OPS)), label="operations lost")
        tree = crash_state(self.trial.disk, at, lambda n: data.draw(st.integers(0, n - 1)))
        acked: dict[int, int] = {}
        for when, number, moment in self.acks:
            if when <= at:
                acked[number] = max(moment, acked.get(number, -1))
        self.trial = self.trial.after(SimulatedDisk(tree), acked, self._ack)
        self.acks = [(0, found.number, len(found.moments) - 1) for found in self.trial.witnesses]
        self.touched = list(self.trial.witnesses)
        self.what_is_read_is_what_was_written()
        for witness in self.trial.witnesses:
            if data.draw(st.booleans(), label="reopen"):
                witness.reopen()
                self.touched.append(witness)
        if not self.trial.witnesses:
            self.create_first(Durability.TURN)


def refused(error: type[RolloutError], action: Callable[[], object]) -> None:
    """AssertionError if `action` does not raise `error`."""
    try:
        action()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")
