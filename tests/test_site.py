"""The documentation as a site, in a real browser: nothing leaves the page, search works, phones and dark mode too."""

import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from browsing import launched

ROOT = Path(__file__).parent.parent
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
CONTRAST = """button => {
    const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
        .map(value => value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0.05);
    const seen = element => getComputedStyle(element).backgroundColor;
    let below = button;
    while (/, 0\\)$/.test(seen(below))) below = below.parentElement;
    const pair = [light(getComputedStyle(button).color), light(seen(below))];
    return Math.max(...pair) / Math.min(...pair);
}"""
"""How well the words of an element stand out from what is behind them."""
pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]


class Silent(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, and its address on a server."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@contextmanager
def opened(chromium, home, **options):
    """A tab at whose end nothing but the site was asked for, and nobody has complained."""
    context, said = chromium.new_context(**options), []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith((home, "data:", "blob:")) or said.append(request.url))
    yield page
    assert said == []
    context.close()


def pages(folder):
    """Every page of the site; the example report is a page of its own."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.html") if "example-report" not in p.parts)


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk, light", "phone, dark"])
def test_every_page_loads_alone_and_fits(chromium, site, size, scheme):
    folder, home = site
    names = pages(folder)
    assert len(names) > 50
    with opened(chromium, home, viewport=size, color_scheme=scheme) as page:
        for name in names:
            answer = page.goto(f"{home}/{name}")
            assert answer.ok, name
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], name
            shown = page.evaluate("document.body.getAttribute('data-md-color-scheme')")
            assert shown == {"light": "default", "dark": "slate"}[scheme]
            broken = (
                "[...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)"
            )
            assert page.evaluate(broken) == [], name


@pytest.mark.parametrize("place", ["server", "file"])
def test_search_finds_pages_without_a_network(chromium, site, place):
    folder, home = site
    home = home if place == "server" else folder.as_uri()
    with opened(chromium, home, viewport=DESK) as page:
        page.goto(f"{home}/index.html")
        page.keyboard.press("/")
        page.keyboard.type("simplex sum to one", delay=20)
        page.wait_for_selector(".md-search-result__item", timeout=20_000)
        found = page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
        assert any("guides/shares.html" in link for link in found)
        page.locator(".md-search-result__link").first.click()
        page.wait_for_selector("article h1")


def test_links_lead_somewhere(chromium, site):
    folder, home = site
    links = "[...document.querySelectorAll('a[href]')].map(link => link.href)"
    with opened(chromium, home, viewport=DESK) as page:
        for name in (
            "index.html",
            "guides/compare.html",
            "guides/many-machines.html",
            "choose.html",
            "extend/index.html",
        ):
            page.goto(f"{home}/{name}")
            for link in page.evaluate(links):
                if link.startswith(home):
                    path = link.removeprefix(f"{home}/").split("#")[0] or "index.html"
                    assert (folder / path).exists(), f"{link} on {name}"


def test_the_dark_is_chosen_by_a_button_and_remembered(chromium, site):
    home = site[1]
    with opened(chromium, home, viewport=DESK, color_scheme="light") as page:
        page.goto(f"{home}/index.html")
        page.locator("label[title='Dark mode']").click()
        for button in page.locator(".md-button").all():
            assert button.evaluate(CONTRAST) >= 4.5  # as the guidelines for accessible pages ask
        page.goto(f"{home}/faq.html")
        assert page.evaluate("document.body.getAttribute('data-md-color-scheme')") == "slate"


def test_the_reference_has_signatures_with_types_and_shapes(chromium, site):
    home = site[1]
    with opened(chromium, home, viewport=DESK) as page:
        page.goto(f"{home}/reference/constraints.html")
        text = page.locator("article").inner_text()
        for part in ("Float[Array, '*batch']", "argmin", "on_empty", "executed_violation"):
            assert part in text, part
