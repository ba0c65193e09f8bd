"""Odd targets and hosts."""
from cases import get, group, line, odd

group("Targets")
odd("the absolute form", get(target="http://a/"))
odd("the absolute form without a path", get(target="http://a"),
    why="An empty path is the path \"/\"; Go's router redirects to it instead.")
odd("the absolute form with a query and no path", get(target="http://a?b"),
    why="An empty path is the path \"/\"; Go's router redirects to it instead.")
odd("the absolute form of another host", get(target="http://b/"))
odd("the absolute form with user information", get(target="http://u:p@a/"),
    why="User information in a target is an error (RFC 9110, 4.2.4); Go accepts it.")
odd("the absolute form without a host", get(target="http:///"),
    why="A target of http without a host must be refused (RFC 9110, 4.2.1); Go accepts it, and uses the value of "
        "Host.")
odd("the absolute form in upper case", get(target="HTTP://A/"))
odd("the absolute form of https", get(target="https://a/"),
    why="A request for https must be refused on a connection that is not secured (RFC 9110, 7.4); nginx and Go do not "
        "look at the scheme.")
odd("the absolute form of ftp", get(target="ftp://a/"),
    why="weft serves only http; nginx and Go do not look at the scheme.")
odd("the absolute form with a malformed port", get(target="http://a:b/"))
odd("the absolute form with a port that is too large", get(target="http://a:99999/"),
    why="No port is above 65535; nginx and Go do not look at its value.")
odd("the absolute form with an IPv6 address", get(target="http://[::1]/"))
odd("the absolute form with half an IPv6 address", get(target="http://[::1/"))
odd("the authority form with GET", get(target="a:80"),
    why="Only CONNECT has the authority form; Go reads \"a:80\" as a path and redirects.")
odd("the asterisk form with GET", get(target="*"))
odd("the asterisk form with OPTIONS", line("OPTIONS * HTTP/1.1"),
    why="OPTIONS * is about the whole server; weft answers with Allow, Go with an empty answer, and nginx does not know "
        "this form.")
odd("a target without its slash", get(target="probe"))
odd("a target that begins with a question mark", get(target="?a"))
odd("an empty query", get(target="/?"))
odd("a query with everything", get(target="/?a=b&c=/?:@!$'()*+,;=%20"))
odd("a fragment", get(target="/#a"),
    why="A target has no fragment; nginx cuts the fragment off, and Go takes it as a part of the path.")
odd("two slashes", get(target="//"),
    why="weft counts an empty segment as a segment, so no route matches; nginx merges slashes, and Go redirects to "
        "the merged path.")
odd("two slashes and a host", get(target="//b/"),
    why="Go merges the slashes and redirects; weft and nginx have no such path.")
odd("an encoded letter", get(target="/prob%65"))
odd("an encoded slash", get(target="/%2Fprobe"),
    why="weft takes an encoded slash as a character of a segment, not as a separator; nginx decodes first, and Go "
        "redirects to the decoded path.")
odd("an encoded slash between two names", get(target="/files%2Ffile.txt"),
    why="weft and Go do not take an encoded slash as a separator; nginx decodes first.")
odd("a path of dots", get(target="/./probe"),
    why="Clients resolve dot segments before they send, so weft refuses a path that still has them; nginx resolves "
        "them, and Go redirects to the resolved path.")
odd("a path that goes up", get(target="/files/../probe"),
    why="Clients resolve dot segments before they send, so weft refuses a path that still has them; nginx resolves "
        "them, and Go redirects to the resolved path.")
odd("a path that goes up, encoded", get(target="/files/%2e%2e/probe"),
    why="Clients resolve dot segments before they send, so weft refuses a path that still has them; nginx resolves "
        "them, and Go redirects to the resolved path.")
odd("a path that goes up beyond the root", get(target="/../../etc/passwd"),
    why="weft and nginx refuse a path that leaves the root (nginx closes too); Go redirects to the path without the "
        "dots.")
odd("a path that goes up in the folder of files", get(target="/files/../../etc/passwd"),
    why="weft and nginx refuse a path that leaves the root (nginx closes too); Go redirects to the path without the "
        "dots.")
