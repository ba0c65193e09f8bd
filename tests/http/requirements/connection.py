"""Rows about connections: RFC 9112, section 9; RFC 9110, sections 7.6, 7.8 and 10.1."""
from rows import ask, chunked, holds, is_closed, is_kept, refused, request, row, same, status
from wire import Connection


@row("9112 9.3", "defined", "An HTTP/1.1 connection persists unless a message says close.")
def a_connection_of_http_1_1_is_kept(s):
    with Connection(s.port) as c:
        for _ in range(3):
            same(c.send(request("GET", "/")).answer().get("Connection"), None)


@row("9112 9.3", "defined", "An HTTP/1.0 connection is closed unless the request says keep-alive.")
def a_connection_of_http_1_0_is_closed(s):
    with Connection(s.port) as c:
        same(c.send(request("GET", "/", version="1.0")).answer().get("Connection"), "close")
        is_closed(c)


@row("9112 9.3", "defined", "An HTTP/1.0 connection may persist if the request says keep-alive; the answer says so.")
def a_connection_of_http_1_0_may_be_kept(s):
    with Connection(s.port) as c:
        answer = c.send(request("GET", "/", "Connection: keep-alive", version="1.0")).answer()
        same(answer.get("Connection"), "keep-alive")
        is_kept(c)


@row("9112 9.3", "defined", "close wins over keep-alive.")
def close_goes_before_keep_alive(s):
    for version in ("1.0", "1.1"):
        with Connection(s.port) as c:
            answer = c.send(request("GET", "/", "Connection: keep-alive, close", version=version)).answer()
            same(answer.get("Connection"), "close")
            is_closed(c)


@row("9112 9.3", "MUST", "A body that the handler has not read is read to its end before the next request.")
def an_unread_body_is_no_request(s):
    with Connection(s.port) as c:
        status(c.send(request("POST", "/unread", body=b"GET /secret HTTP/1.1\r\nHost: a\r\n\r\n")).answer(), 200)
        is_kept(c)
        status(c.send(request("POST", "/unread", "Transfer-Encoding: chunked"), chunked(b"GET /secret HTTP/1.1\r\n\r\n")).answer(), 200)
        is_kept(c)


@row("9112 9.3", "MUST", "If a body is not read to its end, the connection is closed after the answer.")
def a_body_that_is_too_long_to_skip_closes(s):
    with Connection(s.port) as c:
        answer = c.send(request("POST", "/unread", "Content-Length: 900000")).answer()
        same((answer.status, answer.get("Connection")), (200, "close"))
        c.send(b"x" * 900000, request("GET", "/probe"))
        is_closed(c)


@row("9112 9.3.2", "MUST", "Answers to pipelined requests come in the order of the requests.")
def pipelined_requests_are_answered_in_order(s):
    with Connection(s.port) as c:
        c.send(b"".join(request("GET", f"/show?{i}") for i in range(20)), request("POST", "/echo", body=b"twenty"),
               request("GET", "/none"), request("GET", "/probe"))
        for i in range(20):
            same(c.answer().text().split("\n")[2], str(i))
        same(c.answer().text(), "twenty")
        status(c.answer(), 404)
        same(c.answer().text(), "probe\n")


@row("9112 9.6", "MUST", "After the answer to a request that says close, the server closes.")
def close_in_a_request_ends_the_connection(s):
    with Connection(s.port) as c:
        status(c.send(request("GET", "/", "Connection: Close")).answer(), 200)
        is_closed(c)


@row("9112 9.6", "MUST NOT", "No request behind one that says close is processed.")
def requests_behind_close_are_not_processed(s):
    before = ask(s, "GET", "/item").text()
    with Connection(s.port) as c:
        c.send(request("GET", "/", "Connection: close"), request("PUT", "/item", body=b""))
        status(c.answer(), 200)
        is_closed(c)
    same(ask(s, "GET", "/item").text(), before)


@row("9112 9.6", "SHOULD", "The last answer on a connection says close.")
def the_last_answer_says_close(s):
    same(ask(s, "GET", "/", "Connection: close").get("Connection"), "close")
    same(ask(s, "GET", "/", version="1.0").get("Connection"), "close")


