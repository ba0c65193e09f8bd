"""What a newcomer does after `make run`: its program is on a terminal, so it goes on serving after its load."""
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys

from support import LOST, ROOT, SHOTS, SITE, Skip, test
from test_status import CHARTS, wait_for_points

sys.path.insert(0, os.path.join(ROOT, "tests/integration/weft"))

import outside  # noqa: E402 (in that folder)
from program import PATIENCE, is_served  # noqa: E402
from terminal import Terminal, children_of, wait_until_gone  # noqa: E402

RELEASE = "build/release/"  # where `make run` builds
REQUESTS, CLIENTS = 2000, 20

LISTEN = """
    window.heard = [];
    window.source = new EventSource("/_weft/events");
    source.addEventListener("history", event => heard.push(["history", JSON.parse(event.data).length]));
    source.addEventListener("message", event => heard.push(["figures", JSON.parse(event.data).time]));
"""

LINES = """return Object.fromEntries(arguments[0].map(name =>
    [name, [...document.querySelectorAll(`#chart-${name} path.line`)].map(path => path.getAttribute("d"))]))"""


def command(ground):
    """The words that `make run` runs after the build, but from this build, and with a short load."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    said = subprocess.run(["make", "-C", ROOT, "-n", "--no-print-directory", "run", "EXAMPLE=", "ARGS=--seconds 2"], env=plain,
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    words = shlex.split(said.splitlines()[-1])
    assert len(words) > 2 and words[0].startswith(RELEASE), said
    return [ground.program(word.removeprefix(RELEASE)) if word.startswith(RELEASE) else word for word in words]


def address(said):
    """Where the site is, as the summary says; the live page is below it."""
    said = said.replace("\r\n", "\n").partition("none was wrong.")[2]
    url = re.search(r"^  the site +(http://127\.0\.0\.1:\d+/)$", said, re.M).group(1)
    assert re.search(rf"^  its live state +{url}_weft$", said, re.M), said
    return url


def see_site(page, url):
    page.open(url)
    assert page.title() == "weft" and "blocking code" in page.text("h1")
    assert page.script("return document.querySelectorAll('.cards li').length") == 6
    assert page.script("return [...document.images].every(i => i.complete && i.naturalWidth > 0)")
    backs = []
    for dark in (False, True):
        page.dark(dark)
        backs.append(page.script("return getComputedStyle(document.body).backgroundColor"))
        page.keep(SHOTS, "run-site", whole=True)
    assert backs[0] != backs[1], backs  # the style sheet is there


def hear_events(page):
    """By an EventSource of the site's page: the history of the load, and then new figures."""
    page.script(LISTEN)
    page.wait("return heard.length >= 3")
    page.script("source.close()")
    heard = page.script("return heard")
    assert heard[0][0] == "history" and heard[0][1] >= 2, heard
    times = [value for name, value in heard[1:] if name == "figures"]
    assert len(times) == len(heard) - 1 and times == sorted(set(times)), heard


def charts_move(page):
    """Each chart has lines, and soon it has others."""
    before = page.script(LINES, CHARTS)
    assert all(lines and all(lines) for lines in before.values()), before

    def have_moved():
        now = page.script(LINES, CHARTS)
        return all(now[name] and not set(before[name]) & set(now[name]) for name in CHARTS)
    page.wait(have_moved)


def ask_by_clients(url):
    """What people try: each gets the right answers. Returns how many requests they have made."""
    with open(f"{SITE}/index.html", encoding="utf-8") as file:
        index = file.read()
    head, body = outside.curl(url, "-i").split("\n\n", 1)
    assert head.startswith("HTTP/1.1 200 OK\n") and "\nContent-Type: text/html" in head and body == index, (head, body)
    outside.ab(url, REQUESTS, CLIENTS, len(index.encode()), keep=True)
    count = outside.wrk(url, CLIENTS)
    old = outside.Old(url.split("/")[2], timeout=PATIENCE)
    with contextlib.closing(old):
        old.request("GET", "/")
        answer = old.getresponse()
        assert answer.status == 200 and answer.read().decode() == index and answer.will_close
    return 1 + REQUESTS + count + 1


def see_live_page(page, url):
    page.open(url + "_weft")
    page.wait("return document.body.dataset.state === 'live'")
    wait_for_points(page, 2)
    charts_move(page)
    count = ask_by_clients(url)
    page.wait("return snapshot.requests.total >= arguments[0]", count)
    assert page.script("return snapshot.status['5xx']") == 0
    backs = []
    for dark in (False, True):
        page.dark(dark)
        page.wait("return document.documentElement.dataset.theme === arguments[0]", "dark" if dark else "light")
        charts_move(page)
        backs.append(page.script("return getComputedStyle(document.body).backgroundColor"))
        page.keep(SHOTS, "run-live", whole=True)
    assert backs[0] != backs[1], backs


@test(bears=LOST)
def what_make_run_starts_serves_a_browser_and_other_clients_until_ctrl_c(ground):
    if lacking := [name for name in outside.PROGRAMS if not shutil.which(name)]:
        raise Skip(f"no {' and no '.join(lacking)}: tools/setup browser")
    page = ground.page
    with Terminal(*command(ground), folder=ROOT) as running:
        running.read_until("until Ctrl-C.")
        url, servers = address(running.said), children_of(running.pid)
        assert len(servers) == 1, servers
        ground.allow(url)
        see_site(page, url)
        hear_events(page)
        see_live_page(page, url)
        running.type(b"\x03")  # while the live page has its stream
        assert running.end() == 0 and "The server has ended." in running.said, running.said
        wait_until_gone(servers[0])
        assert not is_served(int(url.rstrip("/").rpartition(":")[2]))
        page.wait("return document.body.dataset.state === 'lost'")
