"""What ``make docs`` adds: the gallery, drawn from the schedules themselves, and pages from the root of the project."""

import re
from pathlib import Path

from mkdocs.structure.files import File, Files

from bitcycle.lab.report.figures import COLOURS, svg
from bitcycle.lab.report.schedule_panels import GROUPS, Panel, panels, tracks
from bitcycle.lab.schedule_summary import complete
from bitcycle.schedules import TEN
from bitcycle.schedules.operands import OperandSchedules

ROOT = Path(__file__).parent.parent
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
GALLERY_LINK = "[gallery](pictures/schedules.svg)"
"""How pages link to the gallery. In the repository, where there is no gallery, the link shows the ten schedules."""
STEPS = 64_000
GALLERY = {
    "The ten schedules of the paper": tuple(TEN),
    "One rise or one fall": ("linear-rise:3-8", "cosine-rise:3-8", "linear-fall:3-8", "rex-fall:3-8"),
    "Constant": ("static:8", "full"),
    "Combined": (
        "delay(0.25, CR:3-8)",
        "deficit(3@0.0..0.25, static:8)",
        "join(static:8, 0.5, CR:3-8)",
    ),
}


def gallery() -> tuple[str, dict[str, str]]:
    """Return the page of the gallery, and its pictures by name."""
    about = f"Each over {STEPS:,} steps, with its saving against static training at its largest width."
    lines, pictures = ["# Gallery of schedules", "", about, ""], {}
    for title, specs in GALLERY.items():
        lines += [f"## {title}", ""]
        for spec in specs:
            s = complete(spec, (3, 8), 8)
            name = f"{re.sub(r'[^a-z0-9]+', '-', str(s).lower()).strip('-')}.svg"
            track = tracks(OperandSchedules.of(s), STEPS)[0]  # both operands follow the schedule
            colour = COLOURS[GROUPS[s.group(STEPS)][1]]
            pictures[f"gallery/{name}"] = svg(panels([Panel(str(s), "", track, colour)], width=400))
            lines += [f'`bc.schedule("{s}")`, saving {100 * s.saving(STEPS):.1f} %', ""]
            lines += [f"![bits over training]({f'gallery/{name}'}){{ width=420 }}", ""]
    return "\n".join(lines), pictures


def on_files(files: Files, config) -> Files:
    """Add the pages that are not files in docs/."""
    page, pictures = gallery()
    generated = {"gallery.md": page, **pictures}
    for name, origin in FROM_ROOT.items():
        generated[name] = (ROOT / origin).read_text("utf-8").replace("](docs/", "](")
    for name, content in generated.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **arguments) -> str:
    """Point links to the gallery and to files of the root at their pages; make links to source files plain text."""
    markdown = markdown.replace(GALLERY_LINK, "[gallery](gallery.md)")
    for name, origin in FROM_ROOT.items():
        markdown = markdown.replace(f"](../{origin})", f"]({name})")
    return re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", markdown)