@row("9112 9.6", "MUST", "After an answer that says close, the server closes.")
def close_in_an_answer_ends_the_connection(s):
    with Connection(s.port) as c:
        same(c.send(b"bad\r\n\r\n").answer().get("Connection"), "close")
        is_closed(c)


@row("9112 9.6", "MUST NOT", "No request behind an answer that says close is processed.")
def requests_behind_a_refusal_are_not_processed(s):
    before = ask(s, "GET", "/item").text()
    refused(s, b"bad\r\n\r\n" + request("PUT", "/item", body=b""))
    same(ask(s, "GET", "/item").text(), before)


@row("9112 9.6", "defined",
     "The server closes in two steps, so that a client that still sends can read the last answer.")
def a_client_that_still_sends_reads_the_refusal(s):
    with Connection(s.port) as c:
        status(c.send(request("POST", "/echo", "Content-Length: 2000000"), b"x" * 2000000).answer(), 413)
        is_closed(c)
        holds(not c.was_reset, "the connection was reset")


@row("9112 9.6", "defined", "A client that ends its sending half still gets the answers to its requests.")
def a_half_closed_client_gets_its_answers(s):
    with Connection(s.port) as c:
        c.send(request("GET", "/"), request("POST", "/echo", body=b"hi"), request("GET", "/parts")).end()
        same([c.answer().text() for _ in range(3)], ["hello\n", "hi", "one two\n"])
        is_closed(c)


@row("9110 7.6.1", "defined", "Connection options are compared without regard to case.")
def connection_options_have_no_case(s):
    same(ask(s, "GET", "/", "Connection: CLOSE").get("Connection"), "close")
    same(ask(s, "GET", "/", "Connection: Keep-ALIVE", version="1.0").get("Connection"), "keep-alive")


@row("9110 7.6.1", "MUST NOT",
     "Connection does not name fields that are meant for all recipients; a handler cannot add options.")
def a_handler_cannot_add_connection_options(s):
    for name in ("Connection", "Keep-Alive", "Upgrade"):
        same(ask(s, "GET", f"/field?name={name}&value=x").text(), "EINVAL\n")


@row("9110 7.6.1", "MUST",
     "A field about the connection is named in Connection. Answers have no such field beside Connection itself.")
def answers_have_no_field_about_the_connection(s):
    for fields in ((), ("Connection: keep-alive, TE, Upgrade", "Keep-Alive: timeout=5", "TE: trailers", "Upgrade: h2c")):
        for path in ("/", "/parts", "/files/file.txt"):
            answer = ask(s, "GET", path, *fields)
            for name in ("Keep-Alive", "TE", "Upgrade", "Trailer", "Proxy-Connection", "Connection"):
                same(answer.get(name), None, name)


@row("9110 7.8", "MUST", "With both Expect and Upgrade, 100 is sent before 101. weft sends 100 and no 101.")
def expect_goes_before_upgrade(s):
    with Connection(s.port) as c:
        c.send(request("POST", "/echo", "Expect: 100-continue", "Content-Length: 2", "Upgrade: h2c", "Connection: upgrade"))
        status(c.answer(), 100)
        same(c.send(b"hi").answer().text(), "hi")


@row("9110 7.8", "MUST NOT",
     "The server switches to no protocol that the client did not ask for, or that the server does not have.")
def upgrade_is_ignored(s):
    for protocol in ("websocket", "h2c", "TLS/1.0"):
        with Connection(s.port) as c:
            answer = c.send(request("GET", "/", f"Upgrade: {protocol}", "Connection: upgrade")).answer()
            same((answer.status, answer.get("Upgrade")), (200, None))
            is_kept(c)


@row("9110 7.8", "MUST", "Upgrade in an HTTP/1.0 request is ignored.")
def upgrade_in_http_1_0_is_ignored(s):
    status(ask(s, "GET", "/", "Upgrade: h2c", "Connection: upgrade", version="1.0"), 200)


