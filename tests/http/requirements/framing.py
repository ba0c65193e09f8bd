"""Rows about bodies and how long they are: RFC 9112, sections 6 to 8; RFC 9110, sections 6 and 8.6."""
from rows import ask, ask_raw, chunked, holds, is_closed, is_kept, refused, request, row, same, status
from wire import Connection, Wrong

CODED = request("POST", "/echo", "Transfer-Encoding: chunked")


def lengths(*values):
    return request("POST", "/echo", *(f"Content-Length: {value}" for value in values)) + b"hello"


@row("9112 6.1", "MUST", "The chunked coding is parsed.")
def a_chunked_body_is_decoded(s):
    same(ask_raw(s, CODED + chunked(b"hello", b" ", b"world")).text(), "hello world")
    same(ask_raw(s, CODED + chunked()).text(), "")


@row("9112 7", "defined", "Names of transfer codings are compared without regard to case.")
def chunked_has_no_case(s):
    same(ask_raw(s, request("POST", "/echo", "Transfer-Encoding: ChUnKeD") + chunked(b"hi")).text(), "hi")


@row("9112 6.1", "MUST NOT", "The chunked coding is applied once at most; a handler cannot add another one.")
def an_answer_is_chunked_once(s):
    same(ask(s, "GET", "/parts").all("Transfer-Encoding"), ["chunked"])
    same(ask(s, "GET", "/field?name=Transfer-Encoding&value=chunked").text(), "EINVAL\n")


@row("9112 6.1", "MUST",
     "If another coding than chunked is applied to an answer, chunked is the last one, or the connection is closed.")
def no_other_coding_is_applied(s):
    answer = ask(s, "GET", "/parts", "TE: gzip, deflate", "Connection: TE")
    same((answer.get("Transfer-Encoding"), answer.text()), ("chunked", "one two\n"))


@row("9112 6.1", "MUST NOT", "No 1xx or 204 answer has Transfer-Encoding.")
def no_204_and_no_100_has_a_coding(s):
    same(status(ask(s, "GET", "/status/204?parts"), 204).get("Transfer-Encoding"), None)
    with Connection(s.port) as c:
        c.send(request("POST", "/echo", "Expect: 100-continue", "Content-Length: 2"))
        same(status(c.answer(), 100).fields, [])


@row("9112 6.1", "MUST NOT", "No answer to an HTTP/1.0 request has Transfer-Encoding.")
def an_answer_to_http_1_0_is_not_chunked(s):
    answer = ask(s, "GET", "/parts", "Connection: keep-alive", version="1.0")
    same((answer.framing, answer.text(), answer.get("Connection")), ("close", "one two\n", "close"))


@row("9112 6.1", "MUST",
     "An HTTP/1.0 request with Transfer-Encoding has a faulty framing: the connection is closed after it.",
     stricter="400; it is not processed")
def a_coding_in_http_1_0_is_400(s):
    refused(s, request("POST", "/echo", "Transfer-Encoding: chunked", "Connection: keep-alive", version="1.0") + chunked(b"hi"))


@row("9112 6.1", "MUST",
     "After a request with both Transfer-Encoding and Content-Length the connection is closed.",
     stricter="400; it is not processed")
def a_length_beside_a_coding_is_400(s):
    refused(s, request("POST", "/echo", "Content-Length: 5", "Transfer-Encoding: chunked") + chunked(b"hi"))
    refused(s, request("POST", "/echo", "Transfer-Encoding: chunked", "Content-Length: 5") + chunked(b"hi"))


@row("9112 6.1", "SHOULD", "A transfer coding that is not understood gets 501.")
def an_unknown_coding_is_501(s):
    refused(s, request("POST", "/echo", "Transfer-Encoding: gzip, chunked") + chunked(b"hi"), 501)
    refused(s, request("POST", "/echo", "Transfer-Encoding: none-such;a=b, chunked") + chunked(b"hi"), 501)


@row("9112 6.2", "MUST NOT", "No answer has both Content-Length and Transfer-Encoding.")
def an_answer_has_a_length_or_is_chunked(s):
    for path, framing in (("/", "length"), ("/parts", "chunks"), ("/sized", "length"), ("/status/200?length", "length"),
                          ("/status/200?parts", "chunks"), ("/files/large.txt", "length")):
        same(ask(s, "GET", path).framing, framing, path)


@row("9112 6.3", "defined", "An answer to HEAD, and a 1xx, 204 or 304 answer, ends with its header section.")
def answers_without_a_body_end_with_their_head(s):
    tag = ask(s, "GET", "/files/file.txt").get("ETag")
    with Connection(s.port) as c:
        for raw, method in ((request("HEAD", "/"), "HEAD"), (request("HEAD", "/parts"), "HEAD"),
                            (request("HEAD", "/sized"), "HEAD"), (request("HEAD", "/none"), "HEAD"),
                            (request("GET", "/status/204"), "GET"), (request("GET", "/status/304"), "GET"),
                            (request("GET", "/status/304?length"), "GET"), (request("GET", "/status/204?parts"), "GET"),
                            (request("GET", "/files/file.txt", f"If-None-Match: {tag}"), "GET")):
            same(c.send(raw).answer(method).framing, "none")
        is_kept(c)


