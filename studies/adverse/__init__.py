"""A search for laws that break what the library promises: a file for each promise, all searched in the same way."""
