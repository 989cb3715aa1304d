"""cli_top_terminal.py VRAMSCOPE PID [JOURNAL FIFO] - top on a terminal follows its size, and gives it back by q, Ctrl-C, SIGTERM and while
stopped.

With JOURNAL, top is about that; a line into FIFO ends the process, and top with it.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

VRAMSCOPE, PID = sys.argv[1:3]
JOURNAL, FIFO = sys.argv[3:] or (None, None)


def size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Top:
    def __init__(self, rows=24, columns=80, term="xterm"):
        self.master, slave = pty.openpty()
        size(self.master, rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        out, told = os.pipe()
        self.leader = os.fork()
        if self.leader == 0:  # as a shell: a job of its session can be stopped
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            job = os.fork()
            if job == 0:
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                os.setpgid(0, 0)
                os.tcsetpgrp(slave, os.getpid())
                signal.signal(signal.SIGTTOU, signal.SIG_DFL)
                for fd in range(3):
                    os.dup2(slave, fd)
                os.environ.update(TERM=term, LC_ALL="C.UTF-8")
                os.execv(VRAMSCOPE, [VRAMSCOPE, "top", "-i", "200ms", JOURNAL or PID])
            os.write(told, b"%d\n" % job)
            _, status = os.waitpid(job, 0)
            os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
        self.pid = int(os.read(out, 32))
        self.text = ""

    def read(self, until, seconds=10):
        """Everything up to a text that `until` accepts."""
        end = time.monotonic() + seconds
        while not until(self.text):
            assert time.monotonic() < end, "top did not get there: %r" % self.text[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode("latin-1")
                except OSError:
                    break
        return self.text

    def frame(self):
        """The next whole frame, as lines."""
        self.text = ""
        self.read(lambda t: re.search(r"\033\[H((?:(?!\033\[H).)*?)\033\[J", t, re.S))
        body = re.search(r"\033\[H((?:(?!\033\[H).)*?)\033\[J", self.text, re.S).group(1).encode("latin-1").decode("utf-8")
        return re.sub(r"\033\[K", "", body).split("\r\n")

    def end(self, status=None, number=None, last=""):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            self.drain()
            pid, got = os.waitpid(self.leader, os.WNOHANG)
            if pid:
                break
        else:
            raise AssertionError("top did not end")
        self.drain()
        assert os.WIFEXITED(got) and os.WEXITSTATUS(got) == (status if number is None else 128 + number), got
        assert re.fullmatch(last, self.text.rpartition("\033[?1049l")[2].strip()) and "\033[?1049l" in self.text, repr(self.text[-200:])
        assert self.given_back()

    def drain(self):
        if select.select([self.master], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.master, 65536).decode("latin-1")
            except OSError:
                pass

    def given_back(self):
        return termios.tcgetattr(self.slave) == self.before


def check_frame(lines, rows, columns):
    assert len(lines) <= rows, (len(lines), rows)
    assert max(map(len, lines)) <= columns, max(lines, key=len)
    assert any(PID in line and "160.0 MiB" in line for line in lines), lines


if JOURNAL:
    top = Top()
    top.frame()
    with open(FIFO, "w") as fifo:
        fifo.write("\n")
    top.end(status=0, last=r"pid %s has ended: vramscope report .*" % PID)
    sys.exit()

top = Top()
top.read(lambda t: "\033[?1049h" in t)
check_frame(top.frame(), 24, 80)
assert not top.given_back() # no echo meanwhile
for rows, columns in ((40, 132), (8, 50), (24, 80)):
    size(top.master, rows, columns)
    os.kill(top.pid, signal.SIGWINCH)
    lines = top.frame()
    for _ in range(10): # some of the old size may be under way
        lines = top.frame()
        if len(lines) <= rows and max(map(len, lines)) <= columns:
            break
    assert len(lines) <= rows and max(map(len, lines)) <= columns, (rows, columns, lines)
    assert (rows < 24) or any("attention" in line for line in lines), lines
os.kill(top.pid, signal.SIGTSTP)
end = time.monotonic() + 10
while open("/proc/%d/stat" % top.pid).read().rsplit(")", 1)[1].split()[0] != "T":
    assert time.monotonic() < end, "it does not stop"
    time.sleep(0.02)
top.drain()
assert top.given_back()
os.kill(top.pid, signal.SIGCONT)
check_frame(top.frame(), 24, 80)
os.write(top.master, b"q")
top.end(status=0)

top = Top()
top.frame()
os.write(top.master, b"\x03") # the terminal makes a signal of it
top.end(status=0)

top = Top()
top.frame()
os.kill(top.pid, signal.SIGTERM)
top.end(number=signal.SIGTERM)

top = Top(term="dumb") # no screen to draw on: once, as plain text
top.read(lambda t: "under way" in t)
assert "\033" not in top.text, top.text
print("the terminal is given back")
