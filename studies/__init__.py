"""Studies over many seeds; `make verify` runs them and writes what they measured into docs/."""
