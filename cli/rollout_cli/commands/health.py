"""A home looked over."""

from rollout_cli.failures import DAMAGE_FOUND, FINE
from rollout_cli.homes import open_store
from rollout_cli.options import Home, Json
from rollout_cli.terminal import Output, progress


def doctor(home: Home = None, json: Json = False) -> int:
    """Look over all sessions: what is wrong, and the command that helps.

    Tells of sessions that Codex does not resume, and why; of damage,
    missing bases, copies, lost names, and what crashes have left.

    Changes nothing. Exits with 1 if there is a problem.

    Example: rollout doctor --json | jq '.findings[] | select(.resumes | not)'
    """
    from rollout_cli import documents_health, render_health

    store, out = open_store(home), Output()
    with progress() as advance:
        found = store.doctor(progress=advance)
    if json:
        out.print_json(documents_health.diagnosis(found))
    else:
        out.print(render_health.diagnosis(found), cut=False)
    return FINE if found.ok else DAMAGE_FOUND
