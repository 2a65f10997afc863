"""The page of a report in a real browser, at desktop and phone width, light and dark."""

import shutil
from contextlib import contextmanager

import pytest

from bitcycle.lab.report.labels import experiments_of, point_lines, tip_lines
from bitcycle.lab.report.writing import page as page_of
from bitcycle.lab.report.writing import sections_of
from bitcycle.lab.studies.deficits import DeficitPart
from tests.lab.report.test_deficit_report import hostile
from tests.lab.report.test_report import hostile_study
from tests.lab.studies.examples import make_analysis, make_deficits, make_records, make_study

api = pytest.importorskip("playwright.sync_api", reason="the browser tests need the package playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium: apt-get install chromium"),
]

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


def page(study, analyses, records, deficits=()):
    return page_of(study, sections_of(analyses, records, deficits))


@pytest.fixture(scope="module")
def study():
    image = make_records(measured=True)
    language = make_records(task="language", metric="perplexity", diverged=("RR:3-8:cycles=8",))
    deficit, records = make_deficits(DeficitPart("image", (3, 8), 4000))
    return (
        make_study(done=78, planned=78),
        [make_analysis(image), make_analysis(language, "Reference")],
        [*image, *language, *records],
        [deficit],
    )


@pytest.fixture(scope="module")
def address(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(*study), encoding="utf-8")
    return path.as_uri()


@contextmanager
def opening(browser, address):
    """Opens the page; afterwards the console must be silent, and nothing else may have been asked for."""
    contexts, trouble = [], []

    def opened(viewport=DESKTOP, where=address, **options):
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: trouble.append(message.text))
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else trouble.append(request.url),
        )
        tab.goto(where)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture
def open_page(browser, address):
    with opening(browser, address) as opened:
        yield opened


def part(tab, name, section="task-1", of=".plot:visible [role=button]"):
    """Return the parts of a section that belong to a setting or an arm: marks of figures unless said otherwise."""
    return tab.locator(f"#{section} {of}[data-setting='{name}']")


def opacity(locator):
    return float(locator.evaluate("e => getComputedStyle(e).opacity"))


def settled(tab):
    """Dimming takes a moment."""
    tab.wait_for_timeout(250)


def luminance(colour):
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, {"width": 768, "height": 1024}, {"width": 320, "height": 600}])
def test_everything_is_visible_and_nothing_sticks_out(open_page, viewport):
    tab = open_page(viewport)
    assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert tab.locator("h1").is_visible()
    assert tab.locator("svg.plot:visible").count() == (1 + 1 + 4 + 2) + (1 + 1 + 4) + (2 + 5)
    for plot in tab.locator("svg.plot:visible").all():
        box = plot.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
        assert box["x"] + box["width"] <= viewport["width"]
    for section, marks, rows in (("task-1", 12, 13), ("task-2", 11, 13), ("deficit-1", 13 + 12, 13 + 12)):
        assert tab.locator(f"#{section} .plot:visible [role=button]").count() == marks  # one diverged
        assert tab.locator(f"#{section} tbody tr[data-setting]").count() == rows


def test_hovering_shows_the_figures(open_page, study):
    analysis, deficit = study[1][0], study[3][0]
    tab = open_page()
    tooltip = tab.locator("#tooltip")
    assert tooltip.is_hidden()
    for label in ("CR", "static 8"):
        part(tab, label).hover()
        setting = analysis.setting(label)
        assert tooltip.inner_text().splitlines() == tip_lines(analysis, setting)
        assert f"{setting.quality.mean:.4f}" in tooltip.inner_text()
    experiment = experiments_of(deficit)[0]
    for arm in ("held", "restarted"):
        part(tab, arm, "deficit-1").nth(3).hover()
        point = [point for point in experiment.points if point.arm == arm][3]
        assert tooltip.inner_text().splitlines() == point_lines(deficit, experiment, point)
    tab.locator("h1").hover()
    assert tooltip.is_hidden()


@pytest.mark.parametrize(("section", "words"), [("task-1", "at step 4,000"), ("deficit-1", "normal run")])
def test_hovering_a_line_names_it(open_page, section, words):
    tab = open_page()
    line = tab.locator(f"#{section} .panel .plot .hit").first
    line.scroll_into_view_if_needed()
    x, y = line.evaluate(
        "e => { const p = e.getPointAtLength(e.getTotalLength() * 0.9).matrixTransform(e.getScreenCTM());"
        " return [p.x, p.y]; }"
    )
    tab.mouse.move(x, y)
    assert words in tab.locator("#tooltip").inner_text()


