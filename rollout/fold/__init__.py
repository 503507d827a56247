"""Records folded from the newest backward: turns, rollback, the history, what became of each line. Pure."""
