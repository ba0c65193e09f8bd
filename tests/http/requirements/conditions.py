"""Rows about conditions and ranges, as files answer them: RFC 9110, sections 13, 14, 15.3.7 and 15.4.5."""
from rows import ask, holds, request, row, same, status
from wire import Connection

FILE = "/files/file.txt"
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
EARLIER = "Sun, 06 Nov 1994 08:49:36 GMT"
LATER = "Mon, 07 Nov 1994 08:49:37 GMT"


def tag(s):
    return ask(s, "GET", FILE).get("ETag")


def get(s, *fields, wanted):
    return status(ask(s, "GET", FILE, *fields), wanted)


@row("9110 13.1.1", "MUST", "If-Match is evaluated before the method is performed.")
def if_match_decides(s):
    get(s, f"If-Match: {tag(s)}", wanted=200)
    get(s, f'If-Match: "a", {tag(s)}', wanted=200)
    get(s, "If-Match: *", wanted=200)


@row("9110 13.1.1", "MUST NOT", "The method is not performed if If-Match is false.")
def if_match_that_is_false_is_412(s):
    same(get(s, 'If-Match: "a"', wanted=412).text(), "Precondition Failed\n")


@row("9110 13.1.1", "MUST", "If-Match compares strongly: a weak tag never matches.")
def if_match_compares_strongly(s):
    get(s, f"If-Match: W/{tag(s)}", wanted=412)


@row("9110 13.1.1", "MUST NOT", "A handler can refuse a change whose If-Match is false.", by="handler")
def a_handler_can_answer_put_by_412(s):
    before = ask(s, "GET", "/item").get("ETag")
    status(ask(s, "PUT", "/item", 'If-Match: "none"', body=b"x"), 412)
    same(ask(s, "GET", "/item").get("ETag"), before)
    status(ask(s, "PUT", "/item", f"If-Match: {before}", body=b"x"), 204)


@row("9110 13.1.2", "MUST", "If-None-Match is evaluated before the method is performed; GET and HEAD get 304.")
def if_none_match_that_is_false_is_304(s):
    get(s, f"If-None-Match: {tag(s)}", wanted=304)
    get(s, f'If-None-Match: "a", {tag(s)}', wanted=304)
    get(s, "If-None-Match: *", wanted=304)
    status(ask(s, "HEAD", FILE, f"If-None-Match: {tag(s)}"), 304)
    get(s, 'If-None-Match: "a"', wanted=200)


@row("9110 13.1.2", "MUST", "If-None-Match compares weakly.")
def if_none_match_compares_weakly(s):
    get(s, f"If-None-Match: W/{tag(s)}", wanted=304)


@row("9110 13.1.3", "MUST", "If-Modified-Since is evaluated against the server's own clock and date of the file.")
def if_modified_since_decides(s):
    get(s, f"If-Modified-Since: {DATE}", wanted=304)
    get(s, f"If-Modified-Since: {LATER}", wanted=304)
    get(s, f"If-Modified-Since: {EARLIER}", wanted=200)


@row("9110 13.1.3", "MUST", "If-Modified-Since is ignored beside If-None-Match.")
def if_modified_since_is_ignored_beside_if_none_match(s):
    get(s, 'If-None-Match: "a"', f"If-Modified-Since: {DATE}", wanted=200)
    get(s, f"If-None-Match: {tag(s)}", f"If-Modified-Since: {EARLIER}", wanted=304)


@row("9110 13.1.3", "MUST", "An If-Modified-Since that is not a date, or is repeated, is ignored.")
def if_modified_since_that_is_no_date_is_ignored(s):
    for date in ("yesterday", "", DATE.replace("GMT", "CET"), DATE + ", " + DATE, "1994-11-06"):
        get(s, f"If-Modified-Since: {date}", wanted=200)
    get(s, f"If-Modified-Since: {DATE}", f"If-Modified-Since: {DATE}", wanted=200)


@row("9110 13.1.3", "MUST",
     "If-Modified-Since is ignored with other methods than GET and HEAD, and by resources without a date.")
def if_modified_since_is_ignored_elsewhere(s):
    same(ask(s, "POST", "/echo", f"If-Modified-Since: {LATER}", body=b"hi").text(), "hi")
    status(ask(s, "OPTIONS", FILE, f"If-Modified-Since: {LATER}"), 204)
    status(ask(s, "GET", "/", f"If-Modified-Since: {LATER}"), 200)


@row("9110 13.1.4", "MUST NOT", "The method is not performed if If-Unmodified-Since is false.")
def if_unmodified_since_that_is_false_is_412(s):
    get(s, f"If-Unmodified-Since: {EARLIER}", wanted=412)
    get(s, f"If-Unmodified-Since: {DATE}", wanted=200)


@row("9110 13.1.4", "MUST", "If-Unmodified-Since is ignored beside If-Match.")
def if_unmodified_since_is_ignored_beside_if_match(s):
    get(s, f"If-Match: {tag(s)}", f"If-Unmodified-Since: {EARLIER}", wanted=200)


