"""The report in a real browser: it loads without a network, shows data everywhere, and can be used by keyboard."""

from contextlib import contextmanager

import pytest
from benchmarks.synthetic import write_run

from browsing import launched
from cvflows.cli import main

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
LOCAL = ("file:", "blob:", "data:")
TASKS, METHODS = ("R+D", "Ball1D", "H+M"), ("SAC+CVFlow", "DPre+", "SPre+")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    for task in TASKS:
        for method in METHODS:
            for seed in range(2):
                write_run(out / "runs" / task / method / str(seed), task, method, seed, steps=20_000, episodes=60)
    assert main(["report", str(out / "runs"), "-o", str(out / "page.html"), "--no-maps"]) == 0
    return out / "page.html"


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@contextmanager
def opened(chromium, report, **options):
    context = chromium.new_context(offline=True, **options)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(LOCAL) or said.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
    yield page
    assert said == []
    context.close()


def drawn(page):
    """For every plot, how many of its lines or points can be seen."""
    return page.evaluate(
        "[...document.querySelectorAll('.plot')].map(plot => "
        "[...plot.querySelectorAll('.scatterlayer .trace')].filter(t => t.querySelector('.js-line, .point')).length)"
    )


def test_every_figure_shows_data_offline(chromium, report):
    with opened(chromium, report, viewport={"width": 1280, "height": 900}) as page:
        counts = drawn(page)
        assert len(counts) == 2 + 2 * len(TASKS)
        assert counts[:2] == [len(METHODS), len(METHODS) - 1]
        assert all(count >= len(METHODS) for count in counts[2:])
        page.locator("#return-0").scroll_into_view_if_needed()
        box = page.locator("#return-0 .nsewdrag").bounding_box()
        for share in (0.4, 0.5, 0.6):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            page.wait_for_timeout(100)
        assert "SAC+CVFlow (2)" in page.locator("#return-0 .hoverlayer").text_content()


def test_methods_are_toggled_by_keyboard(chromium, report):
    with opened(chromium, report) as page:
        before = drawn(page)
        button = page.get_by_role("button", name="DPre+")
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == "false"
        page.wait_for_timeout(200)
        assert all(now < then for now, then in zip(drawn(page), before, strict=True))
        assert page.locator("td[data-method='DPre+']:visible").count() == 0
        assert page.locator("td[data-method='SPre+']:visible").count() > 0
        page.keyboard.press("Space")
        page.wait_for_timeout(200)
        assert drawn(page) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(chromium, report, scheme):
    with opened(chromium, report, color_scheme=scheme) as page:
        ink, ground = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        tick = page.evaluate("getComputedStyle(document.querySelector('.xtick text')).fill")
        light = [sum(map(int, colour[4:-1].split(",")[:3])) / 765 for colour in (ink, ground, tick)]
        assert (light[0] < 0.3 < 0.9 < light[1]) if scheme == "light" else (light[0] > 0.7 > 0.2 > light[1])
        assert abs(light[2] - light[1]) > 0.5


def test_it_fits_a_phone(chromium, report):
    with opened(chromium, report, viewport={"width": 390, "height": 844}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        widths = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p.getBoundingClientRect().width)")
        assert all(250 < width <= 390 for width in widths)
