"""A real browser for tests: Debian's chromium, driven by its chromedriver in the WebDriver protocol. No package is needed
beside these two and python's own library.

    with Browser() as browser:
        browser.open("http://127.0.0.1:8080/")
        browser.type("input[name=q]", "weft\n")
        browser.wait("return document.querySelectorAll('li').length > 3")
        assert browser.text("h1") == "Found"
        browser.screenshot("/tmp/found.png")
        assert browser.errors() == []

The browser has a profile of its own, opens no connection on its own account, and ends with the `with`. A call that the
browser refuses raises BrowserError, and so does a wait that is in vain; its text says what was waited for.
"""
import base64
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = int(os.environ.get("WEFT_PATIENCE", 60))  # seconds: what has not come by then never will
TRIES = 20  # times that the driver is started, each time on another port

# Without --no-sandbox it does not start as root. The others keep it from talking to anybody but the page's server.
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
         "--disable-default-apps", "--disable-domain-reliability", "--no-default-browser-check", "--no-pings",
         "--metrics-recording-only", "--password-store=basic", "--force-color-profile=srgb", "--hide-scrollbars"]

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's own name for a reference to an element


class BrowserError(AssertionError):
    """What the browser, or a wait, has to say."""


def missing():
    """The programs that are needed and not there, as a list of words."""
    return [program for program in ("chromium", "chromedriver") if not shutil.which(program)]


