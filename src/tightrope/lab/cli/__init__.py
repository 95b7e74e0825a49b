"""The commands that compare and reproduce."""