@row("9110 13.1.4", "MUST", "An If-Unmodified-Since that is not a date, or is repeated, is ignored.")
def if_unmodified_since_that_is_no_date_is_ignored(s):
    get(s, "If-Unmodified-Since: yesterday", wanted=200)
    get(s, f"If-Unmodified-Since: {EARLIER}", f"If-Unmodified-Since: {EARLIER}", wanted=200)


@row("9110 13.1.4", "MUST", "If-Unmodified-Since is ignored by resources without a date.")
def if_unmodified_since_is_ignored_without_a_date(s):
    status(ask(s, "GET", "/", f"If-Unmodified-Since: {EARLIER}"), 200)


@row("9110 13.1.5", "MUST", "If-Range without Range is ignored.")
def if_range_without_range_is_ignored(s):
    same(get(s, f"If-Range: {tag(s)}", wanted=200).text(), "0123456789")
    get(s, 'If-Range: "a"', wanted=200)


@row("9110 13.1.5", "MUST", "If-Range is ignored by resources that have no ranges.")
def if_range_is_ignored_where_there_are_no_ranges(s):
    same(ask(s, "GET", "/", "Range: bytes=0-1", 'If-Range: "a"').text(), "hello\n")


@row("9110 13.1.5", "MUST", "Range is ignored if If-Range is false.")
def a_range_is_ignored_if_if_range_is_false(s):
    same(get(s, "Range: bytes=0-1", 'If-Range: "a"', wanted=200).text(), "0123456789")
    same(get(s, "Range: bytes=0-1", f"If-Range: {EARLIER}", wanted=200).text(), "0123456789")
    same(get(s, "Range: bytes=0-1", f"If-Range: {LATER}", wanted=200).text(), "0123456789")


@row("9110 13.1.5", "MUST", "If-Range compares tags strongly, and dates exactly.")
def if_range_compares_strongly(s):
    same(get(s, "Range: bytes=0-1", f"If-Range: {tag(s)}", wanted=206).text(), "01")
    same(get(s, "Range: bytes=0-1", f"If-Range: {DATE}", wanted=206).text(), "01")
    get(s, "Range: bytes=0-1", f"If-Range: W/{tag(s)}", wanted=200)


@row("9110 13.2.1", "MUST", "Conditions are ignored if the answer without them would be neither 2xx nor 412.")
def conditions_are_ignored_by_errors_and_redirects(s):
    for field in ('If-Match: "a"', "If-None-Match: *", f"If-Unmodified-Since: {EARLIER}", f"If-Modified-Since: {LATER}"):
        status(ask(s, "GET", "/files/none.txt", field), 404)
        status(ask(s, "GET", "/files/sub", field), 301)
        status(ask(s, "POST", FILE, field, body=b""), 405)


@row("9110 13.2.1", "MUST",
     "Conditions are ignored with methods that select no representation: OPTIONS, TRACE, CONNECT.")
def conditions_are_ignored_by_options(s):
    status(ask(s, "OPTIONS", FILE, 'If-Match: "a"'), 204)
    status(ask(s, "TRACE", FILE, 'If-Match: "a"'), 405)


@row("9110 13.2.2", "MUST", "If-Match, or else If-Unmodified-Since, is evaluated before If-None-Match.")
def if_match_comes_before_if_none_match(s):
    get(s, 'If-Match: "a"', f"If-None-Match: {tag(s)}", wanted=412)
    get(s, f"If-None-Match: {tag(s)}", f"If-Unmodified-Since: {EARLIER}", wanted=412)
    get(s, f"If-Match: {tag(s)}", f"If-None-Match: {tag(s)}", wanted=304)


@row("9110 13.2.2", "MUST", "Ranges are evaluated after all other conditions.")
def ranges_come_last(s):
    get(s, f"If-None-Match: {tag(s)}", "Range: bytes=0-1", wanted=304)
    get(s, 'If-Match: "a"', "Range: bytes=0-1", wanted=412)
    get(s, f"If-Match: {tag(s)}", "Range: bytes=0-1", wanted=206)
    get(s, f"If-None-Match: {tag(s)}", "Range: bytes=99-", wanted=304)


@row("9110 14.1.2", "MUST", "A number in a range that does not fit an integer is not misread.")
def huge_numbers_in_ranges_are_understood(s):
    same(get(s, "Range: bytes=8-18446744073709551616", wanted=206).text(), "89")
    get(s, "Range: bytes=18446744073709551616-", wanted=416)
    same(get(s, "Range: bytes=-99999999999999999999", wanted=206).text(), "0123456789")


@row("9110 14.1.2", "defined",
     "A range without an end, or with an end behind the last octet, means the rest of the file; a suffix means the last octets.")
def ranges_are_cut_to_the_file(s):
    for value, part in (("0-0", "0"), ("2-4", "234"), ("8-", "89"), ("8-99", "89"), ("-3", "789"), ("-99", "0123456789")):
        same(get(s, f"Range: bytes={value}", wanted=206).text(), part)


