"""Many sessions: lists, searches, trees, archives, and what keeps them in order."""
