"""Feed random specs and plans to bitcycle: ``python -m tests.fuzz 1000000`` (specs) and ``--plans 10000``."""

import argparse
import time

from tests.fuzz.plans import check_plan, draw_plan
from tests.fuzz.running import fuzz
from tests.fuzz.specs import check_spec, draw_spec
from tests.fuzz.strengths import check_control, check_strength, draw_control, draw_strength


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the specs of schedules and plans.")
    parser.add_argument("specs", type=int, nargs="?", default=1_000_000, help="number of specs")
    parser.add_argument("--plans", type=int, default=10_000, help="number of plans")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for what, draw, check, number in (
        ("specs", draw_spec, check_spec, arguments.specs),
        ("strengths", draw_strength, check_strength, arguments.specs // 10),
        ("controls", draw_control, check_control, arguments.specs // 100),
        ("plans", draw_plan, check_plan, arguments.plans),
    ):
        start = time.perf_counter()
        outcome = fuzz(draw, check, arguments.seed, number)
        print(
            f"{outcome.inputs:,} {what}: {outcome.valid:,} valid, {outcome.inputs - outcome.valid:,} refused with one "
            f"line, no other exception; slowest {outcome.slowest:.3f} s; {time.perf_counter() - start:.0f} s in all"
        )


if __name__ == "__main__":
    main()
