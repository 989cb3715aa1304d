#!/usr/bin/env python3
"""view_browsers.py - all that tests/e2e/cli/view_browser.py asks in Chromium, in Firefox and in WebKitGTK (Safari's engine).  Frame times are
printed, not judged.
"""
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e/cli"))
import view_browser  # noqa: E402  its folder comes first
from other_browsers import ALL, WebKit


def lacks(browser):
    if not browser.find():
        return f"no {browser.NAME} (Debian: apt-get install {browser.PACKAGE})"
    if browser is WebKit and not browser.has_display():
        return f"no display for {browser.NAME} (Debian: apt-get install xvfb)"
    return None


def main():
    looked = 0
    for browser in ALL:
        why = lacks(browser)
        if why:
            print(f"skipped: {why}")
            continue
        work = pathlib.Path(tempfile.mkdtemp(prefix="vramscope-view."))
        try:
            view_browser.look(work, browser)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        looked += 1
        print(f"{browser.NAME}: the page says what the report says")
    return 0 if looked else 77


if __name__ == "__main__":
    sys.exit(main())
