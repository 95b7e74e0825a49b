"""Data for examples and studies: see `tightrope.learn.datasets`."""

from tightrope.learn.datasets import *  # noqa: F403
