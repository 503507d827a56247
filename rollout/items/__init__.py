"""What an item says: texts, calls and results, context, secrets, and how a history becomes a prompt."""