@row("9112 6.3", "MUST",
     "If chunked is there and is not the last coding, the request gets 400, and the connection is closed.")
def chunked_that_is_not_last_is_400(s):
    for value in ("chunked, gzip", "gzip", "identity", "chunked, chunked", "xchunked", "chunked;a=b", ""):
        refused(s, request("POST", "/echo", f"Transfer-Encoding: {value}") + chunked(b"hi"))


@row("9112 6.3", "MUST", "An invalid Content-Length gets 400, and the connection is closed.")
def an_invalid_length_is_400(s):
    for value in ("+5", "-5", "5a", "0x5", "5 5", "", "five", "5.0", "\xb5", "5;", "1e1"):
        refused(s, lengths(value))


@row("9112 6.3", "MUST", "Several values of Content-Length that differ get 400, and the connection is closed.")
def lengths_that_differ_are_400(s):
    refused(s, lengths("5", "6"))
    refused(s, lengths("5, 6"))


@row("9110 8.6", "MUST",
     "Repeated equal values of Content-Length are refused, or count as one value.",
     stricter="400; they never count as one")
def equal_lengths_are_400(s):
    refused(s, lengths("5", "5"))
    refused(s, lengths("5, 5"))


@row("9110 8.6", "MUST", "A Content-Length that does not fit an integer is not misread.")
def a_huge_length_is_400(s):
    for value in ("18446744073709551616", "18446744073709551621", "9223372036854775808", "9" * 40):
        refused(s, lengths(value))
    status(ask_raw(s, request("POST", "/echo", "Content-Length: 9223372036854775807")), 413)
    same(ask_raw(s, lengths("0" * 30 + "5")).text(), "hello")


@row("9112 6.3", "MUST",
     "A body that ends before its Content-Length is incomplete: the connection is closed, and the request is not "
     "processed as if it were whole.")
def a_body_that_ends_too_early_is_incomplete(s):
    with Connection(s.port) as c:
        c.send(request("POST", "/echo", "Content-Length: 10"), b"hello").end()
        status(c.answer(), 400)
        is_closed(c)


@row("9112 6.3", "defined", "A request without Content-Length and Transfer-Encoding has no body.")
def a_request_without_framing_has_no_body(s):
    with Connection(s.port) as c:
        same(c.send(request("POST", "/echo")).answer().text(), "")
        is_kept(c)


@row("9112 6", "defined", "The length of a request's body does not depend on the method.")
def a_get_may_have_a_body(s):
    with Connection(s.port) as c:
        status(c.send(request("GET", "/", body=b"GET / HTTP/1.1\r\n\r\n")).answer(), 200)
        status(c.send(request("DELETE", "/", "Transfer-Encoding: chunked"), chunked(b"hi")).answer(), 405)
        is_kept(c)


@row("9112 7.1", "MUST", "The chunked coding is decoded, whatever its chunks' sizes and however they arrive.")
def chunks_may_come_byte_by_byte(s):
    with Connection(s.port) as c:
        for byte in CODED + b"00a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n":
            c.send(bytes([byte]))
        same(c.answer().text(), "0123456789" * 2)
        is_kept(c)


@row("9112 7.1", "MUST", "A chunk's size that does not fit an integer is not misread.")
def a_huge_chunk_size_is_400(s):
    for size in (b"10000000000000000", b"ffffffffffffffff", b"8000000000000000", b"1" + b"0" * 40):
        refused(s, CODED + size + b"\r\nhi\r\n0\r\n\r\n")


@row("9112 7.1", "defined", "A chunk's size is hex digits and nothing else.")
def a_malformed_chunk_size_is_400(s):
    for size in (b"", b"0x2", b"+2", b"-2", b" 2", b"2 ", b"g", b"2\t", b"\xb2"):
        refused(s, CODED + size + b"\r\nhi\r\n0\r\n\r\n")


@row("9112 7.1", "defined", "A chunk ends with CR LF, behind as many octets as its size says.")
def a_chunk_of_another_size_is_400(s):
    for body in (b"1\r\nhi\r\n0\r\n\r\n", b"3\r\nhi\r\n0\r\n\r\n", b"2\r\nhi\n0\r\n\r\n", b"2\nhi\r\n0\r\n\r\n", b"2\r\nhi0\r\n\r\n"):
        refused(s, CODED + body)


@row("9112 7.1", "SHOULD", "Parameters of chunked are an error.")
def a_parameter_of_chunked_is_400(s):
    refused(s, request("POST", "/echo", "Transfer-Encoding: chunked; a=b") + chunked(b"hi"))


@row("9112 7.1.1", "MUST", "Chunk extensions that are not known are ignored.")
def chunk_extensions_are_ignored(s):
    body = b'2;a\r\nhi\r\n4;a=b;c="d e"\r\n you\r\n0;end\r\n\r\n'
    same(ask_raw(s, CODED + body).text(), "hi you")


@row("9110 5.6.3", "MUST",
     "White space that the grammar calls bad is removed (in chunk extensions).",
     stricter="otherwise: 400, because servers that skip it were tricked")