class Browser:
    """One browser with one tab."""

    def __init__(self, width=1280, height=900, flags=()):
        self.flags, self.first_size = [*FLAGS, *flags], (width, height)
        self.folder = self.driver = self.session = self.port = None
        self.is_dark, self.past_requests = False, []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="browser-")
        try:
            self.start_driver()
            self.start_session()
            self.size(*self.first_size)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, kind, value, traceback):
        self.end()

    def start_driver(self):
        environment = {**os.environ, "HOME": self.folder, "TMPDIR": self.folder}
        said = ""
        for _ in range(TRIES):
            # It wants the same port of IPv4 and IPv6. Where other tests have used up the ports that the kernel gives to
            # clients, --port=0 mostly fails, so the port is none of these.
            port = random.randrange(10000, 32000)
            # A group of its own: whatever it starts can be ended with it.
            self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True)
            for line in self.driver.stdout:
                said += line
                if "started successfully" in line:
                    self.port = port
                    return
            self.driver.communicate()
        self.driver = None
        raise BrowserError(f"chromedriver does not start: {said}")

    def start_session(self):
        options = {"args": [*self.flags, f"--user-data-dir={self.folder}/profile"], "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{answer['sessionId']}"

    def end(self):
        if self.session:
            try:
                self.ask("DELETE", self.session)
            except (OSError, http.client.HTTPException, BrowserError):
                pass  # it is ended below
        if self.driver:
            try:
                os.killpg(self.driver.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.driver.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the protocol ----

    def ask(self, method, path, body=None):
        """One command of the protocol. Returns its value."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * PATIENCE)
        try:
            text = json.dumps(body if body is not None else {}) if method == "POST" else None
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        if answer.status != 200:
            raise BrowserError(f"{path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def command(self, method, path, body=None):
        return self.ask(method, self.session + path, body)

    def devtools(self, name, **params):
        """One command of the DevTools protocol, for what WebDriver does not have."""
        return self.command("POST", "/goog/cdp/execute", {"cmd": name, "params": params})

    # ---- pages ----

    def open(self, url):
        """Returns when the page is loaded."""
        self.command("POST", "/url", {"url": url})

    def reload(self):
        self.command("POST", "/refresh")

    def fresh(self):
        """As a new browser: an empty page, no emulation, no message in the console. Pages' storage stays."""
        self.open("about:blank")
        self.dark(False)
        self.size(*self.first_size)
        self.log()

    @contextlib.contextmanager
    def other_tab(self):
        """Opens a second tab, before the first; after the `with` it is closed, and the first one is seen again."""
        first = self.command("GET", "/window")
        self.command("POST", "/window", {"handle": self.command("POST", "/window/new", {"type": "tab"})["handle"]})
        try:
            yield
        finally:
            self.command("DELETE", "/window")
            self.command("POST", "/window", {"handle": first})

    def url(self):
        return self.command("GET", "/url")

    def title(self):
        return self.command("GET", "/title")

    def script(self, text, *args):
        """Runs the body of a function in the page. Returns what it returns; a promise is waited for."""
        return self.command("POST", "/execute/sync", {"script": text, "args": list(args)})

    def wait(self, condition, *args, seconds=PATIENCE):
        """Waits until a script, or a function of python without arguments, returns something true, and returns that."""
        end = time.monotonic() + seconds
        while True:
            value = condition() if callable(condition) else self.script(condition, *args)
            if value:
                return value
            if time.monotonic() > end:
                raise BrowserError(f"in vain for {seconds} s: {condition}")
            time.sleep(0.05)

    # ---- elements, by their CSS selectors ----

    def find(self, selector):
        """The first such element; waits until there is one."""
        return self.wait(lambda: self.find_all(selector))[0]

    def find_all(self, selector):
        found = self.command("POST", "/elements", {"using": "css selector", "value": selector})
        return [element[ELEMENT] for element in found]

    def text(self, selector):
        """What is to be seen of an element's text."""
        return self.command("GET", f"/element/{self.find(selector)}/text")

    def texts(self, selector):
        return [self.command("GET", f"/element/{element}/text") for element in self.find_all(selector)]

    def wait_for_text(self, selector, text):
        """Waits until the element has this in its text."""
        return self.wait("const e = document.querySelector(arguments[0]); return e && e.innerText.includes(arguments[1])",
                         selector, text)

    def click(self, selector):
        self.command("POST", f"/element/{self.find(selector)}/click", {})

    def clear(self, selector):
        self.command("POST", f"/element/{self.find(selector)}/clear", {})

    def type(self, selector, text):
        """Types at the end of what the element has. A newline is Enter."""
        self.command("POST", f"/element/{self.find(selector)}/value", {"text": text.replace("\n", "\ue007")})

    def press(self, key):
        """Presses a key, such as "a" or "\\ue004" (Tab), where the focus is."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.command("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def hover(self, selector, x=0, y=0):
        """Moves the pointer to the middle of an element, and from there by x and y."""
        move = {"type": "pointerMove", "duration": 0, "x": x, "y": y, "origin": {ELEMENT: self.find(selector)}}
        self.command("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    # ---- how the page is looked at ----

    def dark(self, dark=True, calm=False):
        """What prefers-color-scheme says, and prefers-reduced-motion."""
        self.is_dark = dark
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def size(self, width, height, scale=1, phone=False):
        """The size of the page's window in CSS pixels."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                      mobile=phone)

    def screenshot(self, path, whole=False):
        """A PNG file of what is to be seen, or of the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def keep(self, folder, name, whole=False):
        """A screenshot for a person to look at: NAME-light.png or NAME-dark.png in a folder; none without a folder."""
        if folder:
            os.makedirs(folder, exist_ok=True)
            self.screenshot(os.path.join(folder, f"{name}-{'dark' if self.is_dark else 'light'}.png"), whole)

    # ---- what the page has done ----

    def log(self):
        """What the console has got since the last call: {"level", "message", "source", "timestamp"} each."""
        return self.command("POST", "/se/log", {"type": "browser"})

    def errors(self):
        """The errors of the console since the last call of this, or of log()."""
        return [entry["message"] for entry in self.log() if entry["level"] == "SEVERE"]

    def requests(self):
        """The addresses that the pages have asked for so far, in their order."""
        for entry in self.command("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith(("chrome:", "data:")):  # of the browser's own first page, or no request at all
                    self.past_requests.append(url)
        return list(self.past_requests)
