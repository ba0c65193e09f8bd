"""What the tests of the `weft` command share: a program that runs, requests to it, and cases that count.

A test is called as NAME.py PROGRAM [EMULATOR...]. It ends with "NAME: N passed, N failed, N skipped".
"""
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

PATIENCE = 60  # seconds: what has not come by then never will
NOBODY = 65534
SLOW = re.compile(r"^weft: fiber .* without giving way, .*\n", re.M)  # debug builds say so on a machine that is busy
EMULATOR = sys.argv[2:]  # a test with more arguments of its own sets it

_cases = []


class Skip(Exception):
    """Why a case cannot run here."""


def case(function):
    """Marks a function as a case. Its name is the sentence that it proves."""
    _cases.append(function)
    return function


def main():
    """Runs the cases of the test in their order."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for function in _cases:
        result = "passed"
        try:
            function()
        except Skip as why:
            result = "skipped"
            print(f"skipped: {function.__name__}: {why}")
        except Exception:  # whatever it was, the others run
            result = "failed"
            print(f"FAILED: {function.__name__}")
            traceback.print_exc(file=sys.stdout)
        counts[result] += 1
        print(f"{result}: {function.__name__}", flush=True)
    print(f"{name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] or not _cases else 0)


class Program:
    """A program that runs in a session of its own. At the end of its `with` all of it is gone."""

    def __init__(self, *words, stdout=subprocess.PIPE, **options):
        self.words = words
        options = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        self.process = subprocess.Popen([*EMULATOR, *words], stdout=stdout, text=True, start_new_session=True, **options)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        said = self.process.communicate(timeout=PATIENCE)
        if kind:
            print(self.words, said)

    def line(self):
        """Its next line on the standard output."""
        return self.process.stdout.readline()

    def line_like(self, pattern):
        """Its next line with this pattern."""
        while not re.search(pattern, line := self.line()):
            assert line, f"it ends without a line like {pattern}"
        return line

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Waits for its end. Returns its exit status, and what it has said on both streams."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert not re.search("Sanitizer|runtime error", (out or "") + (err or "")), err
        return self.process.returncode, out, err and SLOW.sub("", err)


def run(*words, **options):
    """Exit status and words of a program that ends by itself."""
    with Program(*words, **options) as program:
        return program.end()


class Serve(Program):
    """`weft serve` on any free port."""

    def __init__(self, folder, *options, program=None, **how):
        super().__init__(program or sys.argv[1], "serve", folder, "--port", "0", *options, **how)
        self.start = self.line()
        found = re.fullmatch(r"weft: serving (?P<dir>.*) at (?P<url>http://(?P<host>.*):(?P<port>\d+)/) with (?P<workers>\d+) "
                             r"workers? on (?P<io>epoll|io_uring)(?P<open>; open to all networks)?"
                             r"(; status at (?P<status>.*/_weft))?\n", self.start)
        if not found:
            raise AssertionError(f"weft serve says {self.start!r}, and {self.end()}")
        self.said, self.port = found.groupdict(), int(found["port"])
        self.host = found["host"].strip("[]")

    def get(self, path="/"):
        """Status and body of a GET on a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def stop(self, number=signal.SIGTERM):
        """Ends it by a signal, as it should end."""
        self.signal(number)
        return self.end()


def wait(condition, what):
    """Waits until the condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"this has not come in {PATIENCE} s: {what}"
        time.sleep(0.005)


def is_served(port):
    """Whether a connection to this port of 127.0.0.1 is accepted."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def site(**files):
    """A folder that all users may read: index.html, and the files that are named; a name's __ is a dot."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name, content in {"index__html": "<h1>weft</h1>\n", **files}.items():
            with open(os.path.join(folder, name.replace("__", ".")), "w", encoding="utf-8") as file:
                file.write(content)
        yield folder


@contextlib.contextmanager
def plain_user(path):
    """A program, and options for Popen, so that it runs as a plain user."""
    if os.geteuid() != 0:
        yield path, {}
        return
    with tempfile.TemporaryDirectory() as folder:  # the build may lie where others cannot look
        os.chmod(folder, 0o755)
        yield shutil.copy(path, folder), {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def first_line(connection):
    got = b""
    while b"\r\n" not in got:
        part = connection.recv(4096)
        assert part, got
        got += part
    return got.split(b"\r\n")[0]
