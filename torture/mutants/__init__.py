"""Mutants of the core: small mistakes made on purpose, one at a time, and whether a test of `make test` sees them.

`make mutants` draws 300 of all mutants (`operators.py`) at random. Which tests run a mutant's line is known from one run of
all tests with every line recorded (`recorder.py`); those are run against it, in a process of its own and on a copy of the
package (`__main__.py`). `equivalent.csv` names mutants that no test can tell from the original, and why.

mutmut and cosmic-ray were looked at first. mutmut leaves out functions with decorators and puts a switch into all others,
which the fingerprints of checkpoints see and which a compiled program asks only once; cosmic-ray changes the checkout itself
and runs one command for every mutant, where 20 s of tests have to be chosen from 15 minutes of them.
"""
