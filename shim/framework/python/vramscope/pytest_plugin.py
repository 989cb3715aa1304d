"""pytest_plugin - GPU memory limits for tests: pytest --vramscope.

    @pytest.mark.vram_limit("2 GiB")
    def test_step(model):
        ...

fails the test where its function adds more than 2 GiB to what is allocated on a device, at its peak: what fixtures had
allocated before counts for nothing.  `total=True` takes all that is allocated on the device meanwhile, `device=1` one
device alone.  Where nobody can tell, because events were lost for instance, the test fails and says so.  Without
--vramscope the mark does nothing.  What a test's child processes allocate is not seen.

The library has to be there from the start of the process: where it is not, pytest is executed again with it, once, before
a test or a conftest.py has run.  Workers of pytest-xdist inherit it.

Each test function runs in a range, "test", with a mark of its name before the end.  The figures are read from the process's
own recording, by a child process (_pytest_reader.py): a database must not be opened twice in one process, since to close it
would drop the locks of both.
"""

import ctypes
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

RANGE = "test"
_PID = "PYTEST_VRAMSCOPE_PID"  # the process that has executed itself again
_OUTPUT = "PYTEST_VRAMSCOPE_OUTPUT"  # where the recordings lie
_WAIT = 20  # seconds for a test's last event to be in its file; as a rule it takes a tenth


def pytest_addoption(parser):
    group = parser.getgroup("vramscope", "GPU memory, by vramscope")
    group.addoption("--vramscope", action="store_true", help="record GPU memory and hold tests against their vram_limit")
    group.addoption("--vramscope-output", metavar="DIR", help="keep the recordings in DIR, pytest-PID.db")
    group.addoption("--vramscope-top", metavar="N", type=int, default=5, help="tests shown that added the most (default 5)")


# ---- the library ----


def _is_loaded():
    try:
        return hasattr(ctypes.PyDLL(None), "vramscope_range_push")
    except OSError:
        return False


def _find_library():
    """libvramscope.so of the tree that this package is a part of, or of the command `vramscope`."""
    here = os.path.dirname(os.path.abspath(__file__))
    roots = [os.path.join(here, "../../../..")]
    command = shutil.which("vramscope")
    if command:
        roots.append(os.path.join(os.path.dirname(os.path.realpath(command)), ".."))
    for root in roots:
        library = os.path.normpath(os.path.join(root, "lib/libvramscope.so"))
        if os.access(library, os.R_OK):
            return library
    return None


def _without_blanks(library, directory):
    """LD_PRELOAD splits at blanks and colons: a link has none."""
    if not re.search(r"[\s:]", library):
        return library
    link = os.path.join(directory, "libvramscope.so")
    if not os.path.islink(link):
        os.symlink(library, link)
    return link


def _is_program():
    """Whether this process is pytest's, and another exec would run the same tests again."""
    main = sys.modules.get("__main__")
    module = getattr(getattr(main, "__spec__", None), "name", "") or ""
    if module in ("pytest.__main__", "pytest"):
        return True
    return os.path.basename(sys.argv[0]) in ("pytest", "py.test")


def _command_line():
    """As the interpreter was called, with its own options."""
    words = getattr(sys, "orig_argv", None)  # Python 3.10
    if not words:
        with open("/proc/self/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    return [sys.executable] + list(words[1:])


def _execute_again(config, output):
    library = _find_library()
    if library is None:
        raise pytest.UsageError("--vramscope: libvramscope.so is not where this package and the command `vramscope` are")
    if os.environ.get(_PID) == str(os.getpid()):
        raise pytest.UsageError("--vramscope: executed again with LD_PRELOAD=%s, and it is not loaded: try `vramscope doctor`" % library)
    if not _is_program():
        raise pytest.UsageError("--vramscope: pytest is called by another program: run that under `vramscope run`")
    keep = output is not None
    directory = os.path.abspath(output) if keep else tempfile.mkdtemp(prefix="vramscope-pytest-")
    os.makedirs(directory, exist_ok=True)
    there = os.environ.get("LD_PRELOAD", "")
    environment = dict(os.environ)
    environment[_PID] = str(os.getpid())
    environment[_OUTPUT] = directory
    environment["LD_PRELOAD"] = _without_blanks(library, directory) + (":" + there if there else "")
    environment["VRAMSCOPE_OUTPUT"] = os.path.join(directory, "pytest-%p.db")
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:  # what it has taken of the descriptors would be lost with this image of the process
        capture.suspend_global_capture(in_=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, _command_line(), environment)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    known = early_config.known_args_namespace
    if not getattr(known, "vramscope", False) or _is_loaded():
        return
    # A worker of xdist talks over its descriptors; it has what the controller has.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _execute_again(early_config, known.vramscope_output)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        'vram_limit(bytes, total=False, device=None): the most that the test function may add to what is allocated on a GPU, such as "2 GiB" '
        "(total=True: the most that may be allocated meanwhile); under --vramscope",
    )
    if config.getoption("--vramscope"):
        config.pluginmanager.register(_Plugin(config), "vramscope-recording")


