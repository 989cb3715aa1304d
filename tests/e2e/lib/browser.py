"""browser.py - a headless Chromium, asked over its DevTools pipe: no port, no network, no package.

    with Browser() as b:
        page = b.open("/path/to/page.html", 1280, 800)
        page.js("document.title"); page.click(400, 300); page.key("p")
"""
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The path of a Chromium, or None."""
    return next((shutil.which(name) for name in NAMES if shutil.which(name)), None)


class Asked:
    """A page of any browser, by what its js() answers."""

    def wait(self, code, seconds=60):
        """Until CODE is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.js(f"((v) => (v instanceof Node ? true : v))({code})")
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"after {seconds} s still not: {code}; the page says: {self.js('document.body.innerText')[:300]}")


class Page(Asked):
    def __init__(self, browser, session):
        self.browser, self.session, self.said = browser, session, []

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def js(self, code):
        """The value of CODE, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{code}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1, buttons=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)


class Browser:
    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="vramscope-browser.")
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()

        def pipes():  # DevTools reads descriptor 3 and writes 4
            a, b = os.dup(commands), os.dup(answers)
            os.dup2(a, 3)
            os.dup2(b, 4)

        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "DISPLAY", "WAYLAND_DISPLAY")}
        environment["HOME"] = self.home
        self.process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad", "--mute-audio",
             f"--user-data-dir={self.home}", "about:blank"],
            preexec_fn=pipes, pass_fds=(3, 4), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.number, self.rest, self.said = 0, b"", []
        return self

    def __exit__(self, *unused):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.home, ignore_errors=True)

    def read(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self.into, 1 << 20)
            if not data:
                raise AssertionError("the browser is gone")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        while True:
            answer = self.read(120)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.said.append(answer)

    def processor_ns(self):
        """Processor time of all of the browser's processes so far: what a frame takes whatever else the machine does."""
        parents = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):  # it ended meanwhile
                continue
        ours = {self.process.pid}
        while True:
            more = {pid for pid, parent in parents.items() if parent in ours} - ours
            if not more:
                break
            ours |= more
        total = 0
        for pid in ours:
            for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                try:
                    total += int(path.read_text().split()[0])
                except (OSError, IndexError):
                    continue
        return total

    def complaints(self):
        """What the page's script threw, or the console has as an error; with what the page tried to fetch."""
        found = []
        for event in self.said:
            p = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
            elif event.get("method") == "Log.entryAdded" and p["entry"]["level"] == "error":
                found.append(p["entry"]["text"])
            elif event.get("method") == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:", "blob:")):
                found.append("fetched " + p["request"]["url"])
        return found

    def open(self, path, width=1280, height=800, dark=False, anchor=""):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.size(width, height, dark)
        page.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + anchor)
        page.wait("!!document.documentElement")
        return page


def shown(look, said):
    """Exit status of a test that looks at pages in a folder of its own."""
    if not find():
        print("skipped: there is no Chromium here (Debian: apt-get install chromium)")
        return 77
    with tempfile.TemporaryDirectory(prefix="vramscope-view.", ignore_cleanup_errors=True) as work:
        look(pathlib.Path(work))
    print(said)
    return 0
