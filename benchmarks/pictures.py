"""Draw the pictures of the README: ``python -m benchmarks.pictures`` writes them to docs/pictures.

The ten schedules, and quality against cost of one domain of ``python -m evidence``, whose figures are in
evidence/figures.
"""

from pathlib import Path

from bitcycle.lab.report.schedule_panels import draw_schedules
from bitcycle.schedules import TEN
from bitcycle.schedules import schedule as parse_schedule
from bitcycle.schedules.operands import OperandSchedules
from evidence.design import Role
from evidence.design_file import read_design
from evidence.figures import all_figures
from evidence.plot import cost_plot

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
EVIDENCE = ROOT / "evidence"
DOMAIN = "digits"
STEPS = 64_000


def draw_ten(path):
    ten = [OperandSchedules.of(parse_schedule(name, (3, 8), 8)) for name in TEN]
    draw_schedules(sorted(ten, key=lambda operands: -operands.saving(STEPS)), STEPS, path)


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
