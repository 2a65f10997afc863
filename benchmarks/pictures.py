"""Draw the pictures of the README: ``python -m benchmarks.pictures`` writes them to docs/pictures.

The ten schedules, and quality against cost of one domain of ``python -m evidence``, whose figures are in
evidence/figures.
"""

from pathlib import Path

from bitcycle.schedules import TEN
from bitcycle.schedules.comparison import compare
from bitcycle.schedules.plot import draw_schedules
from bitcycle.schedules.spec import complete
from evidence.design import Role, read_design
from evidence.figures import all_figures
from evidence.plot import cost_plot

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
EVIDENCE = ROOT / "evidence"
DOMAIN = "digits"
STEPS = 64_000


def draw_ten(path):
    rows = compare((complete(name, (3, 8), 8) for name in TEN), STEPS)
    draw_schedules(sorted(rows, key=lambda row: -row.saving), STEPS, path)


def draw_cost(path):
    design = read_design(EVIDENCE)
    figure = cost_plot(design, design.domain(DOMAIN), all_figures(EVIDENCE, design, Role.JUDGING))
    assert figure is not None
    path.write_text(figure.file(), "utf-8")


DRAWN = {"schedules.svg": draw_ten, "quality_cost.svg": draw_cost}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        draw(PICTURES / name)
        print(f"written: docs/pictures/{name}")
