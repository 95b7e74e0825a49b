"""A classifier whose threshold keeps what it was asked to keep, and what it is made of."""
