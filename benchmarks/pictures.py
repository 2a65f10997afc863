"""Draw the picture of the README: the ten schedules. ``python benchmarks/pictures.py`` writes it to docs/pictures."""

from pathlib import Path

from bitcycle.schedules import TEN, complete
from bitcycle.schedules.comparison import compare
from bitcycle.schedules.plot import draw_schedules

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
STEPS = 64_000


def draw_ten(path):
    rows = compare((complete(name, (3, 8), 8) for name in TEN), STEPS)
    draw_schedules(sorted(rows, key=lambda row: -row.saving), STEPS, path)


DRAWN = {"schedules.svg": draw_ten}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        draw(PICTURES / name)
        print(f"written: docs/pictures/{name}")
