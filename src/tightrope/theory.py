"""What is proven, and the coefficients that theorems make: see `tightrope.lab.theory`."""

from tightrope.lab.theory import *  # noqa: F403
