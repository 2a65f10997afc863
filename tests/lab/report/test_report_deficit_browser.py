"""Deficit experiments on the page of a report, in a real browser."""

import pytest

from bitcycle.lab.report.labels import experiments_of, point_lines
from bitcycle.lab.studies.deficits import DeficitPart
from tests.lab.report.test_deficit_report import hostile
from tests.lab.report.test_report import page
from tests.lab.report.test_report_browser import (
    CHROMIUM,
    DESKTOP,
    PHONE,
    api,
    contrast,
    luminance,
    opacity,
    opening,
    settled,
)
from tests.lab.studies.examples import make_deficits, make_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium: apt-get install chromium"),
]

HELD, RESTARTED, LONGER = "held", "restarted", "longer"


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def deficits():
    image = make_deficits(DeficitPart("image", (3, 8), 4000))
    language = make_deficits(DeficitPart("language", (5, 8), 400, seeds=(0, 1, 2)), metric="perplexity")
    return [image[0], language[0]], [*image[1], *language[1]]


@pytest.fixture(scope="module")
def address(deficits, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(make_study(), [], deficits[1], deficits[0]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def open_page(browser, address):
    with opening(browser, address) as opened:
        yield opened


def points(tab, arm, plot=0):
    plots = tab.locator("#deficit-1 .deficit-plot:visible")
    return plots.nth(plot).locator(f".point[data-setting='{arm}']")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, {"width": 768, "height": 1024}, {"width": 320, "height": 600}])
def test_everything_is_visible_and_nothing_sticks_out(open_page, viewport):
    tab = open_page(viewport)
    assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert tab.locator(".deficit-plot:visible").count() == 4
    for plot in tab.locator("svg.plot:visible").all():
        box = plot.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
        assert box["x"] + box["width"] <= viewport["width"]
    assert tab.locator("#deficit-1 .deficit-plot:visible .point").count() == 13 + 12
    assert tab.locator("#deficit-1 .course").count() == 3 * 6 + 2 * 4
    assert tab.locator("#deficit-1 tbody tr").count() == 13 + 12


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_words_of_a_plot_lie_inside_and_apart(open_page, viewport):
    tab = open_page(viewport)
    for plot in tab.locator("svg.plot:visible").all():
        frame = plot.bounding_box()
        boxes = [words.bounding_box() for words in plot.locator("text").all() if words.text_content()]
        for i, a in enumerate(boxes):
            assert a["x"] >= frame["x"] - 1
            assert a["x"] + a["width"] <= frame["x"] + frame["width"] + 1
            for b in boxes[:i]:
                wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
                high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
                assert wide <= 1 or high <= 0.3 * a["height"]  # a line of text is taller than its letters


def test_hovering_shows_the_figures(open_page, deficits):
    analysis = deficits[0][0]
    tab = open_page()
    tooltip = tab.locator("#tooltip")
    for plot, experiment in enumerate(experiments_of(analysis)):
        for arm in (HELD, RESTARTED, LONGER):
            points(tab, arm, plot).last.locator(".mark").hover()
            point = [point for point in experiment.points if point.arm == arm][-1]
            assert tooltip.inner_text().splitlines() == point_lines(analysis, experiment, point)
            assert f"{point.quality.mean:.4f}" in tooltip.inner_text()
    tab.locator("h1").hover()
    assert tooltip.is_hidden()


def test_hovering_a_measurement_names_its_line(open_page):
    tab = open_page()
    line = tab.locator("#deficit-1 .course.shade-8").first
    line.scroll_into_view_if_needed()
    x, y = line.locator(".stroke").evaluate(
        "e => { const p = e.getPointAtLength(e.getTotalLength() * 0.95).matrixTransform(e.getScreenCTM());"
        " return [p.x, p.y]; }"
    )
    tab.mouse.move(x, y)
    assert tab.locator("#tooltip").inner_text().startswith("held, an initial deficit of 2 normal runs")


def test_a_click_selects_an_arm_in_both_plots_and_tables(open_page):
    tab = open_page()
    points(tab, HELD).first.locator(".mark").click()
    settled(tab)
    for plot in (0, 1):
        assert opacity(points(tab, HELD, plot).first) == 1
        assert opacity(points(tab, RESTARTED, plot).first) < 0.6
    assert opacity(tab.locator(f"#deficit-1 tbody tr[data-setting='{HELD}']").last) == 1
    assert opacity(tab.locator(f"#deficit-1 tbody tr[data-setting='{LONGER}']").last) < 0.6
    assert tab.locator("#selected").inner_text().startswith("held")
    assert opacity(tab.locator("#deficit-1 .course").first) == 1  # measurements have a selection of their own
    assert opacity(tab.locator(f"#deficit-2 .arms .chip[data-setting='{LONGER}']")) == 1
    points(tab, HELD).first.locator(".mark").click()
    settled(tab)
    assert opacity(points(tab, RESTARTED).first) == 1


