"""Rows about the request line and field lines: RFC 9112, sections 2, 3 and 5; RFC 9110, sections 4, 5 and 7."""
from rows import ask, ask_raw, holds, refused, request, row, same, sees, status
from wire import Connection

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"


@row("9112 2.2", "MUST",
     "A message is parsed as octets in an encoding that contains US-ASCII: a field's value may have octets from "
     "0x80 on.")
def octets_above_ascii_in_a_value_reach_the_handler(s):
    same(sees(s, "X-Odd: \xe9\xff\x80")[-1], "X-Odd: \xe9\xff\x80")


@row("9112 2.2", "MUST",
     "A bare CR in a request line makes it invalid, or counts as a space.",
     stricter="400; it never counts as a space")
def a_bare_cr_in_the_request_line_is_400(s):
    refused(s, b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n")


@row("9112 2.2", "MUST",
     "A bare CR in a field makes it invalid, or counts as a space.",
     stricter="400; it never counts as a space")
def a_bare_cr_in_a_field_is_400(s):
    refused(s, GET + b"X-Odd: b\rc\r\n\r\n")


@row("9112 2.2", "MUST",
     "A line with white space before its name, between the request line and the first field, is refused or skipped.",
     stricter="400; it is never skipped")
def white_space_before_the_first_field_is_400(s):
    refused(s, b"GET / HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n")
    refused(s, b"GET / HTTP/1.1\r\n\tX: b\r\nHost: a\r\n\r\n")


@row("9112 2.2", "MUST NOT",
     "No white space is sent between the status line and the first field, and no bare CR outside of content.")
def every_kind_of_answer_matches_the_grammar(s):
    for raw, wanted in ((request("GET", "/"), 200), (request("GET", "/none"), 404), (request("POST", "/"), 405),
                        (b"\x00", 400), (request("GET", "/moved"), 302), (request("GET", "/parts"), 200)):
        status(ask_raw(s, raw), wanted)  # the reader is strict


@row("9112 2.2", "SHOULD",
     "One empty line before the request line is ignored.",
     stricter="a second one is refused, and so is one that is not CR LF")
def one_empty_line_before_a_request_is_ignored(s):
    status(ask_raw(s, b"\r\n" + request("GET", "/")), 200)
    refused(s, b"\r\n\r\n" + request("GET", "/"))
    refused(s, b"\n" + request("GET", "/"))


@row("9112 2.2", "SHOULD",
     "A request that does not match the grammar gets 400, and the connection is closed.",
     stricter="a line that ends with LF alone is refused too, though a server may take it")
def bytes_that_are_no_request_are_400_and_the_end(s):
    refused(s, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
    refused(s, b"GET / HTTP/1.1\nHost: a\n\n")
    refused(s, b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n")


@row("9112 2.3", "defined", "The name of the version is compared with case.")
def the_name_of_the_version_has_a_case(s):
    refused(s, b"GET / http/1.1\r\nHost: a\r\n\r\n")


@row("9110 6.2", "MUST NOT", "No answer has a version to which the server does not conform.")
def every_answer_is_http_1_1(s):
    for version, wanted in (("1.0", 200), ("1.1", 200), ("2.0", 505), ("3.0", 505), ("0.9", 505)):
        answer = status(ask(s, "GET", "/", version=version), wanted)
        holds(answer.head.startswith(b"HTTP/1.1 "), "version")


@row("9110 6.2", "SHOULD", "A minor version above the highest known version is handled as the highest known version.",
     stricter="otherwise: 505, because no such version exists")
def http_1_2_is_505(s):
    refused(s, request("GET", "/", version="1.2"), 505)


@row("9112 3", "SHOULD", "An invalid request line gets 400, and is not repaired.")
def an_invalid_request_line_is_400(s):
    for line in (b"GET  / HTTP/1.1", b"GET /  HTTP/1.1", b"GET / HTTP/1.1 ", b" GET / HTTP/1.1", b"GET\t/ HTTP/1.1",
                 b"GET /a b HTTP/1.1", b"GET", b"GET /", b"G(T / HTTP/1.1"):
        refused(s, line + b"\r\nHost: a\r\n\r\n")


@row("9112 3", "MUST", "A target that is longer than the server parses gets 414.")
def a_target_that_is_too_long_is_414(s):
    refused(s, request("GET", "/" + "a" * 20000), 414)


@row("9112 3", "SHOULD", "A request line of 8000 octets is accepted.")
def a_request_line_of_8000_octets_is_taken(s):
    target = "/show?" + "a" * (8000 - len("GET /show? HTTP/1.1\r\n"))
    same(ask(s, "GET", target).text().startswith("GET\n/show\naaa"), True, "what the handler saw")


@row("9112 3", "SHOULD", "A method that is longer than all implemented methods gets 501.")
def a_long_method_is_501(s):
    status(ask(s, "A" * 32, "/"), 405)  # this server has a route for all methods, so it knows each
    refused(s, request("A" * 33, "/"), 501)


@row("9112 3.1", "defined", "The method is compared with case.")
def get_in_lower_case_is_another_method(s):
    status(ask(s, "get", "/"), 405)
    same(ask(s, "get", "/show").text().split("\n")[0], "get")


@row("9112 3.2", "MUST", "An HTTP/1.1 request without Host gets 400.")
def no_host_is_400(s):
    refused(s, request("GET", "/", host=None))


@row("9112 3.2", "MUST", "A request with more than one Host gets 400.")
def two_hosts_are_400(s):
    refused(s, request("GET", "/", "Host: a"))
    refused(s, request("GET", "/", "host: b"))
    refused(s, request("GET", "/", "Host: a", version="1.0"))


@row("9112 3.2", "MUST",
     "A request with an invalid Host gets 400.",
     stricter="percent-encoding in a host is refused too")
def an_invalid_host_is_400(s):
    for host in ("a b", "a/b", "a@b", "a:b", "a:99999", "[::1", "[1]", "a?b", "a#b", "%41", "\xe9", "a:80:80"):
        refused(s, request("GET", "/", host=host))


@row("9112 3.2", "defined", "An empty Host is valid: it stands for a target without an authority.")
def an_empty_host_is_taken(s):
    same(sees(s, host="")[3], "")


@row("9110 7.2", "defined",
     "The program can tell its sites apart by the host and port in Host.",
     by="handler")
def the_handler_sees_host_and_port(s):
    same(sees(s, host="example.org:8080")[3], "example.org:8080")
    same(sees(s, host="[::1]:80")[3], "[::1]:80")


@row("9112 3.2.1", "defined", "The origin form is accepted, and the handler gets path and query as they were sent.")
def the_origin_form_has_path_and_query(s):
    same(sees(s, target="/show/%41?b=%20&c")[1:3], ["/show/%41", "b=%20&c"])


@row("9112 3.2.2", "MUST", "The absolute form is accepted with any method.")
def the_absolute_form_is_taken(s):
    same(sees(s, target="http://a/show?b")[1:3], ["/show", "b"])
    same(ask(s, "POST", "http://a/echo", body=b"x").text(), "x")
    status(ask(s, "GET", "HTTP://a"), 200)


@row("9112 3.2.2", "MUST", "With the absolute form, the host is that of the target, and the value of Host is ignored.")
def the_host_of_an_absolute_target_wins(s):
    same(sees(s, target="http://b:81/show", host="a")[3], "b:81")


@row("9110 4.2.1", "MUST", "A target of the scheme http with an empty host is refused.")
def an_absolute_target_without_a_host_is_400(s):
    for target in ("http:///", "http://", "http://:80/", "http:/a"):
        refused(s, request("GET", target))


@row("9110 4.2.4", "SHOULD", "User information in a target is an error.")
def user_information_in_a_target_is_400(s):
    refused(s, request("GET", "http://user@a/"))
    refused(s, request("GET", "http://user:secret@a/"))


@row("9110 7.4", "MUST", "A request for a resource of the scheme https is refused on a connection that is not secured.",
     stricter="421 for a trusted gateway too: gateways send the origin form")
def an_https_target_on_a_plain_connection_is_421(s):
    refused(s, request("GET", "https://a/"), 421)
    refused(s, request("GET", "HTTPS://a/"), 421)


@row("9112 3.2.3", "defined", "Only CONNECT may have the authority form.")
def the_authority_form_is_that_of_connect(s):
    status(ask(s, "CONNECT", "a:80"), 501)
    refused(s, request("GET", "a:80"))
    refused(s, request("CONNECT", "/"))


@row("9112 3.2.4", "defined", "Only OPTIONS may have the asterisk form.")
def the_asterisk_form_is_that_of_options(s):
    status(ask(s, "OPTIONS", "*"), 204)
    refused(s, request("GET", "*"))


@row("9112 3.3", "defined",
     "If an HTTP/1.0 request names no host, the server does not invent a host.",
     by="handler")
def a_request_of_http_1_0_may_have_no_host(s):
    same(sees(s, host=None, version="1.0")[3], "")


@row("9112 5", "defined", "Names of fields are compared without regard to case.")
def names_of_fields_have_no_case(s):
    status(ask_raw(s, b"GET / HTTP/1.1\r\nhOST: a\r\n\r\n"), 200)
    same(ask_raw(s, b"POST /echo HTTP/1.1\r\nHOST: a\r\ncontent-LENGTH: 2\r\n\r\nhi").text(), "hi")


@row("9112 5.1", "MUST", "White space between a field's name and its colon gets 400.")
def a_space_before_a_colon_is_400(s):
    refused(s, GET + b"X-Odd : b\r\n\r\n")
    refused(s, GET + b"X-Odd\t: b\r\n\r\n")
    refused(s, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length : 2\r\n\r\nhi")


@row("9112 5.1", "defined", "White space around a value does not belong to it.")
def white_space_around_a_value_is_cut_off(s):
    same(sees(s, "X-Odd: \t b c \t ")[-1], "X-Odd: b c")
    same(sees(s, "X-Odd:b")[-1], "X-Odd: b")


@row("9112 5.2", "MUST",
     "A folded field gets 400, or its folds are replaced by spaces.",
     stricter="400; folds are never replaced")
def a_folded_field_is_400(s):
    refused(s, GET + b"X-Odd: b\r\n c\r\n\r\n")
    refused(s, GET + b"X-Odd: b\r\n\tc\r\n\r\n")
    refused(s, GET + b"X-Odd:\r\n b\r\n\r\n")


@row("9112 5.2", "MUST NOT", "No folded field is sent: a handler cannot add a value with a line end.")
def a_handler_cannot_fold_a_field(s):
    same(ask(s, "GET", "/field?name=X-Odd&value=a%0D%0A%20b").text(), "EINVAL\n")
    same(ask(s, "GET", "/field?name=X-Odd&value=a%0Ab").text(), "EINVAL\n")


@row("9110 2.3", "MUST", "An element of a request may be as long as one that the server itself sends.")
def a_target_may_be_as_long_as_a_location(s):
    location = status(ask(s, "GET", "/files/sub?" + "a" * 12000), 301).get("Location")
    same(len(location), len("/files/sub/?") + 12000)
    status(ask(s, "GET", location, "X-Long: " + "v" * 3000), 200)


@row("9110 3.3", "MUST NOT",
     "The server does not assume that all requests of a connection come from one user: it keeps nothing of a request "
     "for the next one.")
def nothing_of_a_request_stays_for_the_next(s):
    with Connection(s.port) as c:
        c.send(request("GET", "/show?q", "Authorization: x", "Cookie: a=b", host="b"), request("GET", "/show", host="a"))
        c.answer()
        same(c.answer().text(), "GET\n/show\n\na\n1.1\nHost: a\n")


@row("9110 2.2", "MUST NOT",
     "Nothing is sent that does not match the grammar: a handler cannot add a malformed name or value.")
def a_handler_cannot_add_a_malformed_field(s):
    for name in ("", "a%20b", "a%3A", "a%0D%0Ab", "%C3%A9"):
        same(ask(s, "GET", f"/field?name={name}&value=b").text(), "EINVAL\n")
    for value in ("a%0Db", "a%00b", "%01", "%7F", "%20a", "a%20"):
        same(ask(s, "GET", f"/field?name=X-Odd&value={value}").text(), "0\n" if value == "a%00b" else "EINVAL\n")


@row("9110 5.1", "SHOULD", "Fields that are not known are ignored.")
def an_unknown_field_is_ignored(s):
    status(ask(s, "GET", "/", "No-Such-Field: 1", "Via: 1.0 b", "Max-Forwards: 0"), 200)


@row("9110 5.2", "defined", "Fields of one name keep their order, so that their values can be joined.")
def lines_of_one_name_keep_their_order(s):
    same(sees(s, "X-Odd: 1", "X-Even: 2", "x-odd: 3")[-3:], ["X-Odd: 1", "X-Even: 2", "x-odd: 3"])


@row("9110 5.3", "MUST NOT", "No answer has a field twice unless the field is a list.")
def answers_have_each_field_once(s):
    for answer in (ask(s, "GET", "/"), ask(s, "GET", "/files/twin.txt"), ask(s, "POST", "/"), ask(s, "OPTIONS", "/"),
                   ask(s, "GET", "/parts"), ask_raw(s, b"bad\r\n\r\n")):
        names = [name for name, _ in answer.fields]
        same(len(names), len(set(names)), "names of fields")


@row("9110 5.3", "MUST NOT", "A request is not applied before its whole header section has come.")
def a_head_without_its_end_does_nothing(s):
    before = ask(s, "GET", "/item").text()
    with_end = request("PUT", "/item", body=b"")
    with Connection(s.port) as c:
        c.send(with_end[:-2]).end()
        same(c.rest(), b"", "answer")
    same(ask(s, "GET", "/item").text(), before)


@row("9110 5.4", "MUST", "Too many or too large fields get a 4xx status.")
def too_many_or_too_large_fields_are_431(s):
    refused(s, request("GET", "/", "X-Long: " + "v" * 17000), 431)
    refused(s, request("GET", "/", *["X: y"] * 200), 431)


@row("9110 5.5", "MUST",
     "CR, LF or NUL in a value is refused, or replaced by a space.",
     stricter="400; they are never replaced")
def cr_lf_and_nul_in_a_value_are_400(s):
    for odd in (b"\r", b"\n", b"\0"):
        refused(s, GET + b"X-Odd: b" + odd + b"c\r\n\r\n")


@row("9110 5.5", "MUST", "White space around a value is excluded before the value is used.")
def white_space_around_a_length_is_excluded(s):
    same(ask_raw(s, b"POST /echo HTTP/1.1\r\nHost:\t a \r\nContent-Length: \t 2 \r\n\r\nhi").text(), "hi")


@row("9110 5.6.1.1", "MUST NOT", "No empty elements of lists are sent.")
def lists_in_answers_have_no_empty_elements(s):
    for answer in (ask(s, "POST", "/"), ask(s, "OPTIONS", "*"), ask(s, "OPTIONS", "/echo"), ask(s, "GET", "/refused")):
        holds(all(part.strip() for part in answer.get("Allow").split(",")), answer.get("Allow"))


@row("9110 5.6.1.2", "MUST", "Empty elements of a list are ignored.",
     stricter="400 in Transfer-Encoding, whose value must have one meaning for every server")
def empty_elements_of_a_list_are_ignored(s):
    same(ask(s, "GET", "/", "Connection: , ,close,").get("Connection"), "close")
    tag = ask(s, "GET", "/files/file.txt").get("ETag")
    status(ask(s, "GET", "/files/file.txt", f"If-None-Match: ,, {tag},"), 304)
    same(ask(s, "GET", "/files/twin.txt", "Accept-Encoding: , ,gzip").get("Content-Encoding"), "gzip")
    refused(s, request("POST", "/echo", "Transfer-Encoding: , chunked") + b"0\r\n\r\n")


@row("9110 5.6.4", "MUST", "A backslash in a quoted string takes the octet behind it as it is.")
def a_quoted_pair_does_not_end_a_quoted_string(s):
    raw = request("POST", "/echo", "Transfer-Encoding: chunked") + b'2;a="b\\";c\\\\"\r\nhi\r\n0\r\n\r\n'
    same(ask_raw(s, raw).text(), "hi")
