"""What the tests in a browser stand on: how a test is named, and the servers that it starts.

    @test(bears=["ERR_CONNECTION_REFUSED"])   # what its console may say
    def a_server_that_ends_is_missed(ground):
        server = ground.weft()                # serves examples/site with --status
        ground.page.open(server.url + "_weft")

A test waits for what it expects by ground.page.wait(), never for an amount of time.
"""
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import time

from browser import PATIENCE

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
SITE = os.path.join(ROOT, "examples/site")
SHOTS = os.environ.get("WEFT_SHOTS")  # a folder for screenshots
FOREIGN = "foreign.example"  # the browser takes this name for an address of this machine: an attacker's DNS says so
FLAGS = [f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"]

# What the console says of a server that has ended.
LOST = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"]

tests = []


class Skip(Exception):
    """The test cannot run here; its text says why."""


def quiet_port():
    """A free port for a server that is started again on it: none that the kernel gives to clients meanwhile."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass  # another one then


class Test:
    def __init__(self, function, bears):
        self.function, self.bears = function, bears
        self.name = f"{function.__module__.removeprefix('test_')}.{function.__name__}"
        self.origins, self.asked_before = {"about:blank"}, 0


def test(bears=()):
    """Makes a function a test. `bears`: parts of what the console may say."""
    def note(function):
        tests.append(Test(function, bears))
        return function
    return note


class Server:
    """A program that serves, and has said where. It is ended by end(), at the latest with its ground."""

    def __init__(self, arguments, says):
        """`says`: what its first line has, and in it the port."""
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)
        line = self.process.stdout.readline()
        found = re.search(says, line)
        if not found:
            self.process.kill()
            raise AssertionError(f"{arguments}: {line}{self.process.communicate()[0]}")
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}/"

    def end(self):
        """Ends it as a person would. It must end well, and has nothing to complain about."""
        if self.process.stdout.closed:
            return  # it has ended before
        self.process.send_signal(signal.SIGTERM)
        try:
            said = self.process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[0] + " (killed: it did not end)"
        assert self.process.returncode == 0 and not said, f"{self.process.args}: {self.process.returncode}: {said}"

    def ask(self, path="/", headers=None, times=1):
        """Asks for a path so many times on one connection. Returns the last status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            for _ in range(times):
                connection.request("GET", path, headers=headers or {})
                answer = connection.getresponse()
                body = answer.read()
            return answer.status, body.decode()
        finally:
            connection.close()

    def wait_for_requests(self, total):
        """Waits until the figures that pages get have so many requests."""
        end = time.monotonic() + PATIENCE
        while self.figures()["requests"]["total"] < total:
            assert time.monotonic() < end, "the figures stand still"
            time.sleep(0.1)

    def figures(self):
        status, body = self.ask("/_weft/status.json")
        assert status == 200, body
        return json.loads(body)


class Ground:
    """What one test has: the page, and servers, which end with it."""

    def __init__(self, page, build, test_of_it):
        self.page, self.build, self.test, self.servers = page, build, test_of_it, []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        with contextlib.ExitStack() as all_of_them:
            for server in self.servers:
                all_of_them.callback(server.end)

    def program(self, name):
        """The path of a program of the build."""
        path = os.path.join(self.build, name)
        if not os.path.exists(path):
            raise AssertionError(f"{path} is not built")
        return path

    def start(self, arguments, says):
        server = Server([self.program(arguments[0]), *arguments[1:]], says)
        self.servers.append(server)
        self.allow(server.url)
        return server

    def allow(self, origin):
        """The pages of this test may ask this origin."""
        self.test.origins.add(origin)

    def weft(self, port=0, folder=SITE):
        return self.start(["tools/weft/weft", "serve", folder, "--port", str(port), "--status", "--grace", "0"],
                          r"http://127\.0\.0\.1:(\d+)/")

    def web(self, port=0):
        return self.start(["examples/web", f"127.0.0.1:{port}"], r"^serving at .*, port (\d+)")

    def live(self, server):
        """Opens the live page, and waits for its first figures."""
        self.page.open(server.url + "_weft")
        self.page.wait("return document.body.dataset.state === 'live'")

    def contrasts(self):
        """Of each element that has text of its own and is to be seen: the contrast with what lies behind, and the text."""
        return self.page.script(CONTRASTS)


# The formula is that of WCAG 2.
CONTRASTS = """
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = color => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1);
                            return [...paint.getImageData(0, 0, 1, 1).data]; };
    const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
                        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const behind = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor);
                                                           if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
    return [...document.body.querySelectorAll("*")]
      .filter(e => e.checkVisibility() && !e.closest("script, .unseen, noscript") &&
                   [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
      .map(e => { const style = getComputedStyle(e), color = e.closest("svg") ? style.fill : style.color;
                  const [a, b] = [light(rgba(color)), light(behind(e))].sort((x, y) => y - x);
                  return [(a + .05) / (b + .05), e.textContent.trim().slice(0, 40)]; });
"""
