"""Models made from tables in files: what columns mean, what was fitted, and a folder to keep it in."""
