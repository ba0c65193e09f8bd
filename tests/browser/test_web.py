"""EventSource, as browsers have it, with the event streams of examples/web."""
from support import LOST, quiet_port, test

LISTEN = """
    window.heard = [];
    window.states = [];
    window.source = new EventSource("/ticks");
    source.onopen = () => states.push("open");
    source.onerror = () => states.push(source.readyState);
    source.addEventListener("tick", event => heard.push(Number(event.data)));
"""


def wait_for(page, count):
    return page.wait("return heard.length >= arguments[0] && heard", count)


@test()
def each_event_arrives_once_and_in_order(ground):
    server, page = ground.web(), ground.page
    page.open(server.url + "hello/you")
    assert page.text("body") == "hello, you"
    page.script(LISTEN)
    heard = wait_for(page, 8)
    assert heard == list(range(1, len(heard) + 1)), heard
    assert page.script("return states") == ["open"]
    page.script("source.close()")


@test(bears=LOST)
def it_reconnects_by_itself_when_the_server_is_there_again(ground):
    server, page = ground.web(quiet_port()), ground.page
    page.open(server.url + "hello/you")
    page.script(LISTEN)
    wait_for(page, 2)
    server.end()
    page.wait("return source.readyState === EventSource.CONNECTING")
    before = page.script("return heard.length")
    ground.web(server.port)
    heard = wait_for(page, before + 3)[before:]
    assert heard == list(range(1, len(heard) + 1)), heard  # another stream, from its begin
    assert page.script("return states.filter(s => s === 'open').length") == 2
    page.script("source.close()")


@test()
def a_closed_stream_does_not_hold_the_server(ground):
    server, page = ground.web(), ground.page
    page.open(server.url + "hello/you")
    page.script(LISTEN)
    wait_for(page, 2)
    page.open("about:blank")
    server.end()
