"""What it costs to begin: CPU time of `import tightrope` and of `tightrope --help`, as ratios to that of `import jax`.

Each figure is the median of several fresh processes, taken in turn so that a noisy moment meets all of them alike.
"""

import os
import resource
import statistics
import subprocess
import sys

PROCESSES = 9
WANTED = 1.3
STARTS = {
    "import jax": "import jax",
    "import tightrope": "import tightrope",
    "tightrope.minimize": "import tightrope; tightrope.minimize",  # the first name that is used loads JAX and the core
    "tightrope --help": "import sys; sys.argv = ['tightrope', '--help']; from tightrope.__main__ import main; main()",
    "jax and sklearn.base": "import jax, sklearn.base",
    "tightrope.FairLogisticRegression": "import tightrope; tightrope.FairLogisticRegression",
}
BESIDE = {"tightrope.FairLogisticRegression": "jax and sklearn.base"}  # what it stands on; for the others it is JAX


def cpu_seconds(code: str) -> float:
    """User and system time of a fresh Python that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for code in STARTS.values():
        cpu_seconds(code)  # compiles the modules to bytecode, which is not measured
    times = [{name: cpu_seconds(code) for name, code in STARTS.items()} for _ in range(PROCESSES)]
    medians = {name: statistics.median(time[name] for time in times) for name in STARTS}
    print(f"{'':<34}{'CPU time':>10}{'ratio':>8}   to")
    for name, seconds in medians.items():
        beside = BESIDE.get(name, "import jax")
        asked = f"{beside} (at most {WANTED})" if name.startswith(("tightrope", "import tightrope")) else beside
        print(f"{name:<34}{seconds:>8.2f} s{seconds / medians[beside]:>8.2f}   {asked}")


if __name__ == "__main__":
    main()