@row("9110 15.2.2", "MUST", "A 101 has Upgrade. weft sends no 101, and a handler cannot.")
def a_handler_cannot_answer_101(s):
    same(ask(s, "GET", "/status/101").text(), "refused\n")


@row("9110 15.5.22", "MUST", "A 426 has Upgrade. weft knows no other protocol, so a handler cannot answer 426.")
def a_handler_cannot_answer_426(s):
    same(ask(s, "GET", "/status/426").text(), "refused\n")


@row("9110 10.1.1", "MUST",
     "100-continue gets an immediate final answer, or an immediate 100 before the content is waited for.")
def expect_gets_100_when_the_handler_reads(s):
    with Connection(s.port) as c:
        status(c.send(request("POST", "/echo", "Expect: 100-continue", "Content-Length: 2")).answer(), 100)
        same(c.send(b"hi").answer().text(), "hi")
        is_kept(c)


@row("9110 10.1.1", "MUST",
     "If the server can decide from the head alone, it answers 100-continue with the final status.")
def expect_gets_the_final_answer_of_a_handler_that_does_not_read(s):
    for raw, wanted in ((request("POST", "/none", "Expect: 100-continue", "Content-Length: 2"), 404),
                        (request("POST", "/unread", "Expect: 100-continue", "Content-Length: 2"), 200),
                        (request("POST", "/echo", "Expect: 100-continue", "Content-Length: 2000000"), 413)):
        with Connection(s.port) as c:
            status(c.send(raw).answer(), wanted)


@row("9110 10.1.1", "MUST NOT", "The content is not waited for before 100 is sent.")
def a_chunked_body_gets_100_before_its_first_octet(s):
    with Connection(s.port) as c:
        status(c.send(request("POST", "/echo", "Expect: 100-continue", "Transfer-Encoding: chunked")).answer(), 100)
        same(c.bytes, b"")  # and no other answer yet
        same(c.send(chunked(b"hi")).answer().text(), "hi")


@row("9110 10.1.1", "SHOULD", "An answer instead of 100 says whether the connection is closed.")
def an_answer_instead_of_100_says_close(s):
    with Connection(s.port) as c:
        answer = c.send(request("POST", "/unread", "Expect: 100-continue", "Content-Length: 2")).answer()
        same(answer.get("Connection"), "close")
        c.send(b"hi", request("GET", "/probe"))
        is_closed(c)


@row("9110 10.1.1", "MUST", "A 100 is followed by a final answer when the content was received.")
def a_final_answer_follows_100(s):
    with Connection(s.port) as c:
        status(c.send(request("POST", "/echo", "Expect: 100-continue", "Transfer-Encoding: chunked")).answer(), 100)
        same(c.send(chunked(b"hello")).answer().text(), "hello")


@row("9110 10.1.1", "MUST", "100-continue in an HTTP/1.0 request is ignored.")
def expect_in_http_1_0_is_ignored(s):
    with Connection(s.port) as c:
        c.send(request("POST", "/echo", "Expect: 100-continue", version="1.0", body=b"hi"))
        same(c.answer().text(), "hi")


@row("9110 15.2", "MUST NOT", "No 1xx is sent to an HTTP/1.0 client.")
def no_100_is_sent_to_http_1_0(s):
    with Connection(s.port) as c:
        c.send(request("POST", "/try", "Expect: 100-continue", "Content-Length: 2", version="1.0"))
        same(c.answer().status, 200)


@row("9110 15.5.18", "SHOULD", "An expectation other than 100-continue gets 417.")
def another_expectation_is_417(s):
    refused(s, request("POST", "/echo", "Expect: 200-ok", body=b"hi"), 417)
    refused(s, request("POST", "/echo", "Expect: 100-continue, 200-ok", body=b"hi"), 417)
    same(ask(s, "POST", "/echo", "Expect: ,", body=b"hi").text(), "hi")


@row("9112 7.4", "defined", "TE does not make the server send a coding that the client does not take.")
def te_changes_nothing(s):
    same(ask(s, "GET", "/parts", "TE:", "Connection: TE").get("Transfer-Encoding"), "chunked")
