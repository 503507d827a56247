"""Codex's rollouts: the only place that knows their keys, types, tags and file names."""
