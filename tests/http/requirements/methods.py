"""Rows about methods, statuses and the fields of answers: RFC 9110, sections 6.6, 8, 9, 10.2, 11, 12 and 15."""
import calendar
import email.utils
import re
import time

from rows import ask, ask_raw, holds, refused, request, row, same, status
from wire import Connection

IMF = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT"
MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"


def seconds(date):
    holds(re.fullmatch(IMF, date), date)
    return email.utils.parsedate_to_datetime(date).timestamp()


# ---- Date and the form of dates


@row("9110 6.6.1", "MUST", "2xx, 3xx and 4xx answers have Date.")
def answers_have_date(s):
    for raw in (request("GET", "/"), request("GET", "/status/204"), request("GET", "/moved"), request("GET", "/none"),
                request("POST", "/"), b"bad\r\n\r\n", request("GET", "/files/file.txt"), request("GET", "/files/sub"),
                request("GET", "/files/file.txt", "If-None-Match: *"), request("GET", "/status/500")):
        holds(ask_raw(s, raw).get("Date") is not None, raw)


@row("9110 6.6.1", "SHOULD", "Date is the time of the answer as well as the server knows it.")
def date_is_now(s):
    before = int(time.time())
    date = seconds(ask(s, "GET", "/").get("Date"))
    holds(before - 1 <= date <= time.time() + 1, (before, date))


@row("9110 5.6.7", "MUST", "Dates are sent in the form of IMF-fixdate, always in GMT.")
def dates_are_sent_as_imf_fixdate(s):
    answer = ask(s, "GET", "/files/file.txt")
    seconds(answer.get("Date"))
    same(answer.get("Last-Modified"), MODIFIED)