# ---- limits ----


def read_bytes(text):
    """Bytes of "2 GiB", "512MiB", "1.5G" (of 1024), "20GB" (of 1000), or of a number."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGTP])(i?B)?|B)?\s*", str(text), re.I)
    if not match:
        raise ValueError('vram_limit takes an amount such as "2 GiB", not %r' % (text,))
    number, letter, unit = match.groups()
    base = 1000 if unit and unit.lower() == "b" else 1024
    return round(float(number) * base ** ("KMGTP".index(letter.upper()) + 1 if letter else 0))


def show_bytes(number):
    value, unit = float(number), 0
    while value >= 1023.995 and unit < 5:
        value, unit = value / 1024, unit + 1
    return "%d B" % number if unit == 0 else "%.*f %s" % (1 if value >= 99.95 else 2, value, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[unit])


class _Limit:
    def __init__(self, mark):
        arguments = dict(mark.kwargs)
        if len(mark.args) != 1:
            raise ValueError('vram_limit takes one amount: vram_limit("2 GiB")')
        self.bytes = read_bytes(mark.args[0])
        self.total = bool(arguments.pop("total", False))
        self.device = arguments.pop("device", None)
        if arguments:
            raise ValueError("vram_limit knows total= and device=, not %s" % ", ".join(sorted(arguments)))

    def verdict(self, found):
        """None where the test kept it, else what is wrong."""
        worst, unknown = None, found.get("why")
        for row in found["devices"]:
            if self.device is not None and row["device"] != self.device:
                continue
            value = row["peak"] if self.total else row["added"]
            if value is None:
                unknown = unknown or "device %d: a library's pool does not report what it uses of its memory" % row["device"]
            elif value > self.bytes and (worst is None or value > worst[0]):
                worst = (value, row)
        if worst and not found["too_high"]:
            value, row = worst
            return "%s on device %d: %s, limit %s (it added %s to the %s allocated before)" % (
                "allocated at the test's peak" if self.total else "added by the test at its peak",
                row["device"],
                show_bytes(value),
                show_bytes(self.bytes),
                show_bytes(row["added"]),
                show_bytes(row["base"]),
            )
        return "cannot tell: %s" % unknown if unknown else None


# ---- the recording ----


class _Reader:
    """The child that reads this process's file."""

    def __init__(self):
        self._process = None

    def ask(self, **question):
        if self._process is None:
            environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pytest_reader.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, universal_newlines=True
            )
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            return {"devices": [], "too_high": False, "why": "the recording could not be read: %s" % error}

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()


def _records():
    """Whether anything is recorded in this process yet: its journal is mapped, or was."""
    with open("/proc/self/maps", "rb") as maps:
        return any(b".vsj" in line for line in maps)


_NOTHING = {"devices": [], "too_high": False, "why": None}


