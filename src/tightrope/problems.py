"""Ready-made problems: those that estimators solve, and those whose solutions are known exactly."""

from tightrope.lab.problems import *  # noqa: F403
from tightrope.learn.problems import *  # noqa: F403