def test_a_length_is_selected_in_all_measurements(open_page):
    tab = open_page()
    chips = tab.locator("#deficit-1 .linked >> nth=1").locator(".chip")
    assert chips.all_inner_texts() == ["0", "0.25", "0.5", "1", "2", "longer (control)"]
    chips.nth(3).click()
    settled(tab)
    lines = tab.locator("#deficit-1 .course[data-setting='3']")
    assert lines.count() == 5
    assert all(opacity(line) == 1 for line in lines.all())
    assert opacity(tab.locator("#deficit-1 .course[data-setting='4']").first) < 0.6
    assert opacity(points(tab, RESTARTED).first) == 1
    assert "1 normal run (4,000 steps)" in tab.locator("#selected").inner_text()


def test_keyboard(open_page):
    tab = open_page()
    mine = points(tab, RESTARTED).first
    mine.focus()
    tab.keyboard.press("Tab")  # a press of a key makes the focus visible
    tab.keyboard.press("Shift+Tab")
    assert tab.locator("#tooltip").inner_text().startswith("restarted")
    for key in ("Enter", " "):
        tab.keyboard.press(key)
        assert mine.get_attribute("aria-pressed") == "true"
        tab.keyboard.press("Escape")
        assert mine.get_attribute("aria-pressed") == "false"
        assert tab.locator(".selecting").count() == 0
        assert tab.locator("#tooltip").is_hidden()
    for chip in (tab.locator("#deficit-1 .chip").first, tab.locator("#deficit-1 .chip").last):
        chip.focus()
        tab.keyboard.press("Enter")
        assert chip.get_attribute("aria-pressed") == "true"


def test_a_tap_selects(open_page):
    tab = open_page(PHONE, has_touch=True, is_mobile=True)
    points(tab, RESTARTED).last.locator(".mark").tap()
    assert tab.locator("#selected").inner_text().startswith("restarted")


def test_sorting(open_page, deficits):
    tab = open_page()
    table = tab.locator("#deficit-2 table.sortable").first
    heads = table.locator("thead th")
    column = next(i for i, text in enumerate(heads.all_inner_texts()) if text.startswith("perplexity"))
    heads.nth(column).locator("button").click()
    rising = sorted(deficits[0][1].lengths, key=lambda point: point.quality.mean)
    assert table.locator("tbody .pick").all_inner_texts() == [point.arm for point in rising]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(open_page, scheme):
    tab = open_page(color_scheme=scheme)
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) < 0.02) == (scheme == "dark")
    for selector in (".arms li > span:last-child", ".meaning", "h4"):
        colour = tab.locator(selector).first.evaluate("e => getComputedStyle(e).color")
        assert contrast(colour, ground) >= 4.5, selector
    shades = [f".course.shade-{i}" for i in (0, 3, 5, 8)]
    strengths = []
    for selector in (".kind-held", ".kind-restarted", ".kind-longer", ".course.no-deficit", *shades):
        colour = tab.locator(f"#deficit-1 {selector} .stroke").first.evaluate("e => getComputedStyle(e).stroke")
        assert contrast(colour, ground) >= 3, selector
        strengths.append(contrast(colour, ground))
    assert strengths[4:] == sorted(strengths[4:])  # the longer the deficit, the stronger its line


def test_without_the_script_everything_is_there(open_page):
    tab = open_page(java_script_enabled=False)
    assert tab.locator("#tooltip").is_hidden()
    assert tab.locator(".deficit-plot:visible").count() == 4
    assert tab.locator(".panel:visible").count() == 10


def test_hostile_names_run_nothing(open_page, tmp_path):
    analysis, records = hostile()
    path = tmp_path / "hostile.html"
    path.write_text(page(make_study(), [], records, [analysis]), encoding="utf-8", errors="replace")
    for viewport in (DESKTOP, PHONE):
        tab = open_page(viewport, where=path.as_uri())
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        points(tab, HELD).first.locator(".mark").hover()
        assert "<script>" in tab.locator("#tooltip").inner_text()
