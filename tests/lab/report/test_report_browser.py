"""The page of a report in a real browser, at desktop and phone width, light and dark."""

import shutil
from contextlib import contextmanager

import pytest

from bitcycle.lab.report.labels import tip_lines
from tests.lab.report.test_report import hostile_study, page
from tests.lab.studies.examples import make_analysis, make_records, make_study

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


@pytest.fixture(scope="module")
def study():
    image = make_records(measured=True)
    language = make_records(task="language", metric="perplexity", diverged=("RR:3-8:cycles=8",))
    return (
        make_study(done=78, planned=78),
        [make_analysis(image), make_analysis(language, "Reference")],
        image + language,
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


def key_of(analysis, label):
    return next(i for i, setting in enumerate(analysis.settings) if setting.label == label)


def point(tab, analysis, label, task=1):
    return tab.locator(f"#task-{task} .cost-plot:visible .point[data-setting='{key_of(analysis, label)}']")


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
    assert tab.locator(".cost-plot:visible").count() == 2
    for plot in tab.locator("svg.plot:visible").all():
        box = plot.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 50
        assert box["x"] + box["width"] <= viewport["width"]
    assert tab.locator("#task-1 .cost-plot:visible .point").count() == 13
    assert tab.locator("#task-2 .cost-plot:visible .point").count() == 12  # one diverged
    assert tab.locator("#task-1 .course").count() == 13 * 3  # validation and two measurements
    assert tab.locator("#task-1 tbody tr[data-setting]").count() == 13


def test_the_first_screen_has_title_and_findings(open_page):
    tab = open_page()
    for selector in ("h1", ".lead >> nth=0", ".claims >> nth=0", ".claims >> nth=1"):
        box = tab.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] < DESKTOP["height"]


def test_hovering_shows_the_figures(open_page, study):
    analysis = study[1][0]
    tab = open_page()
    tooltip = tab.locator("#tooltip")
    assert tooltip.is_hidden()
    for label in ("CR", "static 8", "full"):
        point(tab, analysis, label).locator(".mark, .label").first.hover()
        assert tooltip.is_visible()
        setting = analysis.settings[key_of(analysis, label)]
        assert tooltip.inner_text().splitlines() == tip_lines(analysis, setting)
        assert f"{setting.quality.mean:.4f}" in tooltip.inner_text()
    tab.locator("h1").hover()
    assert tooltip.is_hidden()


def test_the_tooltip_stays_inside(open_page, study):
    tab = open_page(PHONE)
    point(tab, study[1][0], "static 8").locator(".mark").hover()
    box = tab.locator("#tooltip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


def test_hovering_a_line_names_it(open_page):
    tab = open_page()
    line = tab.locator("#task-1 .course").first
    line.scroll_into_view_if_needed()
    x, y = line.locator(".stroke").evaluate(
        "e => { const p = e.getPointAtLength(e.getTotalLength() * 0.9).matrixTransform(e.getScreenCTM());"
        " return [p.x, p.y]; }"
    )
    tab.mouse.move(x, y)
    assert "at step 4,000" in tab.locator("#tooltip").inner_text()


def test_a_click_selects_in_all_plots_of_the_task(open_page, study):
    analysis = study[1][0]
    tab = open_page()
    point(tab, analysis, "CR").locator(".mark").click()
    settled(tab)
    key = key_of(analysis, "CR")
    other = key_of(analysis, "RR")
    for part in (".cost-plot:visible .point", ".course", ".panel", ".chip", "tbody tr"):
        assert opacity(tab.locator(f"#task-1 {part}[data-setting='{key}']").first) == 1, part
        assert opacity(tab.locator(f"#task-1 {part}[data-setting='{other}']").first) < 0.6, part
    assert opacity(tab.locator(f"#task-2 .chip[data-setting='{other}']")) == 1  # the other task is left alone
    assert tab.locator("#selected").inner_text().startswith("CR")
    point(tab, analysis, "CR").locator(".mark").click()  # again: nothing is selected
    settled(tab)
    assert opacity(tab.locator(f"#task-1 .chip[data-setting='{other}']")) == 1


@pytest.mark.parametrize("part", [".chip", "tbody .pick", ".panel", ".course .hit >> nth=0"])
def test_selecting_from_everywhere(open_page, part):
    tab = open_page()
    item = tab.locator(f"#task-1 {part}").first
    item.scroll_into_view_if_needed()
    item.dispatch_event("click")
    assert tab.locator("#task-1.selecting").count() == 1
    assert tab.locator("#bar").is_visible()
    tab.locator("#clear").click()
    assert tab.locator(".selecting").count() == 0
    assert tab.locator("#bar").is_hidden()


def test_keyboard(open_page, study):
    analysis = study[1][0]
    tab = open_page()
    mine = point(tab, analysis, "RTV")
    mine.focus()
    tab.keyboard.press("Tab")  # a press of a key makes the focus visible
    tab.keyboard.press("Shift+Tab")
    assert tab.locator("#tooltip").inner_text().startswith("RTV")
    for key in ("Enter", " "):
        tab.keyboard.press(key)
        assert mine.get_attribute("aria-pressed") == "true"
        tab.keyboard.press("Escape")
        assert mine.get_attribute("aria-pressed") == "false"
        assert tab.locator(".selecting").count() == 0
        assert tab.locator("#tooltip").is_hidden()
    tab.locator("#task-1 .chip").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#task-1 .chip").first.get_attribute("aria-pressed") == "true"


def test_a_tap_selects(open_page, study):
    tab = open_page(PHONE, has_touch=True, is_mobile=True)
    point(tab, study[1][0], "CT").locator(".mark").tap()
    assert tab.locator("#selected").inner_text().startswith("CT")


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
    for selector in (".tick", ".label", ".head", ".title"):
        colour = tab.locator(f".plot {selector}").first.evaluate("e => getComputedStyle(e).fill")
        assert contrast(colour, ground) >= 4.5, selector
    for kind in ("large", "medium", "small", "static", "full"):
        colour = tab.locator(f".kind-{kind} .mark").first.evaluate("e => getComputedStyle(e).stroke")
        assert contrast(colour, ground) >= 3, kind


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_labels_of_the_cost_plot_do_not_cover_each_other(open_page, viewport):
    tab = open_page(viewport)
    for plot in tab.locator(".cost-plot:visible").all():
        boxes = [label.bounding_box() for label in plot.locator(".point .label").all()]
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
                high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
                assert wide <= 1 or high <= 0.3 * a["height"]  # a line of text is taller than its letters


def test_without_the_script_everything_is_there(open_page):
    tab = open_page(java_script_enabled=False)
    assert tab.locator("#tooltip").is_hidden()
    assert tab.locator(".cost-plot:visible").count() == 2
    assert tab.locator("table.sortable thead button").count() == 0
    assert tab.locator(".panel:visible").count() > 20


def test_hostile_names_run_nothing(open_page, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(page(*hostile_study()), encoding="utf-8", errors="replace")
    for viewport in (DESKTOP, PHONE):
        tab = open_page(viewport, where=path.as_uri())
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        tab.locator(".chip").first.click()
        assert "<script>" in tab.locator("#selected").inner_text()


def test_motion_can_be_reduced(open_page):
    tab = open_page(reduced_motion="reduce")
    duration = tab.locator(".chip").first.evaluate("e => getComputedStyle(e).transitionDuration")
    assert duration == "0s"