class _Plugin:
    def __init__(self, config):
        self.config = config
        self.pid = os.getpid()
        self.loaded = _is_loaded()
        self.library = ctypes.PyDLL(None) if self.loaded else None
        self.reader = _Reader()
        self.number = 0
        self.started = False
        self.names = []  # (mark's text, node id) of what has run in this process
        self.all = []  # (bytes added, node id, device), of all processes
        if self.loaded:
            self.library.vramscope_range_push.argtypes = [ctypes.c_char_p]
            self.library.vramscope_mark.argtypes = [ctypes.c_char_p]

    @property
    def database(self):
        pattern = os.environ.get("VRAMSCOPE_OUTPUT", "")
        return pattern.replace("%p", str(self.pid)) if "%p" in pattern else None

    # ---- one test ----

    def _run(self, item):
        """Around the test function, a generator of one step."""
        limit = item.get_closest_marker("vram_limit")
        item._vramscope = None
        if not self.loaded:
            yield
            if limit is not None:
                item._vramscope = "cannot tell: vramscope is not loaded in this process"
            return
        if limit is not None:
            limit = _Limit(limit)
            gc.collect()  # what earlier tests left would be freed in this one, and count for it
        self.number += 1
        name = "%s [%d]" % (item.nodeid, self.number)
        self.library.vramscope_range_push(RANGE.encode())
        try:
            yield
        finally:
            self.library.vramscope_mark(name.encode("utf-8", "replace").replace(b"\0", b"?"))
            self.library.vramscope_range_pop()
            self.names.append((name, item.nodeid))
            if limit is not None:
                item._vramscope = limit.verdict(self._find(name))

    def _find(self, name):
        if os.getpid() != self.pid:
            return dict(_NOTHING, why="the test ran in a process of its own (--forked)")
        self.started = self.started or _records()
        if not self.started:
            return _NOTHING  # no allocation of device memory, so far
        if self.database is None:
            return dict(_NOTHING, why="VRAMSCOPE_OUTPUT is not this plugin's: leave it to --vramscope-output")
        return self.reader.ask(database=self.database, name=name, range=RANGE, wait=_WAIT)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        around = self._run(pyfuncitem)
        next(around)
        yield
        next(around, None)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item):
        """Of unittest's tests, which are no function calls of pytest's, with their setUp."""
        if hasattr(item, "_testcase") or type(item).__name__ == "TestCaseFunction":
            around = self._run(item)
            next(around)
            yield
            next(around, None)
        else:
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        wrong = getattr(item, "_vramscope", None)
        if call.when == "call" and wrong and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "vram_limit: %s" % wrong

    # ---- the end ----

    def _figures(self):
        """What each test of this process added, the most first."""
        self.started = self.started or (self.loaded and _records())
        if not self.started or self.database is None or os.getpid() != self.pid:
            return []
        found = self.reader.ask(database=self.database, names=[name for name, _ in self.names], range=RANGE, wait=_WAIT)
        ids = dict(self.names)
        rows = [(row["added"], ids[name], row["device"]) for name, row in found.get("tests", []) if row["added"]]
        return sorted(rows, reverse=True)[: max(self.config.getoption("--vramscope-top"), 0)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        self.all += self._figures()
        self.reader.close()
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["vramscope"] = json.dumps(self.all)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        text = (getattr(node, "workeroutput", None) or {}).get("vramscope")
        self.all += [tuple(row) for row in json.loads(text)] if text else []

    def pytest_terminal_summary(self, terminalreporter):
        top = self.config.getoption("--vramscope-top")
        if self.all and top > 0:
            terminalreporter.write_sep("-", "GPU memory added by tests, at their peaks")
            for added, nodeid, device in sorted(self.all, reverse=True)[:top]:
                terminalreporter.write_line("%10s  device %d  %s" % (show_bytes(added), device, nodeid))
        if self.config.getoption("--vramscope-output"):
            terminalreporter.write_line("vramscope: recordings are in %s" % self.config.getoption("--vramscope-output"))

    def pytest_unconfigure(self):
        """The recordings go, unless they are wanted: the last writer of a file is the library, at this process's end."""
        directory = os.environ.get(_OUTPUT)
        mine = os.environ.get(_PID) == str(os.getpid())
        if directory and mine and not self.config.getoption("--vramscope-output"):
            import atexit

            atexit.register(_remove_later, directory)


def _remove_later(directory):
    """A child of no descriptor of ours removes DIRECTORY when this process has gone, and its recording is complete."""
    code = "import os, shutil, sys, time\nwhile os.path.exists('/proc/' + sys.argv[1]): time.sleep(0.05)\nshutil.rmtree(sys.argv[2], True)"
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(os.getpid()), directory],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )
