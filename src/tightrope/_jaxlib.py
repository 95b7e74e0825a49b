"""What depends on the release of jaxlib: options for its compiler, and a warning where it computes wrong numbers.

From 0.10.0 to 0.11.2 the CPU compiler hands sums of products to a library, YNN, and takes wrong numbers back, most of
them in float32: the Jacobian of two constraints over 1,000 rows can be NaN. tests/test_compiler.py has the patterns.
The package asks for a release without it; an installation that was forced, or that is meant for a GPU, gets a warning.
"""

import os
import warnings
from typing import Any

from jaxlib.version import __version__ as version

_OPTION = "xla_cpu_experimental_ynn_fusion_type"

# Both for `jax.jit(compiler_options=...)` of a program that is called from Python.
COMPILED_SOON: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False} if version.startswith("0.9.") else {}
"""A third less time to compile on a CPU. Loops of cheap steps take 3 to 17 % longer, so it is for programs that run seldom,
or whose time goes into products of matrices."""
WITHOUT_YNN = {_OPTION: ""}
"""In 0.9.2 YNN ends the process, "(0 <= -1) is statically false", on Hessians in float32 of more than 1,024 rows of some
shapes."""


def warn_of_wrong_sums() -> None:
    """Say what is wrong with this jaxlib, unless the part that is wrong has been switched off."""
    if version.startswith(("0.10.", "0.11.")) and f"--{_OPTION}=" not in os.environ.get("XLA_FLAGS", "").split():
        warnings.warn(
            f"jaxlib {version} computes wrong sums on CPUs, most of them in float32 (one of the causes is jax issue 39103). "
            f"Install jax and jaxlib 0.9.2, or set XLA_FLAGS=--{_OPTION}= in the environment before Python starts.",
            RuntimeWarning,
            stacklevel=2,
        )
