"""pytest_plugin - GPU memory limits for tests: pytest --vramscope (vramscope-check(1)).

    @pytest.mark.vram_limit("2 GiB")
    def test_step(model):
        ...

fails the test where its function adds more than 2 GiB to what is allocated on a device, at its peak; or where nobody can tell, because
events were lost for instance, or there is no GPU.  Without --vramscope the mark does nothing.

The library has to be there from the start of the process: where it is not, pytest is executed again with it, once, before a test or a
conftest.py has run.  Workers of pytest-xdist inherit it.

Each test function runs in a range, "pytest.test", with a mark of its number and name before the end.  The figures are read from the
process's own recording, by a child process (_pytest_reader.py): a database must not be opened twice in one process, since to close it would
drop the locks of both.
"""

import ctypes
import gc
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

RANGE = "pytest.test"  # a name that no program gives
KEY = "vramscope-test %d"
_PID = "PYTEST_VRAMSCOPE_PID"  # the process that has executed itself again
_OUTPUT = "PYTEST_VRAMSCOPE_OUTPUT"  # where the recordings lie
_WAIT = 20  # seconds for a test's last event to be in its file; as a rule it takes a tenth
_numbers = itertools.count(1)  # of the tests of this process, those that a test runs by pytest.main included


def pytest_addoption(parser):
    group = parser.getgroup("vramscope", "GPU memory, by vramscope")
    group.addoption("--vramscope", action="store_true", help="record GPU memory and hold tests against their vram_limit")
    group.addoption("--vramscope-dry", action="store_true", dest="vramscope_dry", help="with --vramscope: without a GPU, on the driver of vramscope fit")
    group.addoption("--vramscope-gpu", metavar="KEY", default="H200", help="with --vramscope-dry: which GPU, as vramscope fit has them (H200)")
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


def _stand_ins(library):
    """What `vramscope fit` puts in the place of NVIDIA's libraries: the driver first, then CUDA's runtime, which the others need."""
    root = os.path.dirname(os.path.dirname(library))
    found = {}
    for name in ("sim", "dry"):
        for place in (os.path.join(root, "lib/vramscope", name), os.path.join(root, name)):
            if os.path.isdir(place):
                found[name] = place
                break
        else:
            raise pytest.UsageError("--vramscope-dry: %s is not there; `vramscope doctor` says what this installation has" % os.path.join(root, "lib/vramscope", name))
    libraries = sorted(name for name in os.listdir(found["dry"]) if re.match(r"lib.*\.so\.\d+$", name))
    libraries.sort(key=lambda name: not name.startswith("libcudart"))
    return [os.path.join(found["sim"], "libcuda.so.1")] + [os.path.join(found["dry"], name) for name in libraries], [found["sim"], found["dry"]]


def _set_dry(environment, library, card):
    libraries, places = _stand_ins(library)
    environment["LD_PRELOAD"] = ":".join([environment["LD_PRELOAD"], *libraries])
    environment["LD_LIBRARY_PATH"] = ":".join(places + [part for part in [os.environ.get("LD_LIBRARY_PATH")] if part])
    environment.update(SIMCUDA_DRY="1", SIMCUDA_GPU=card, SIMCUDA_BANNER="0", VRAMSCOPE_DRY="1", VRAMSCOPE_DRY_STEPS="all", VRAMSCOPE_DRY_SETUP="gpu=%s,steps=all,values=first" % card)
    environment["PYTHONPATH"] = ":".join([os.path.dirname(os.path.dirname(os.path.abspath(__file__)))] + [part for part in [os.environ.get("PYTHONPATH")] if part])
    environment.pop("CUDA_VISIBLE_DEVICES", None)  # of the machine's own


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


def _execute_again(config, output, card):
    library = _find_library()
    if library is None:
        raise pytest.UsageError("--vramscope: libvramscope.so is not where this package and the command `vramscope` are: install vramscope anew")
    if re.search(r"[\s:]", library):
        raise pytest.UsageError("--vramscope: LD_PRELOAD can't name %s, there is a blank or a colon in it: install vramscope elsewhere" % library)
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
    environment["LD_PRELOAD"] = library + (":" + there if there else "")
    if card:
        _set_dry(environment, library, card)
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
    if getattr(known, "vramscope_dry", None) and not getattr(known, "vramscope", False):
        raise pytest.UsageError("--vramscope-dry is of --vramscope: pytest --vramscope --vramscope-dry")
    if not getattr(known, "vramscope", False) or _is_loaded():
        return
    # A worker of xdist talks over its descriptors; it has what the controller has.
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _execute_again(early_config, known.vramscope_output, known.vramscope_gpu if known.vramscope_dry else None)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        'vram_limit(bytes, total=False, device=None): the most that the test function may add to what is allocated on a GPU, such as "2 GiB" '
        "(total=True: the most that may be allocated meanwhile); under --vramscope",
    )
    if config.getoption("--vramscope"):
        config.pluginmanager.register(_Plugin(config), "vramscope-recording")


def _unrecorded_environment():
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


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
        if self.device is not None and (type(self.device) is not int or self.device < 0):
            raise ValueError("vram_limit takes the number of a device: device=0, not %r" % (self.device,))

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
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pytest_reader.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_unrecorded_environment(), universal_newlines=True
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


_NOTHING = {"devices": [], "too_high": False, "why": None}


