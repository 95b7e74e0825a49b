"""Attacks on the library: kills, flipped bits, mangled tables, senseless arguments, interrupts, long streams.

`make torture` runs them all; each is a program of its own, `python -m torture.kills`, that prints what was tried and what
failed, and fails if anything did. `torture.mutants` attacks the tests instead. What they found is in docs/reliability.md.
"""
