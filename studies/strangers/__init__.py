"""Random problems that nobody has tuned for, their solutions, and what `minimize` does with them."""
