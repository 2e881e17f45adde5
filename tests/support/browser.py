"""A headless browser: tests read in the DOM what it has drawn."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, sync_playwright

from tests.support.waiting import LONG

COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Commands `.ci/browser.sh` looks for; it installs the first."""


def command() -> str | None:
    """Return the path of this machine's browser, or None."""
    return next(filter(None, map(shutil.which, COMMANDS)), None)


def unavailable() -> str | None:
    """Say why no browser can run here, or return None."""
    return None if command() else "a page needs Chromium: run `sh .ci/browser.sh`"


@contextmanager
def opened() -> Iterator[Page]:
    """Yield an empty page; the browser ends with the block."""
    # Without WebGL, charts are drawn as SVG, whose lines can be read; and a small /dev/shm is not a crash.
    switches = ["--disable-3d-apis", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=command(), headless=True, args=switches)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(1000 * LONG)
            yield page
        finally:
            browser.close()
