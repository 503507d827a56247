"""A runner of one's own over `rollout.Store`: a loop of model and tools that can be killed anywhere and goes on.

    python examples/own_runner.py HOME start       a question is answered; the second dies by SIGKILL inside of a tool
    python examples/own_runner.py HOME resume      opens the log again and goes on where it died
    python examples/own_runner.py HOME fork        asks something else in a fork; the log it came from stays as it is
    python examples/own_runner.py HOME rollback    takes the last question back
    python examples/own_runner.py HOME history     what the model sees of each log, and why

Nothing is sent anywhere: the model is a function at the end of this file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import rollout
from rollout import SessionLog, Store, TurnContext

Item = dict[str, Any]
NAME, FORK = "tea", "tea-with-milk"  # what this example calls its logs; `rollout history tea` takes it too


def take_turn(store: Store, log: SessionLog, question: str | None, dies: bool = False) -> None:
    """Asks the model and runs its tool until it answers. When the block is left, all of it is on the disk.

    A call is appended *before* the tool runs: whatever happens in there, the log knows that it was begun.
    """
    folder = store.home / "files"
    with log.turn(TurnContext(model="local", cwd=str(folder))) as turn:
        if question is not None:
            turn.user(question)
        while True:
            item = model(log.resume_state().for_prompt())
            turn.append(item)
            if item["type"] == "message":
                return
            output = write_file(folder, dies, **json.loads(item["arguments"]))
            turn.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})


def write_file(folder: Path, dies: bool, name: str, text: str) -> str:
    """The only tool. It may be called again after a crash, so doing it twice is the same as doing it once."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)  # done, and nobody was told
    return f"wrote {name}"


def start(store: Store) -> None:
    """Two questions. The second dies behind what `write_file` did."""
    with store.create(cwd=store.home, model_provider="local") as log:
        store.rename(log.path, NAME)
        take_turn(store, log, "write tea.txt")
        take_turn(store, log, "write cups.txt", dies=True)


def resume(store: Store) -> None:
    """Opening mends the end of the file, closes the open turn as interrupted and tells the model so.

    `for_prompt` gives the call that never ended the output "aborted", as the API wants an output for every call. The
    turn that goes on has no question of its own: a rollback takes both parts back at once.
    """
    with store.open(NAME) as log:
        take_turn(store, log, None)


def fork(store: Store) -> None:
    """The fork begins where the first turn ended; its file refers to the other one for what was before."""
    with store.open(NAME, "read") as log, log.fork(at=log.resume_state().turns[0].id) as child:
        store.rename(child.path, FORK)
        take_turn(store, child, "write milk.txt")


def rollback(store: Store) -> None:
    """Nothing is erased: a line is appended that says how many of the user's messages no longer count."""
    with store.open(NAME) as log:
        log.rollback(1)


def history(store: Store) -> None:
    """The state of each log, and how many lines have which fate in it."""
    for name in (NAME, FORK):
        log = store.resolve(name)
        print(f"{name}: the model sees")
        for item in rollout.reconstruct(log).history:
            print(f"    {shown(item)}")
        fates = Counter(line.status for line in rollout.explain(log))
        print(f"    because of all lines {', '.join(f'{count} are {fate}' for fate, count in fates.items())}")


def shown(item: Item) -> str:
    """An item in a few words."""
    match item["type"]:
        case "message":
            return f"{item['role']}: {item['content'][0]['text']}"
        case "function_call":
            return f"call: {item['name']} {item['arguments']}"
        case _:
            return f"output: {item['output']}"


def model(prompt: list[Item]) -> Item:
    """Writes the file that it was last asked for, again if that was aborted, and says so. It remembers nothing."""
    said = [item["content"][0]["text"] for item in prompt if item.get("role") == "user"]
    name = next(text for text in reversed(said) if text.startswith("write ")).removeprefix("write ")
    if prompt[-1]["type"] == "function_call_output":
        content = [{"type": "output_text", "text": f"{name} is there"}]
        return {"type": "message", "role": "assistant", "content": content}
    arguments = json.dumps({"name": name, "text": f"all about {name}"})
    return {"type": "function_call", "call_id": f"call-{len(prompt)}", "name": "write_file", "arguments": arguments}


STEPS = {step.__name__: step for step in (start, resume, fork, rollback, history)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in STEPS:
        sys.exit(f"usage: python {sys.argv[0]} HOME {'|'.join(STEPS)}")
    STEPS[sys.argv[2]](Store(sys.argv[1]))
