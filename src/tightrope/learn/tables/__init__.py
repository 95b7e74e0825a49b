"""Models made from tables in files: what columns mean, what was fitted, and a folder to keep it in."""

from tightrope.learn.tables.classifier import fit_table as fit_table