def white_space_in_a_chunk_extension_is_400(s):
    refused(s, CODED + b"2 ;a\r\nhi\r\n0\r\n\r\n")
    refused(s, CODED + b"2; a\r\nhi\r\n0\r\n\r\n")
    refused(s, CODED + b"2;a =b\r\nhi\r\n0\r\n\r\n")


@row("9112 7.1.1", "SHOULD", "The length of chunk extensions is limited; above the limit the answer is 4xx.")
def long_chunk_extensions_are_400(s):
    refused(s, CODED + b"2;a=" + b"b" * 300 + b"\r\nhi\r\n0\r\n\r\n")
    refused(s, CODED + b"1;abcdefghijklmnop\r\nx\r\n" * 1500 + b"0\r\n\r\n")


@row("9112 7.1.2", "MUST", "Trailer fields are discarded, or kept apart from the header fields.")
def trailer_fields_are_no_header_fields(s):
    raw = request("POST", "/show", "Transfer-Encoding: chunked") + chunked(b"hi", trailer=b"X-Trailer: 1\r\nExpires: 0\r\n")
    holds("Trailer: 1" not in ask_raw(s, raw).text(), "the handler sees a trailer field")
    same(ask_raw(s, CODED + chunked(b"hi", trailer=b"X-Trailer: 1\r\n")).text(), "hi")


@row("9110 6.5.1", "MUST NOT", "Trailer fields about framing and routing have no effect.", stricter="400")
def trailer_fields_about_framing_are_400(s):
    for field in (b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: b"):
        refused(s, CODED + chunked(b"hi", trailer=field + b"\r\n"))


@row("9110 6.5.1", "MUST NOT", "No trailer field is sent whose meaning in a trailer is not defined.")
def no_trailer_is_sent(s):
    same(ask(s, "GET", "/parts", "TE: trailers", "Connection: TE").framing, "chunks")  # the reader takes no trailer
    same(ask(s, "GET", "/field?name=Trailer&value=X-Odd").text(), "EINVAL\n")


@row("9112 8", "defined",
     "A chunked body without its last chunk is incomplete, and is not processed as if it were whole.")
def chunks_without_the_last_one_are_incomplete(s):
    with Connection(s.port) as c:
        c.send(CODED, b"5\r\nhello\r\n").end()
        status(c.answer(), 400)
        is_closed(c)


@row("9110 2.2", "MUST NOT",
     "An answer that a handler cannot complete is cut, so that the client sees that it is incomplete.")
def an_answer_that_fails_is_cut(s):
    with Connection(s.port) as c:
        rest = c.send(request("GET", "/breaks")).rest()
        holds(b"half" in rest and not rest.endswith(b"0\r\n\r\n"), rest)
    with Connection(s.port) as c:
        rest = c.send(request("GET", "/breaks?length")).rest()
        holds(rest.endswith(b"\r\n\r\nhalf") and b"Content-Length: 100\r\n" in rest, rest)


@row("9110 8.6", "MUST NOT", "An answer to HEAD has no other Content-Length than the answer to GET would have.")
def head_has_the_length_of_get(s):
    for path in ("/", "/sized", "/none", "/files/file.txt", "/files/large.txt", "/status/205"):
        same(ask(s, "HEAD", path).get("Content-Length"), ask(s, "GET", path).get("Content-Length"), path)
    same(ask(s, "HEAD", "/parts").get("Content-Length"), None)


@row("9110 8.6", "MUST NOT", "A 304 has no other Content-Length than the 200 would have.")
def a_304_has_no_wrong_length(s):
    tag = ask(s, "GET", "/files/file.txt").get("ETag")
    same(status(ask(s, "GET", "/files/file.txt", f"If-None-Match: {tag}"), 304).get("Content-Length"), None)
    same(status(ask(s, "GET", "/status/304"), 304).get("Content-Length"), None)


@row("9110 8.6", "MUST NOT", "No 1xx or 204 answer has Content-Length, even if the handler adds it.")
def a_204_has_no_length(s):
    for how in ("", "?parts", "?length"):
        same(status(ask(s, "GET", "/status/204" + how), 204).get("Content-Length"), None)
    same(status(ask(s, "OPTIONS", "/"), 204).get("Content-Length"), None)


@row("9110 8.6", "MUST NOT", "No Content-Length is sent that is wrong: a handler cannot send more or fewer octets.")
def a_body_has_the_length_that_its_head_says(s):
    same(ask(s, "GET", "/sized").body, b"one two\n")
    with Connection(s.port) as c:
        c.send(request("GET", "/breaks?length"))
        try:
            c.answer()
        except Wrong as wrong:
            same(str(wrong), "the server ended after 4 of 100 bytes")
        else:
            raise Wrong("a short body looks complete")


@row("9110 6.4", "defined", "What the handler reads is the content as it was sent, octet by octet.")
def content_may_have_any_octet(s):
    every = bytes(range(256)) * 300
    same(ask(s, "POST", "/echo", body=every).body, every)
    same(ask_raw(s, CODED + chunked(every, every)).body, every * 2)
