"""Scripts in processes of their own, with as many virtual devices as are wanted."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def run(*command, devices=1, **more):
    flags = f"--xla_force_host_platform_device_count={devices} {QUICK_TO_COMPILE}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_NUMPY_RANK_PROMOTION": "raise", "OMP_NUM_THREADS": "1"} | more
    return subprocess.run([sys.executable, *map(str, command)], env=environment, capture_output=True, text=True)


def launch(count, *command, **more):
    return run("-c", "from tightrope.__main__ import main; main()", "launch", "-n", count, "--", *command, **more)