def test_a_click_selects_in_all_parts_of_the_section(open_page):
    tab = open_page()
    part(tab, "CR").click()
    settled(tab)
    for of in (".plot:visible [role=button]", ".panel .plot path", ".chip", "tbody tr"):
        assert opacity(part(tab, "CR", of=of).first) == 1, of
        assert opacity(part(tab, "RR", of=of).first) < 0.6, of
    assert opacity(part(tab, "RR", "task-2", ".chip")) == 1  # the other task is left alone
    assert tab.locator("#selected").inner_text().startswith("CR")
    part(tab, "CR").click()  # again: nothing is selected
    settled(tab)
    assert opacity(part(tab, "RR", of=".chip")) == 1


@pytest.mark.parametrize(("section", "name"), [("task-1", "RTV"), ("deficit-1", "restarted")])
def test_keyboard(open_page, section, name):
    tab = open_page()
    mine = part(tab, name, section).first
    mine.focus()
    tab.keyboard.press("Tab")  # a press of a key makes the focus visible
    tab.keyboard.press("Shift+Tab")
    assert tab.locator("#tooltip").inner_text().startswith(name)
    for key in ("Enter", " "):
        tab.keyboard.press(key)
        assert mine.get_attribute("aria-pressed") == "true"
        tab.keyboard.press("Escape")
        assert mine.get_attribute("aria-pressed") == "false"
        assert tab.locator(".selecting").count() == 0
        assert tab.locator("#tooltip").is_hidden()
    chip = tab.locator(f"#{section} .chip").first
    chip.focus()
    tab.keyboard.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true"


def test_sorting(open_page, study):
    analysis = study[1][1]
    tab = open_page()
    table = tab.locator("#task-2 table.sortable")

    def labels():
        return table.locator("tbody .pick").all_inner_texts()

    heads = table.locator("thead th")
    column = heads.all_inner_texts().index(
        next(text for text in heads.all_inner_texts() if text.startswith("perplexity"))
    )
    finite = [s for s in analysis.settings if s.label != "RR"]
    rising = [s.label for s in sorted(finite, key=lambda s: s.quality.mean)]
    heads.nth(column).locator("button").click()
    assert labels() == [*rising, "RR"]  # what diverged comes last either way
    assert heads.nth(column).get_attribute("aria-sort") == "ascending"
    heads.nth(column).locator("button").click()
    assert labels() == [*rising[::-1], "RR"]
    heads.nth(0).locator("button").click()
    assert labels()[0] == "CR"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(open_page, scheme):
    tab = open_page(color_scheme=scheme)
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) < 0.02) == (scheme == "dark")
    for selector in ("body", ".lead", ".intro", ".supported", ".contradicted", ".open", "a", "thead th", "dt"):
        colour = tab.locator(selector).first.evaluate("e => getComputedStyle(e).color")
        assert contrast(colour, ground) >= 4.5, selector
    for words in tab.locator(".plot:visible text:not([stroke])").all()[:40]:
        assert contrast(words.evaluate("e => getComputedStyle(e).fill"), ground) >= 4.5
    for name in ("RR", "CR", "ER", "static 8"):
        colour = part(tab, name).evaluate("e => getComputedStyle(e).stroke")
        assert contrast(colour, ground) >= 3, name
    lines = tab.locator("#deficit-1 .panel").first.locator(".plot path[aria-label^=held]").all()
    shades = {line.evaluate("e => getComputedStyle(e).stroke") for line in lines}
    assert len(shades) == 4
    assert all(contrast(colour, ground) >= 3 for colour in shades)


def test_hostile_names_run_nothing(open_page, tmp_path):
    path = tmp_path / "hostile.html"
    deficit, measured = hostile()
    study, analyses, records = hostile_study()
    path.write_text(page(study, analyses, [*records, *measured], [deficit]), encoding="utf-8", errors="replace")
    for viewport in (DESKTOP, PHONE):
        tab = open_page(viewport, where=path.as_uri())
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        tab.locator(".chip").first.click()
        assert "<script>" in tab.locator("#selected").inner_text()
