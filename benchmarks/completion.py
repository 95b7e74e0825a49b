"""Structured matrix completion: tightrope and the libraries that a user might pick instead.

Every contender works in a process of its own, one after the other. Run as `make bench-completion`; writes
benchmarks/completion.md from what is known so far (out/completion.json), so that parts can be measured again alone.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.completion_page import page

HERE = Path(__file__).parent
KNOWN = HERE.parent / "out" / "completion.json"
PARTS = ("speed", "candidates", "ratings")


# In the child: one job.


def child(order: dict[str, Any]) -> Any:
    match order:
        case {"job": "corrective", **options}:
            from benchmarks.peers import completion_ours

            return completion_ours.corrective(**options)
        case {"job": "tune", "seed": seed}:
            from benchmarks.peers.completion_ours import Sampled

            return Sampled(seed).tune()
        case {"job": "sampled", "seed": seed, "setting": setting}:
            from benchmarks.peers.completion_ours import Sampled

            return Sampled(seed).seconds_to_target(setting)
        case {"job": "copt", "seed": seed}:
            from benchmarks.peers import copt_fw

            return copt_fw.seconds_to_target(seed)
        case {"job": "optimum"}:
            from benchmarks.peers.instance import Instance

            instance = Instance(0, 0.5)
            return instance.optimum(instance.beta, tol=1e-5)
        case {"job": "candidates"}:
            from benchmarks.peers import candidates

            return candidates.measure_all()
        case {"job": "ratings", "who": who, "split": seed, "rank": rank}:
            from benchmarks.peers import ratings, softimpute

            entries, shape = ratings.movielens()
            train, test = ratings.split(entries, 0.8, seed)
            rate = ratings.ours if who == "ours" else softimpute.held_out_error
            return rate(train, test, shape, rank, seed)
        case _:
            raise ValueError(f"No job is called {order.get('job')!r}.")


# In the parent: who does what.


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def ask(job: str, **options: Any) -> Any:
    """The answer of a child process."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    if job != "ratings":  # copt is faster so; elsewhere only the judge uses it, and its idle threads spin
        environment["OPENBLAS_NUM_THREADS"] = "1"
    command = [sys.executable, "-m", "benchmarks.completion", "--child", json.dumps({"job": job, **options})]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    say(f"{job} {options}: {str(answer)[:150]}")
    return answer


def speed(seeds: int) -> dict[str, Any]:
    """Seconds to the target, the contenders taking turns on every instance."""
    tuned = ask("tune", seed=0)
    best = {name: tuned["best"][name] for name in ("b", "gamma0", "rho0")}
    found: dict[str, list[Any]] = {"tightrope": [], "copt": [], "SCGD": []}
    for seed in range(seeds):
        found["tightrope"].append(ask("corrective", seed=seed))
        found["copt"].append(ask("copt", seed=seed))
        found["SCGD"].append(ask("sampled", seed=seed, setting=best))
    return {"found": found, "tuned": tuned}


def candidates() -> dict[str, Any]:
    """What each candidate comes to, and the optimum with half of the paper's bound on the energy."""
    lower, upper, multiplier = ask("optimum")
    return {"rows": ask("candidates"), "lower": lower, "upper": upper, "multiplier": multiplier}


def ratings(splits: int, ranks: list[int]) -> dict[str, Any]:
    """Held-out errors of both, by rank and split."""
    found: dict[str, Any] = {}
    for rank in ranks:
        pairs = [
            {who: ask("ratings", who=who, split=seed, rank=rank) for who in ("ours", "SoftImpute")}
            for seed in range(splits)
        ]
        found[str(rank)] = pairs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="what to measure (again)")
    parser.add_argument("--seeds", type=int, default=5, help="instances, and splits of the ratings")
    parser.add_argument("--ranks", type=int, nargs="*", default=[10, 32], help="largest ranks for the ratings")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print("\n" + json.dumps(child(json.loads(arguments.child))))
        return
    KNOWN.parent.mkdir(exist_ok=True)
    jobs = {"speed": lambda: speed(arguments.seeds), "candidates": candidates}
    jobs["ratings"] = lambda: ratings(arguments.seeds, arguments.ranks)
    for part in arguments.parts:
        found = jobs[part]()
        known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
        KNOWN.write_text(json.dumps(known | {part: {"found": found, "load": os.getloadavg()[1]}}))
    known = json.loads(KNOWN.read_text())
    (HERE / "completion.md").write_text(page(known))
    print(page(known))


if __name__ == "__main__":
    main()
