"""`python -m rollout_cli` is `rollout`."""

from rollout_cli.app import main

main()
