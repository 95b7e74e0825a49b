"""Attacks on the library, each a program of its own: kills, flipped bits, mangled tables, senseless arguments and sizes,
names that are code, interrupts, threads, full disks, missing rights, settings of JAX, long streams.

`python -m torture --minutes 10` (`make torture` for an hour) runs them one after the other, each for its share of the time;
`python -m torture.kills` runs one alone. Each prints what was tried, what failed and the smallest case, and fails if
anything did. `torture.mutants` attacks the tests instead. What they found is in docs/reliability.md.
"""
