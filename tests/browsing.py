"""Chromium for the tests of pages."""

import shutil
from contextlib import contextmanager

QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")


@contextmanager
def launched():
    """Debian's Chromium, or another one that is on the path."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path is not None, "no Chromium on the path: `make test-browser` installs Debian's"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()
