"""A recording that answers in the model's place, over the wire of the Responses API."""