class _Plugin:
    def __init__(self, config):
        self.config = config
        self.pid = os.getpid()
        self.loaded = _is_loaded()
        self.library = ctypes.PyDLL(None) if self.loaded else None
        self.reader = _Reader()
        self.names = []  # (key of its mark, node id) of what has run in this process
        self.gpu = None  # whether there is one; None: not asked
        self.left = 0  # how many of them could not be read at the end
        self.all = []  # (bytes added, node id, device), of all processes
        if self.loaded:
            self.library.vramscope_range_push.argtypes = [ctypes.c_char_p]
            self.library.vramscope_mark.argtypes = [ctypes.c_char_p]
            self.takes = getattr(self.library, "vramscope_auto_takes", None)  # None: an older library
            self.use = getattr(self.library, "vramscope_pool_use", None)
            if self.use is not None:
                self.use.argtypes = [ctypes.c_char_p, ctypes.c_int] + 3 * [ctypes.c_uint64]

    @property
    def database(self):
        pattern = os.environ.get("VRAMSCOPE_OUTPUT", "")
        return pattern.replace("%p", str(self.pid)) if "%p" in pattern else None

    def _has_begun(self):
        """Whether there is a recording: it begins with the first allocation."""
        return self.use is None or self.use(None, 0, 0, 0, 0) == 1

    def _has_gpu(self):
        """Whether a GPU could be used, asked in a process of its own."""
        if self.gpu is None:
            code = "import ctypes, sys; n = ctypes.c_int(); cuda = ctypes.CDLL('libcuda.so.1'); sys.exit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n)) or n.value < 1)"
            self.gpu = bool(os.environ.get("SIMCUDA_DRY")) or subprocess.run(
                [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_unrecorded_environment()
            ).returncode == 0
        return self.gpu

    def _unrecorded(self):
        """Why what is allocated now is not recorded, or None."""
        if self.takes is None:
            return "the library that is loaded is older than this plugin: install both anew"
        if self.library.vramscope_active() != 1:
            return "nothing is recorded: the recording could not be made, or has ended (vramscope says why on stderr)"
        if self.takes() != 1:
            return "recording is switched off (VRAMSCOPE_ENABLED, or vramscope.record_stop)"
        return None

    # ---- one test ----

    def _run(self, item):
        """Around the test function, a generator of one step."""
        limit = item.get_closest_marker("vram_limit")
        item._vramscope = None
        if not self.loaded:
            yield
            if limit is not None:
                item._vramscope = "cannot tell: vramscope is not loaded in this process: start pytest itself with --vramscope"
            return
        if limit is not None:
            try:
                limit = _Limit(limit)
            except ValueError as error:
                pytest.fail(str(error), pytrace=False)
            gc.collect()  # what earlier tests left would be freed in this one, and count for it
        key = KEY % next(_numbers)
        why = self._unrecorded()
        depth = self.library.vramscope_range_push(RANGE.encode())
        try:
            yield
        finally:
            # the name is for people: the key alone is looked for
            self.library.vramscope_mark(key.encode() + b" " + item.nodeid.encode("utf-8", "replace").replace(b"\0", b"?")[:1000])
            why = why or self._unrecorded()
            while self.library.vramscope_range_pop() > depth >= 0:
                pass  # what the test has left open is closed with its range
            if why is None and self._has_begun():
                self.names.append((key, item.nodeid))
            if limit is not None:
                item._vramscope = limit.verdict(self._find(key, why))

    def _find(self, key, why):
        if os.getpid() != self.pid:
            return dict(_NOTHING, why="the test ran in a process of its own: leave out --forked")
        if why is not None:
            return dict(_NOTHING, why=why)
        if not self._has_begun():  # no allocation of device memory, so far
            return _NOTHING if self._has_gpu() else dict(_NOTHING, why="no GPU can be used here, so nothing was measured: pytest --vramscope --vramscope-dry needs none")
        if self.database is None:
            return dict(_NOTHING, why="VRAMSCOPE_OUTPUT is not this plugin's: leave it to --vramscope-output")
        return self.reader.ask(database=self.database, key=key, range=RANGE, wait=_WAIT)

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
        if not self.names or self.database is None or os.getpid() != self.pid:
            return []
        found = self.reader.ask(database=self.database, keys=[key for key, _ in self.names], range=RANGE, wait=_WAIT)
        self.left = found.get("left", len(self.names))
        ids = dict(self.names)
        rows = [(row["added"], ids[key], row["device"]) for key, row in found.get("tests", []) if row["added"]]
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
        if self.loaded and not self.all and not getattr(self.config.option, "numprocesses", None) and not self._has_begun():
            terminalreporter.write_line("vramscope: nothing was measured: %s" % ("no test used the GPU" if self._has_gpu() else "no GPU can be used here: pytest --vramscope --vramscope-dry needs none"))
        if self.left:
            terminalreporter.write_line("vramscope: what %d tests added could not be read in time" % self.left)
        if self.config.getoption("--vramscope-output"):
            terminalreporter.write_line("vramscope: recordings are in %s" % self.config.getoption("--vramscope-output"))

    def pytest_unconfigure(self):
        """The recordings go, unless they are wanted: the last writer of a file is the library, at this process's end."""
        directory = os.environ.get(_OUTPUT)
        if directory and not self.config.getoption("--vramscope-output") and os.environ.get(_PID) == str(os.getpid()):
            import atexit

            atexit.register(_remove_later, directory)


def _remove_later(directory):
    """A child of no descriptor of ours removes DIRECTORY when this process has gone, and its recording is complete."""
    code = (
        "import os, shutil, sys, time\nwhile os.path.exists('/proc/' + sys.argv[1]): time.sleep(0.05)\n"
        "shutil.rmtree(sys.argv[2], True)"
    )
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(os.getpid()), directory],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_unrecorded_environment(), start_new_session=True,
    )
