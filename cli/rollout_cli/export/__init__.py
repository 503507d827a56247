"""A session as a document for other people and programs: one module a form, all of the same chronicle."""