@row("9110 14.2", "MUST", "Range is ignored with other methods than GET.")
def a_range_of_head_is_ignored(s):
    answer = ask(s, "HEAD", FILE, "Range: bytes=0-1")
    same((answer.status, answer.get("Content-Length"), answer.get("Content-Range")), (200, "10", None))


@row("9110 14.2", "MUST", "A unit of ranges that is not known is ignored.")
def another_unit_is_ignored(s):
    same(get(s, "Range: lines=0-1", wanted=200).text(), "0123456789")


@row("9110 14.2", "MAY", "A malformed Range is ignored.")
def a_malformed_range_is_ignored(s):
    for value in ("bytes=4-2", "bytes=a-b", "bytes=", "bytes", "bytes=1", "bytes=-", "bytes=0 - 1", "bytes=--1"):
        get(s, f"Range: {value}", wanted=200)


@row("9110 14.3", "MAY", "A resource that has ranges says so by Accept-Ranges.")
def files_say_accept_ranges(s):
    same(ask(s, "GET", FILE).get("Accept-Ranges"), "bytes")


@row("9110 15.5.17", "SHOULD", "A 416 tells the current length in Content-Range.")
def a_416_tells_the_length(s):
    for value in ("10-", "99-100", "-0"):
        same(get(s, f"Range: bytes={value}", wanted=416).get("Content-Range"), "bytes */10")


@row("9110 15.3.7.1", "MUST", "A 206 of one part has Content-Range.")
def a_206_has_content_range(s):
    answer = get(s, "Range: bytes=2-4", wanted=206)
    same((answer.get("Content-Range"), answer.get("Content-Length")), ("bytes 2-4/10", "3"))


@row("9110 15.3.7", "MUST",
     "A 206 has the fields Date, Cache-Control, ETag, Expires, Content-Location and Vary of the 200.")
def a_206_has_the_fields_of_the_200(s):
    whole, part = ask(s, "GET", FILE), get(s, "Range: bytes=2-4", wanted=206)
    for name in ("ETag", "Vary", "Cache-Control", "Expires", "Content-Location", "Last-Modified", "Content-Type"):
        same(part.get(name), whole.get(name), name)
    holds(part.get("Date") is not None, "Date")


@row("9110 15.3.7", "MUST", "A 206 to a request without If-Range has all fields of the 200 about the representation.")
def a_206_describes_the_representation(s):
    whole, part = ask(s, "GET", "/files/large.txt"), ask(s, "GET", "/files/large.txt", "Range: bytes=2-4")
    for name in ("Content-Type", "Last-Modified", "ETag", "Content-Encoding", "Content-Language"):
        same(part.get(name), whole.get(name), name)


@row("9110 14.4", "MUST", "Content-Range of a request is ignored with methods that give it no meaning.")
def content_range_of_a_get_is_ignored(s):
    same(get(s, "Content-Range: bytes 0-1/10", wanted=200).text(), "0123456789")
    same(ask(s, "POST", "/echo", "Content-Range: bytes 0-1/10", body=b"hi").text(), "hi")


@row("9110 15.3.7.2", "MUST NOT", "One range is not answered by several parts.")
def one_range_is_no_multipart(s):
    same(get(s, "Range: bytes=2-4", wanted=206).get("Content-Type"), "text/plain; charset=utf-8")


@row("9110 15.3.7.2", "MUST NOT",
     "An answer with several parts has no Content-Range. weft sends the whole file instead.")
def several_ranges_get_the_whole_file(s):
    answer = get(s, "Range: bytes=0-1,4-5", wanted=200)
    same((answer.text(), answer.get("Content-Range")), ("0123456789", None))


@row("9110 14.4", "defined", "Content-Range of a 206 names octets of the file, and the 206 has these octets.")
def the_octets_of_a_range_are_those_of_the_file(s):
    for first, last in ((0, 0), (9, 9), (3, 7), (0, 9)):
        answer = get(s, f"Range: bytes={first}-{last}", wanted=206)
        same(answer.get("Content-Range"), f"bytes {first}-{last}/10")
        same(answer.text(), "0123456789"[first:last + 1])


@row("9110 15.4.5", "MUST",
     "A 304 has the fields Cache-Control, Content-Location, Date, ETag, Expires and Vary of the 200.")
def a_304_has_the_fields_of_the_200(s):
    whole, none = ask(s, "GET", FILE), get(s, f"If-None-Match: {tag(s)}", wanted=304)
    for name in ("ETag", "Vary", "Cache-Control", "Expires", "Content-Location"):
        same(none.get(name), whole.get(name), name)
    holds(none.get("Date") is not None, "Date")


@row("9110 15.4.5", "defined", "A 304 has no content.")
def a_304_has_no_content(s):
    with Connection(s.port) as c:
        c.send(request("GET", FILE, "If-None-Match: *"), request("GET", "/probe"))
        same((c.answer().status, c.answer().text()), (304, "probe\n"))
