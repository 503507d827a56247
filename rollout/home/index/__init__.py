"""The index of a home: what is remembered of each file, so that nothing is read twice."""
