"""Run Debian's Chromium without a screen, for tests and for screenshots."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.command import Command
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM = Path("/usr/bin/chromium")
DRIVER = Path("/usr/bin/chromedriver")
MISSING = "needs Debian's browser: apt-get install chromium chromium-driver"

_PATIENCE_S = 60
_DRAWN = "return document.body.dataset.shown || ''"
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--lang=en-US",
)  # fmt: skip


class BrowserMissingError(Exception):
    """Raised if Chromium or its driver is missing, with the packages to install."""


@dataclass(frozen=True)
class Browser:
    """One browser window."""

    driver: webdriver.Chrome

    def open(self, page: Path, width: int = 1400, *, dark: bool = False) -> None:
        """Open a page from disk and wait until its charts are drawn."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", features=[scheme])
        self.console()  # discards the messages of earlier pages
        self.driver.get(page.as_uri())
        self.wait()

    def wait(self) -> None:
        """Wait until the elements named in `expected` are visible."""
        WebDriverWait(self.driver, _PATIENCE_S).until(lambda driver: driver.execute_script(_DRAWN))

    def choose(self, **values: str) -> None:
        """Set filters, and wait until the page shows the filtered rows."""
        for name, value in values.items():
            self.run("document.body.dataset.shown = ''; const e = document.getElementById(arguments[0]); "
                     "e.value = arguments[1]; e.dispatchEvent(new Event('change'))", name, value)  # fmt: skip
            self.wait()

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401  # whatever the script returns
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script, *arguments)

    def text(self, element_id: str) -> str:
        """Return the text of an element."""
        found: str = self.run("return document.getElementById(arguments[0]).textContent", element_id)
        return found

    def console(self) -> list[str]:
        """Return all console messages since the last call."""
        answer = self.driver.execute(Command.GET_LOG, {"type": "browser"})
        return [entry["message"] for entry in answer["value"]]

    def picture(self, file: Path, width: int, height: int, top: int = 0) -> None:
        """Save a part of the page as a WebP picture."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        form = {"format": "webp", "quality": 75}
        taken = self._command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip, **form)
        file.write_bytes(base64.b64decode(taken["data"]))

    def _command(self, name: str, **arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(name, arguments)
        return answer


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Start Chromium for the duration of a block; raises BrowserMissingError if it is missing."""
    if not (CHROMIUM.exists() and DRIVER.exists()):
        raise BrowserMissingError(MISSING)
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
