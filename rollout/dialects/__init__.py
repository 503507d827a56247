"""The logs of agents: the only place that knows their keys, types, tags and file names."""
