"""The live page of `weft serve --status`."""
import json

from support import FOREIGN, LOST, quiet_port, test

CHARTS = ["requests", "latency", "connections", "fibers", "memory", "bytes", "load"]

NUMBER = "return Number(document.querySelector(arguments[0]).innerText.replace(/[^0-9.]/g, ''))"
BACK = "return getComputedStyle(document.body).backgroundColor"


def chart_points(page):
    """How many points each line of each chart has."""
    return page.script("""return Object.fromEntries(arguments[0].map(name =>
        [name, [...document.querySelectorAll(`#chart-${name} path.line`)].map(path => Number(path.dataset.points))]))""", CHARTS)


def wait_for_points(page, count):
    """But for latencies, which only seconds with requests have."""
    page.wait(lambda: all(n >= count for name, lines in chart_points(page).items() if name != "latency" for n in lines))


@test()
def the_figures_move_when_requests_are_made(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    server.ask("/", times=50)
    server.ask("/there-is-no-such-file", times=20)
    page.wait("return document.querySelector('#totals dd').innerText >= 72")
    page.wait("return document.querySelector('#answers').rows[0].cells[3].innerText >= 50")
    page.wait("return document.querySelector('#answers').rows[2].cells[3].innerText === '20'")
    figures = server.figures()
    assert figures["requests"]["total"] >= 72 and figures["status"]["4xx"] == 20, figures
    page.wait("return document.querySelector('#connections').innerText >= 1")
    assert "1 stream," in page.text("#connections-note")
    assert page.script(NUMBER, "#memory") > 0 and page.script(NUMBER, "#fibers") > 0
    assert len(page.find_all("#workers li")) == len(figures["workers"])
    assert f"process {figures['pid']}" in page.text("#about")
    # The highest rate that the chart has had: its line has left the ground.
    page.wait("""const ys = document.querySelector("#chart-requests path.line").getAttribute("d").match(/ [0-9.]+/g).map(Number);
        return Math.min(...ys) < Math.max(...ys) - 20""")


@test()
def the_charts_have_points_axes_and_units(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    wait_for_points(page, 2)
    server.ask("/", times=10)
    page.wait(lambda: min(chart_points(page)["latency"]) > 0)
    for name in CHARTS:
        texts = page.script("return [...document.querySelectorAll(`#chart-${arguments[0]} text`)].map(t => t.textContent)", name)
        assert "now" in texts and "−60 s" in texts, (name, texts)
        assert len(texts) >= 4, (name, texts)
    assert any("µs" in text or "ms" in text for text in page.script(
        "return [...document.querySelectorAll('#chart-latency text')].map(t => t.textContent)"))


@test()
def the_history_is_there_as_soon_as_the_page_is_opened(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    wait_for_points(page, 2)
    before = page.script("return points.length")
    page.reload()
    page.wait("return document.body.dataset.state === 'live'")
    assert page.script("return points.length") >= before
    wait_for_points(page, before)


@test()
def pointing_at_a_chart_shows_its_values(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    wait_for_points(page, 2)
    width = page.script("return document.querySelector('#chart-requests').clientWidth")
    page.hover("#chart-requests", int(width / 2) - 8)
    page.wait("return document.querySelectorAll('.cross').length === arguments[0]", len(CHARTS))
    page.wait("return !document.querySelector('#chart-requests .tip').hidden")
    assert "requests/s" in page.text("#chart-requests .tip")
    assert page.script("return document.querySelectorAll('.tip:not([hidden])').length") == 1
    page.hover("h1")
    page.wait("return document.querySelectorAll('.cross, .tip:not([hidden])').length === 0")


@test()
def the_keyboard_reaches_everything(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    wait_for_points(page, 2)
    reached = []
    for _ in range(2 + len(CHARTS)):
        page.press("\ue004")  # Tab
        reached.append(page.script("const e = document.activeElement; return e.id || e.parentElement.id"))
    assert reached == ["json", "theme"] + [f"chart-{name}" for name in CHARTS], reached
    assert page.script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("\ue012")  # the left arrow
    page.wait("return document.querySelector('#spoken').textContent.includes('worker 0') || "
              "document.querySelector('#spoken').textContent.includes('mean')")
    page.wait("return !document.querySelector('#chart-load .tip').hidden")
    page.press("\ue00c")  # Escape
    page.wait("return document.querySelectorAll('.cross').length === 0")


@test()
def light_and_dark_differ_and_a_choice_is_kept(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    light = page.script(BACK)
    page.dark()
    page.wait("return document.documentElement.dataset.theme === 'dark'")
    dark = page.script(BACK)
    assert light != dark
    page.click("#theme")
    assert page.script(BACK) == light
    page.reload()
    assert page.script(BACK) == light, "the choice is kept"
    page.find("#theme")
    page.press("\ue004")
    page.press("\ue004")
    page.press(" ")  # by the keyboard
    assert page.script(BACK) == dark
    page.dark(False)
    page.wait("return document.documentElement.dataset.theme === 'light'")  # it follows the system again


@test()
def text_has_contrast_in_light_and_dark(ground):
    server, page = ground.weft(), ground.page
    for dark in (False, True):
        page.dark(dark)
        ground.live(server)
        page.wait("return document.querySelectorAll('#answers td').length > 0")
        contrasts = ground.contrasts()
        assert len(contrasts) > 50, contrasts
        assert min(contrasts)[0] >= 4.5, min(contrasts)
        lines = page.script("""const style = getComputedStyle(document.documentElement);
            return ['--a', '--b', '--c', '--d'].map(name => style.getPropertyValue(name))""")
        assert len(set(lines)) == 4, lines


@test()
def it_fits_a_phone(ground):
    server, page = ground.weft(), ground.page
    page.size(360, 740, 2, phone=True)
    ground.live(server)
    wait_for_points(page, 1)
    assert page.script("return document.documentElement.scrollWidth") <= 360
    assert page.script("""return [...document.querySelectorAll("svg text, .value, td, dd")].every(e => {
        const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= 360; })""")


@test(bears=LOST)
def a_server_that_was_restarted_is_found_again(ground):
    server, page = ground.weft(quiet_port()), ground.page
    ground.live(server)
    wait_for_points(page, 1)
    first = server.figures()["pid"]
    server.end()
    page.wait("return document.body.dataset.state === 'lost'")
    assert "has not answered" in page.text("#lost")
    assert page.text("#state") == "no connection"
    assert "no connection" in page.title()
    second = ground.weft(server.port).figures()["pid"]
    assert first != second
    page.wait("return document.body.dataset.state === 'live'")
    page.wait_for_text("#about", f"process {second}")
    assert page.script("return document.querySelector('#lost').hidden")
    page.wait("return /req.s/.test(document.title)")


@test(bears=["403 (Forbidden)"])
def the_page_of_a_foreign_host_is_refused(ground):
    server, page = ground.weft(), ground.page
    foreign = f"http://{FOREIGN}:{server.port}/"
    ground.allow(foreign)
    page.open(foreign + "_weft")
    assert "another Host" in page.text("body")
    assert page.find_all("#chart-requests") == []
    page.open(foreign)  # the site itself is for everybody
    assert "blocking code" in page.text("h1")
    for path in ("_weft", "_weft/", "_weft/events", "_weft/status.json"):
        status, text = page.script("const a = await fetch(arguments[0]); return [a.status, await a.text()]", foreign + path)
        assert status == 403 and "pid" not in text, (path, status, text)


@test(bears=["CORS policy", "ERR_FAILED", "ERR_BLOCKED"])
def a_page_of_another_origin_reads_nothing(ground):
    server, page = ground.weft(), ground.page
    ground.allow(f"http://{FOREIGN}:{server.port}/")
    page.open(f"http://{FOREIGN}:{server.port}/")
    said = page.script("""
        const url = arguments[0];
        const read = await fetch(url + "_weft/status.json").then(() => "read", () => "refused");
        const heard = await new Promise(tell => {
          const source = new EventSource(url + "_weft/events");
          source.onmessage = () => tell("heard");
          source.addEventListener("history", () => tell("heard"));
          source.onerror = () => { source.close(); tell("refused"); };
        });
        return [read, heard];""", server.url)
    assert said == ["refused", "refused"], said


@test(bears=["Content Security Policy"])
def scripts_and_styles_without_the_nonce_do_nothing(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    ground.allow("http://127.0.0.1:1/")  # that it wants to is noted, though nothing goes out
    page.script("""
        window.seen = [];
        document.addEventListener("securitypolicyviolation", e => seen.push(e.effectiveDirective));
        const script = document.createElement("script"), style = document.createElement("style");
        script.textContent = "window.intruder = true";
        style.textContent = "h1 { display: none }";
        document.body.append(script, style);
        document.body.insertAdjacentHTML("beforeend", "<img src='http://127.0.0.1:1/x.png' alt=''>");""")
    page.wait("return ['script-src-elem', 'style-src-elem', 'img-src'].every(name => seen.includes(name))")
    assert page.script("return window.intruder") is None
    assert page.text("h1") == "weft"
    nonces = page.script("return [...document.scripts].map(s => s.nonce).filter(nonce => nonce)")
    assert all(len(nonce) == 32 and "@" not in nonce for nonce in nonces), nonces
    page.reload()
    assert page.script("return document.scripts[0].nonce") not in nonces, "each answer has a nonce of its own"


@test()
def zero_many_and_huge_figures_can_be_read(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    figures = server.figures()

    def hear(changed):
        page.script("lose = () => {}; source.close(); points = []; hear({ type: 'message', data: arguments[0] })", json.dumps(changed))
        page.script("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        text = page.text("main")
        assert not any(word in text for word in ("NaN", "undefined", "Infinity", "null")), text
        assert page.script("return [...document.querySelectorAll('path')].every(p => !/NaN|Infinity/.test(p.getAttribute('d')))")
        return text

    def every_number(value, number):
        if isinstance(value, dict):
            return {key: every_number(part, number) for key, part in value.items()}
        if isinstance(value, list):
            return [every_number(part, number) for part in value]
        return number if isinstance(value, (int, float)) or value is None else value

    zero = every_number(figures, 0)
    for latency in zero["latency_us"].values():
        latency.update(p50=None, p90=None, p99=None)
    zero["time"] = figures["time"] + 100_000
    hear(zero)
    assert "no requests yet" in page.script("return document.querySelector('#chart-latency').textContent")
    huge = every_number(figures, 10**12)
    huge["time"], huge["workers"] = figures["time"] + 200_000, [{"thread": i, "cpu_seconds": 1, "cpu": 1} for i in range(128)]
    text = hear(huge)
    assert "1000.00 G" in text and "931" in text, text
    assert page.script("return document.querySelectorAll('#workers li').length") == 128
    assert page.script("return document.documentElement.scrollWidth") <= 1280


@test()
def a_tab_in_the_background_goes_on(ground):
    server, page = ground.weft(), ground.page
    ground.live(server)
    page.script("document.addEventListener('visibilitychange', () => { window.wasHidden = wasHidden || document.hidden; });"
                "window.wasHidden = false")
    with page.other_tab():
        page.open("about:blank")
        total = server.figures()["requests"]["total"]
        server.ask("/", times=500)
        server.wait_for_requests(total + 500)
        time = server.figures()["time"]
    assert page.script("return wasHidden")
    page.wait("return points[points.length - 1][TIME] > arguments[0]", time)
    assert page.script("return points.some(p => p[TIME] === arguments[0])", time), "the chart has a hole"
    page.wait(f"{NUMBER} >= arguments[1]", "#totals dd", total + 500)