@row("9110 5.6.7", "MUST", "All three forms of dates are read.")
def all_three_forms_of_dates_are_understood(s):
    for date in (MODIFIED, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"):
        status(ask(s, "GET", "/files/file.txt", f"If-Modified-Since: {date}"), 304)
        status(ask(s, "GET", "/files/file.txt", f"If-Unmodified-Since: {date}"), 200)
    for date in ("Sun, 06 Nov 1994 08:49:36 GMT", "Sunday, 06-Nov-94 08:49:36 GMT", "Sun Nov  6 08:49:36 1994"):
        status(ask(s, "GET", "/files/file.txt", f"If-Modified-Since: {date}"), 200)


@row("9110 5.6.7", "MUST",
     "A year of two digits that would be more than 50 years ahead is the latest past year with these digits.")
def a_year_of_two_digits_is_not_far_ahead(s):
    now = time.gmtime().tm_year
    for years, wanted in ((60, 40), (40, None)):  # ahead as digits; as they are meant: years ago, or as they are
        year = now + years if wanted is None else now - wanted
        begin = calendar.timegm((year, 11, 6, 8, 49, 37))
        day = time.strftime("%A", time.gmtime(begin))
        date = f"{day}, 06-Nov-{(now + years) % 100:02d} 08:49:37 GMT"
        status(ask(s, "GET", "/files/file.txt", f"If-Modified-Since: {date}"), 304 if begin >= 784111777 else 200)


# ---- methods


@row("9110 9.1", "MUST", "GET is supported.")
def get_is_supported(s):
    same(ask(s, "GET", "/").text(), "hello\n")
    same(ask(s, "GET", "/files/file.txt").text(), "0123456789")


@row("9110 9.1", "MUST", "HEAD is supported: a route of GET answers it.")
def head_is_supported(s):
    status(ask(s, "HEAD", "/"), 200)
    status(ask(s, "HEAD", "/files/file.txt"), 200)


@row("9110 9.1", "SHOULD", "A method that the server knows, and the resource does not have, gets 405.")
def a_method_that_a_resource_does_not_have_is_405(s):
    status(ask(s, "DELETE", "/"), 405)
    status(ask(s, "POST", "/files/file.txt", body=b"x"), 405)


@row("9110 9.3.2", "MUST NOT", "An answer to HEAD has no content.")
def head_has_no_content(s):
    with Connection(s.port) as c:
        for path in ("/", "/parts", "/sized", "/none", "/files/file.txt", "/files/large.txt", "/status/500"):
            c.send(request("HEAD", path)).answer("HEAD")
        is_next = c.send(request("GET", "/probe")).answer()
        same(is_next.text(), "probe\n")


@row("9110 9.3.2", "SHOULD", "HEAD gets the fields of GET.")
def head_has_the_fields_of_get(s):
    for path in ("/", "/files/file.txt", "/files/large.txt", "/none", "/moved"):
        get, head = ask(s, "GET", path), ask(s, "HEAD", path)
        same(sorted(f for f in head.fields if f[0] != "date"), sorted(f for f in get.fields if f[0] != "date"), path)


@row("9110 9.3.4", "MUST", "PUT of a new resource gets 201.", by="handler")
def a_handler_can_answer_put_by_201(s):
    status(ask(s, "PUT", "/new", body=b"x"), 201)


@row("9110 9.3.4", "MUST", "PUT of a resource that is there gets 200 or 204.", by="handler")
def a_handler_can_answer_put_by_204(s):
    ask(s, "PUT", "/item", body=b"x")
    status(ask(s, "PUT", "/item", body=b"y"), 204)


@row("9110 9.3.4", "MUST NOT", "An answer to PUT has no validator that the handler has not given.")
def an_answer_to_put_has_no_validator(s):
    answer = ask(s, "PUT", "/item", body=b"x")
    same((answer.get("ETag"), answer.get("Last-Modified")), (None, None))


@row("9110 9.3.6", "MUST", "CONNECT to an empty or invalid port is refused.")
def connect_without_a_valid_port_is_400(s):
    for target in ("a", "a:", "a:0", "a:70000", "a:x", ":80", "http://a:80", "u@a:80"):
        refused(s, request("CONNECT", target), 400, "CONNECT")


@row("9110 9.3.6", "MUST NOT",
     "No 2xx to CONNECT has Content-Length or Transfer-Encoding. weft makes no tunnels: each CONNECT gets 501.")
def connect_is_501(s):
    refused(s, request("CONNECT", "example.org:443"), 501, "CONNECT")  # what follows may be meant for the tunnel


@row("9110 9.3.7", "SHOULD", "OPTIONS tells what a resource, or the server, allows.")
def options_tells_the_methods(s):
    same(ask(s, "OPTIONS", "/").get("Allow"), "GET, HEAD, OPTIONS")
    same(ask(s, "OPTIONS", "/echo").get("Allow"), "OPTIONS, POST")
    holds("GET" in ask(s, "OPTIONS", "*").get("Allow"), "Allow")


@row("9110 9.3.8", "SHOULD", "TRACE does not show secrets. weft has no TRACE of its own.")
def trace_is_405(s):
    answer = status(ask(s, "TRACE", "/", "Cookie: secret"), 405)
    holds("secret" not in answer.text(), "the answer shows a cookie")


@row("9110 9.2.1", "MUST",
     "A safe method causes no unsafe action: each method has its own handler.",
     by="handler")
def a_handler_of_put_is_not_called_for_get(s):
    before = ask(s, "GET", "/item").text()
    status(ask(s, "GET", "/item?method=PUT", "X-HTTP-Method-Override: PUT"), 200)
    same(ask(s, "GET", "/item").text(), before)


@row("9110 8.7", "MUST NOT",
     "Content-Location of a request does not change what the request means. The handler sees it as a plain field.")
def content_location_does_not_change_the_target(s):
    text = ask(s, "GET", "/show", "Content-Location: /other").text()
    holds(text.startswith("GET\n/show\n") and "Content-Location: /other\n" in text, text)


# ---- statuses


@row("9110 10.2.1", "MUST", "A 405 has Allow.")
def a_405_has_allow(s):
    same(status(ask(s, "POST", "/"), 405).get("Allow"), "GET, HEAD, OPTIONS")
    same(status(ask(s, "GET", "/echo"), 405).get("Allow"), "OPTIONS, POST")
    same(status(ask(s, "PUT", "/files/file.txt", body=b""), 405).get("Allow"), "GET, HEAD, OPTIONS")


@row("9110 15.5.6", "MUST", "A 405 of a handler that returns -EOPNOTSUPP has Allow.")
def a_405_of_a_failed_handler_has_allow(s):
    same(status(ask(s, "GET", "/refused"), 405).get("Allow"), "OPTIONS")
    same(status(ask(s, "GET", "/ref%75sed"), 405).get("Allow"), "OPTIONS")


@row("9110 15.5.6", "MUST", "A handler that answers 405 itself adds Allow.", by="handler")
def a_handler_can_add_allow(s):
    same(status(ask(s, "GET", "/own-405"), 405).get("Allow"), "POST")


@row("9110 11.6.1", "MUST", "A 401 has WWW-Authenticate with a challenge.", by="handler")
def a_handler_can_challenge(s):
    same(status(ask(s, "GET", "/secret"), 401).get("WWW-Authenticate"), 'Basic realm="rows"')


@row("9110 15.3.5", "defined", "A 204 ends with its header section.")
def a_204_has_no_content(s):
    with Connection(s.port) as c:
        c.send(request("GET", "/status/204"), request("GET", "/status/204?parts"), request("GET", "/probe"))
        same((c.answer().status, c.answer().status, c.answer().text()), (204, 204, "probe\n"))


@row("9110 15.3.6", "MUST NOT", "A 205 has no content.")
def a_205_has_no_content(s):
    for how in ("", "?parts", "?length"):
        answer = status(ask(s, "GET", "/status/205" + how), 205)
        same((answer.framing, answer.body), ("length", b""))  # it needs a length: it is no status without a body


@row("9112 4", "MUST", "The space behind the status is sent even without a reason phrase.")
def a_status_without_a_reason_has_its_space(s):
    holds(ask(s, "GET", "/status/299").head.startswith(b"HTTP/1.1 299 \r\n"), "status line")


@row("9110 15", "defined",
     "Only statuses from 200 to 599 are final: a handler cannot send another status.")
def a_handler_cannot_send_another_status(s):
    for code in ("0", "99", "100", "103", "199", "600", "999"):
        same(ask(s, "GET", f"/status/{code}").text(), "refused\n")


@row("9110 15.4", "SHOULD", "A redirect has Location, which has no user information.")
def a_redirect_has_location(s):
    same(status(ask(s, "GET", "/moved"), 302).get("Location"), "/probe")
    same(status(ask(s, "GET", "http://user-is-none/files/sub"), 301).get("Location"), "/files/sub/")


@row("9110 10.2.4", "SHOULD NOT", "Server does not tell details. It is not sent unless the program names it.")
def server_is_not_sent(s):
    same(ask(s, "GET", "/").get("Server"), None)


# ---- representations


@row("9110 8.4", "MUST", "Content that is coded has Content-Encoding.")
def the_twin_has_content_encoding(s):
    answer = ask(s, "GET", "/files/twin.txt", "Accept-Encoding: gzip")
    same((answer.get("Content-Encoding"), answer.body[:2]), ("gzip", b"\x1f\x8b"))
    same(ask(s, "GET", "/files/twin.txt").get("Content-Encoding"), None)


@row("9110 8.8.1", "defined", "The coded form of a file has another entity tag than the plain one.")
def the_twin_has_its_own_tag(s):
    plain, coded = ask(s, "GET", "/files/twin.txt"), ask(s, "GET", "/files/twin.txt", "Accept-Encoding: gzip")
    holds(plain.get("ETag") != coded.get("ETag"), "the same tag")


@row("9110 8.8.2.1", "MUST NOT", "Last-Modified is not later than Date, also for a file of the future.")
def last_modified_is_not_in_the_future(s):
    answer = ask(s, "GET", "/files/future.txt")
    holds(seconds(answer.get("Last-Modified")) <= seconds(answer.get("Date")), answer.fields)


@row("9110 8.8.3", "MUST", "An entity tag is an opaque string in quotes, and W/ stands before a weak one.")
def the_tag_of_a_file_is_strong(s):
    holds(re.fullmatch(r'"[!#-~]+"', ask(s, "GET", "/files/file.txt").get("ETag")), "ETag")


@row("9110 8.3", "SHOULD", "Content has Content-Type, if its type is known.")
def content_has_a_type(s):
    same(ask(s, "GET", "/files/file.txt").get("Content-Type"), "text/plain; charset=utf-8")
    same(ask(s, "GET", "/files/sub/").get("Content-Type"), "text/html; charset=utf-8")
    same(ask(s, "GET", "/none").get("Content-Type"), "text/plain; charset=utf-8")


@row("9110 12.5.5", "SHOULD", "An answer that depends on a field of the request names it in Vary.")
def files_vary_by_accept_encoding(s):
    for path in ("/files/twin.txt", "/files/file.txt"):
        same(ask(s, "GET", path).get("Vary"), "Accept-Encoding")
        same(ask(s, "GET", path, "Accept-Encoding: gzip").get("Vary"), "Accept-Encoding")


@row("9110 12.4.2", "defined", "A weight of 0 means that a coding is not acceptable.")
def a_coding_of_weight_0_is_not_sent(s):
    for value in ("gzip;q=0", "gzip; q=0.000, *", "identity", "*;q=0", ""):
        same(ask(s, "GET", "/files/twin.txt", f"Accept-Encoding: {value}").get("Content-Encoding"), None, value)
    for value in ("gzip", "GZIP;Q=0.5", "x-gzip", "*", "identity;q=0, *;q=0.1"):
        same(ask(s, "GET", "/files/twin.txt", f"Accept-Encoding: {value}").get("Content-Encoding"), "gzip", value)
