"""The page in a real browser: ``python -m tests.browser.check``, or ``make page``.

Needs Chromium and the extra dev-page. Without them nothing is checked, and that is said. Pictures of the steps are left
in a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

from tests.server_process import ROOT, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.visit import Visit

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print("page: skipped: no Chromium is installed")
        return 0
    if find_spec("playwright") is None:
        print("page: skipped: Playwright is not installed: pip install 'limpet[dev-page]'")
        return 0
    from playwright.sync_api import sync_playwright

    pictures = Path(mkdtemp(prefix="limpet-page-"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        good = visited_openly(browser, pictures) and visited_with_a_key(browser, pictures)
        browser.close()
    print(f"pictures are in {pictures}")
    return 0 if good else 1


def visited_openly(browser: Browser, pictures: Path) -> bool:
    from tests.browser.visit import WIDE, Open

    with TemporaryDirectory() as folder, served(Path(folder)) as url, browser.new_page(viewport=WIDE) as page:
        return is_good(Open(page, url, pictures))


def visited_with_a_key(browser: Browser, pictures: Path) -> bool:
    from tests.browser.visit import WIDE, Keyed

    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "limpet", "api-keys", "create", "page", "--admin", "--json", "--data", folder]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        made = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
        secret = json.loads(made.stdout)["secret"]
        with served(Path(folder)) as url, browser.new_page(viewport=WIDE) as page:
            return is_good(Keyed(page, url, pictures, secret))


def is_good(visit: Visit) -> bool:
    """The first step that fails is the last: those after it would stand on nothing."""
    from playwright.sync_api import Error

    for name, step in visit.steps():
        try:
            step()
        except (AssertionError, Error) as failed:
            visit.picture("failed")
            print(f"FAILED {name}: {failed}")
            return False
        print(f"ok     {name}")
    return True


if __name__ == "__main__":
    sys.exit(main())
