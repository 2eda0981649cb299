"""A real Chromium for the tests of pages: the one that is installed, or playwright's, with no network.

`tests/conftest.py` makes the fixture `page` known to every test. A page is opened as a user opens it:
`page.goto(path.as_uri())`.
"""

import json
import os
import shutil
from collections.abc import Iterator

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_MS = 120_000  # on a busy machine
# Wide and narrow ones; "monospace" alone would also make the text smaller.
FAMILIES = (
  "sans-serif",
  "monospace, monospace",
  "DejaVu Sans Condensed, Liberation Sans Narrow, Arial Narrow, serif",
)
"""Fonts as CSS names them, of those that any machine has."""


@pytest.fixture(scope="module")
def chromium() -> Iterator:
  """A playwright `Browser`, one for the tests of a file; skips where Chromium or playwright is missing.

  Not one for the session: while playwright runs, its event loop runs, and code under test that calls
  `asyncio.run` (checkpoints do) would fail in the same thread.
  """
  sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
  executable = next(filter(None, map(shutil.which, _NAMES)), None)
  sync_api.expect.set_options(timeout=_TIMEOUT_MS)
  with sync_api.sync_playwright() as playwright:
    if executable is None and not os.path.exists(playwright.chromium.executable_path):
      pytest.skip(f"none of {', '.join(_NAMES)} is on the PATH, and playwright has none of its own")
    # The sandbox does not start for root, whom containers run tests as.
    browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
    yield browser
    browser.close()


def set_font(page, family: str) -> None:
  """Shows all text of a page in a font, which its policy would forbid in a `<style>`."""
  page.evaluate(
    """(family) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(`* { font-family: ${family} !important; }`);
      document.adoptedStyleSheets = [sheet];
    }""",
    family,
  )


def reload(page) -> None:
  """Loads a page anew, which then finds in its storage what it stored.

  A busy Chromium may load it in another process before the first process has handed over what was stored.
  """
  stored = json.dumps(page.evaluate("() => ({...localStorage})"))
  session = page.context.new_cdp_session(page)
  source = f"for (const [key, value] of Object.entries({stored})) localStorage.setItem(key, value);"
  script = session.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})
  page.reload()
  session.send("Page.removeScriptToEvaluateOnNewDocument", script)
  session.detach()


@pytest.fixture
def page(chromium) -> Iterator:
  """A playwright `Page` with a profile of its own, off line; the test fails on any error in its console.

  A test that expects an error takes it out of `page.errors`, a list of texts. A test waits by playwright's `expect`:
  `page.wait_for_function` evaluates text within the page, which the pages' policy forbids from its second try on.
  """
  context = chromium.new_context(offline=True, accept_downloads=True)
  context.set_default_timeout(_TIMEOUT_MS)
  page = context.new_page()
  page.errors = []
  page.on("pageerror", lambda error: page.errors.append(str(error)))
  page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
  yield page
  context.close()
  assert not page.errors, page.errors
