"""Feed random specs and plans to bitcycle: ``python -m tests.fuzz 1000000`` (specs) and ``--plans 10000``."""

import argparse
import time

from tests.fuzz.test_fuzz import FUZZERS, fuzz


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the specs of schedules and plans.")
    parser.add_argument("specs", type=int, nargs="?", default=1_000_000, help="number of specs")
    parser.add_argument("--plans", type=int, default=10_000, help="number of plans")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    numbers = (arguments.specs, arguments.specs // 10, arguments.specs // 100, arguments.plans)
    for name, number in zip(FUZZERS, numbers, strict=True):
        start = time.perf_counter()
        valid, slowest = fuzz(name, arguments.seed, number)
        print(
            f"{number:,} {name}: {valid:,} valid, {number - valid:,} refused with one line, no other exception; "
            f"slowest {slowest:.3f} s; {time.perf_counter() - start:.0f} s in all"
        )


if __name__ == "__main__":
    main()
