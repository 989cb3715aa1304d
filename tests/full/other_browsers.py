"""other_browsers.py - Firefox and WebKitGTK, driven as tests/e2e/lib/browser.py drives Chromium: by WebDriver's commands over Firefox's Marionette
socket, and by WebKitWebDriver, which wants a display (Xvfb where there is none).
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e/lib"))
from browser import Asked  # noqa: E402  its folder comes first

KEYS = {"Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Enter": "\ue007"}
START_S = 120  # a browser's start on a machine that does much else


class Page(Asked):
    """One window; what it says it asks BROWSER's ask(), with WebDriver's commands."""

    def __init__(self, browser):
        self.browser = browser

    def js(self, code):
        """The value of CODE, which may be a promise; none of several statements.  The page's policy forbids eval()."""
        script = ("const done = arguments[arguments.length - 1]; (async () => {})().then((v) => done({value: v === undefined ? null : v}),"
                  " (e) => done({thrown: String(e)}));")
        try:
            answer = self.browser.script(script.replace("{}", f"({code})", 1))
        except AssertionError as e:
            if "javascript error" not in str(e):  # it is several statements
                raise
            answer = self.browser.script(script.replace("{}", f"{{ {code}; }}", 1))
        if "thrown" in answer:
            raise AssertionError(f"{code}: {answer['thrown']}")
        return answer["value"]

    def click(self, x, y):
        move = {"type": "pointerMove", "duration": 0, "x": int(x), "y": int(y), "origin": "viewport"}
        self.browser.actions([{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                               "actions": [move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}])

    def key(self, key):
        key = KEYS.get(key, key)
        self.browser.actions([{"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}])

    def picture(self, path):
        """For looking at; of WebKitGTK not before the page has changed, as none comes until then."""
        pathlib.Path(path).write_bytes(base64.b64decode(self.browser.picture()))


class Process:
    """A browser with a home of its own, which ends with the block."""

    def start(self, command, **environment):
        base = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "WAYLAND_DISPLAY")}
        self.process = subprocess.Popen(command, env={**base, "HOME": self.home, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def until(self, what, ready):
        """The value of READY() as soon as it has one."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            value = ready()
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"{what} does not start: exit status {self.process.poll()}")

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Firefox(Process):
    NAME, PACKAGE = "Firefox", "firefox-esr"

    @staticmethod
    def find():
        return shutil.which("firefox-esr") or shutil.which("firefox")

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="vramscope-firefox.")
        profile = pathlib.Path(self.home, "profile")
        profile.mkdir()
        (profile / "user.js").write_text('user_pref("marionette.port", 0); user_pref("ui.systemUsesDarkTheme", 0);\n'
                                         'user_pref("app.update.disabledForTesting", true); user_pref("datareporting.policy.dataSubmissionEnabled", false);\n')
        self.start([self.find(), "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", str(profile)], MOZ_HEADLESS_WIDTH="1280", MOZ_HEADLESS_HEIGHT="900")
        port = profile / "MarionetteActivePort"
        number = int(self.until(self.NAME, lambda: port.exists() and port.read_text()))
        self.socket = self.until(self.NAME, lambda: self.connected(number))
        self.socket.settimeout(120)
        self.rest, self.number = b"", 0
        self.read()  # what it is
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"timeouts": {"script": 120000, "pageLoad": 120000}}})
        return self

    def __exit__(self, *unused):
        try:
            self.ask("Marionette:Quit", flags=["eForceQuit"])
        except (AssertionError, OSError):
            pass
        self.socket.close()
        self.end(self.process)
        shutil.rmtree(self.home, ignore_errors=True)

    @staticmethod
    def connected(port):
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            return None

    def read(self):
        """A message: its length, a colon, JSON."""
        def more():
            data = self.socket.recv(1 << 20)
            assert data, "the browser is gone"
            self.rest += data

        while b":" not in self.rest:
            more()
        length, self.rest = self.rest.split(b":", 1)
        while len(self.rest) < int(length):
            more()
        message, self.rest = self.rest[:int(length)], self.rest[int(length):]
        return json.loads(message)

    def ask(self, command, **params):
        self.number += 1
        data = json.dumps([0, self.number, command, params]).encode()
        self.socket.sendall(str(len(data)).encode() + b":" + data)
        _, number, error, result = self.read()
        assert number == self.number
        if error:
            raise AssertionError(f"{command}: {error['error']}: {error['message']}")
        return result

    def script(self, code):
        return self.ask("WebDriver:ExecuteAsyncScript", script=code, args=[])["value"]

    def actions(self, actions):
        self.ask("WebDriver:PerformActions", actions=actions)

    def picture(self):
        return self.ask("WebDriver:TakeScreenshot", full=False)["value"]

    def chrome(self, code):
        """CODE with the browser's own rights."""
        self.ask("Marionette:SetContext", value="chrome")
        try:
            return self.ask("WebDriver:ExecuteScript", script=code, args=[])["value"]
        finally:
            self.ask("Marionette:SetContext", value="content")

    def complaints(self):
        """What the page's script threw."""
        return self.chrome("return Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError && m.sourceName.startsWith('file:'))"
                           ".map((m) => m.errorMessage);")

    def open(self, path, width=1280, height=800, dark=False):
        self.chrome(f"Services.prefs.setIntPref('ui.systemUsesDarkTheme', {int(dark)});")
        self.ask("WebDriver:SetWindowRect", width=width, height=height + 85)
        self.ask("WebDriver:Navigate", url=pathlib.Path(path).resolve().as_uri())
        return Page(self)


class WebKit(Process):
    NAME, PACKAGE = "WebKitGTK", "webkit2gtk-driver"

    @staticmethod
    def find():
        return shutil.which("WebKitWebDriver")

    @staticmethod
    def has_display():
        return os.environ.get("DISPLAY") or shutil.which("Xvfb")

    def __enter__(self):
        self.home, self.display, name = tempfile.mkdtemp(prefix="vramscope-webkit."), None, os.environ.get("DISPLAY")
        if not name:
            name = self.open_display()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start([self.find(), f"--port={self.port}"], DISPLAY=name, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS="1", LIBGL_ALWAYS_SOFTWARE="1",
                   WEBKIT_DISABLE_DMABUF_RENDERER="1")
        self.until(self.NAME, self.ready)
        session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {"timeouts": {"script": 120000, "pageLoad": 120000}}}})
        self.session = "/session/" + session["sessionId"]
        return self

    def open_display(self):
        """An Xvfb that takes the first number that is free, and says which."""
        into, out = os.pipe()
        self.display = subprocess.Popen(["Xvfb", "-displayfd", str(out), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"], pass_fds=(out,),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(out)
        with os.fdopen(into) as number:
            return ":" + number.readline().strip()

    def __exit__(self, *unused):
        try:
            self.ask("DELETE", self.session)
        except (AssertionError, OSError):
            pass
        self.end(self.process)
        if self.display:
            self.end(self.display)
        shutil.rmtree(self.home, ignore_errors=True)

    def ready(self):
        try:
            return self.ask("GET", "/status")["ready"]
        except (AssertionError, OSError):
            return None

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=150) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{method} {path}: {e.read().decode()[:500]}") from None

    def script(self, code):
        return self.ask("POST", self.session + "/execute/async", {"script": code, "args": []})

    def actions(self, actions):
        self.ask("POST", self.session + "/actions", {"actions": actions})

    def picture(self):
        return self.ask("GET", self.session + "/screenshot")

    @staticmethod
    def complaints():
        return []  # nothing tells; a page whose script has thrown is never ready, or does not do what a key asks

    def open(self, path, width=1280, height=800, dark=False):
        """DARK is not to be had."""
        self.ask("POST", self.session + "/url", {"url": pathlib.Path(path).resolve().as_uri()})
        self.ask("POST", self.session + "/window/rect", {"width": width, "height": height + 38})
        page = Page(self)
        page.wait(f"innerWidth === {width}")
        return page


ALL = (Firefox, WebKit)
