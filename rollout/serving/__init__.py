"""A recording that answers in the model's place: its calls, what fits them, the wire that they go over."""