odd("the same, encoded", get(target="/files/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    why="weft and nginx refuse a path that leaves the root (nginx closes too); Go redirects to the path without the "
        "dots.")
odd("the same, encoded twice", get(target="/files/%252e%252e/%252e%252e/etc/passwd"))
odd("the same with backslashes", get(target="/files/..\\..\\etc\\passwd"),
    why="A URI must percent-encode this byte, so weft refuses it; nginx and Go take it as a part of the path.")
odd("the same with encoded backslashes", get(target="/files/..%5c..%5cetc%5cpasswd"))
odd("dots in an overlong encoding", get(target="/files/%c0%ae%c0%ae/etc/passwd"))
odd("an encoded NUL", get(target="/files/file.txt%00.html"),
    why="No path may have a NUL; Go's file server fails with 500 instead of refusing it.")
odd("an encoded CR LF", get(target="/files/%0d%0aX:%20b"))
odd("a percent sign alone", get(target="/%"),
    why="All three refuse the percent sign; weft finds it when it looks for a route, where it can keep the "
        "connection.")
odd("a percent sign with one digit", get(target="/%4"),
    why="All three refuse the percent sign; weft finds it when it looks for a route, where it can keep the "
        "connection.")
odd("a percent sign with letters", get(target="/%zz"),
    why="All three refuse the percent sign; weft finds it when it looks for a route, where it can keep the "
        "connection.")
odd("a percent sign with letters, in the query", get(target="/?%zz"))
odd("octets above ASCII", get(target="/\xe9\xff"),
    why="A URI must percent-encode this byte, so weft refuses it; nginx and Go take it as a part of the path.")
odd("a control character", get(target="/\x01"))
odd("a DEL", get(target="/\x7f"))
odd("a quote", get(target='/"'),
    why="A URI must percent-encode this byte, so weft refuses it; nginx and Go take it as a part of the path.")
odd("angle brackets", get(target="/<a>"),
    why="A URI must percent-encode this byte, so weft refuses it; nginx and Go take it as a part of the path.")
odd("braces, a bar and a caret", get(target="/{a}|^`"))
odd("a backslash", get(target="/\\"),
    why="A URI must percent-encode this byte, so weft refuses it; nginx and Go take it as a part of the path.")
odd("a semicolon", get(target="/probe;a=b"))
odd("a file behind a slash too many", get(target="/files//file.txt"),
    why="weft counts an empty segment as a segment, so no route matches; nginx merges slashes, and Go redirects to "
        "the merged path.")
odd("a file with a slash behind it", get(target="/files/file.txt/"),
    why="A file is no folder; Go redirects to the path without the slash.")
odd("a folder without its slash", get(target="/files/sub"))
odd("a target of 9,000 bytes", get(target="/?" + "a" * 9000))
odd("a target of 20,000 bytes", get(target="/?" + "a" * 20000),
    why="Go adds 4 KiB to its limit for heads, so this head fits.")

group("Hosts")
odd("no Host", get(host=None))
odd("an empty Host", get(host=""),
    why="An empty Host is valid: it stands for a target without an authority; nginx refuses it.")
odd("two equal Hosts", get("Host: a"))
odd("two different Hosts", get("Host: b"))
odd("two Hosts, with HTTP/1.0", get("Host: b", version="1.0"))
odd("a Host with a port", get(host="a:8080"))
odd("a Host with an empty port", get(host="a:"))
odd("a Host with a port of letters", get(host="a:b"),
    why="The port of a Host must be a number up to 65535; nginx and Go do not check it.")
odd("a Host with a port that is too large", get(host="a:65536"),
    why="The port of a Host must be a number up to 65535; nginx and Go do not check it.")
odd("a Host with two ports", get(host="a:80:80"),
    why="The port of a Host must be a number up to 65535; nginx and Go do not check it.")
odd("a Host with user information", get(host="u@a"),
    why="A Host cannot have this byte, and such a request must be refused (RFC 9112, 3.2); nginx checks only for a "
        "few bytes.")
odd("a Host with a path", get(host="a/b"))
odd("a Host with a query", get(host="a?b"),
    why="A Host cannot have this byte, and such a request must be refused (RFC 9112, 3.2); nginx checks only for a "
        "few bytes.")
odd("a Host with a space", get(host="a b"))
odd("a Host with a comma", get(host="a,b"))
odd("a Host with an underscore", get(host="a_b"))
odd("a Host with a percent sign", get(host="a%41"),
    why="RFC 3986 allows a percent sign in a host; weft refuses it, because a host that is decoded later would not "
        "be the host that was checked.")
odd("a Host with octets above ASCII", get(host="\xe9"),
    why="A Host cannot have this byte, and such a request must be refused (RFC 9112, 3.2); nginx checks only for a "
        "few bytes.")
odd("a Host with an IPv6 address", get(host="[::1]:80"))
odd("a Host with an IPv6 address without brackets", get(host="::1"),
    why="An IPv6 address in a Host has brackets; Go checks the bytes, but not their order.")
odd("a Host with a bracket too many", get(host="[::1]]"),
    why="An IPv6 address has one pair of brackets; nginx and Go do not check what follows.")
odd("a Host with dots only", get(host="../.."))
odd("a Host that is an absolute URL", get(host="http://a/"))
