"""The problems, one file for each family."""
