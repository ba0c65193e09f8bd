"""Clients that people use, for tests of a server: curl, ab, wrk, and one that speaks HTTP/1.0. What they print is checked."""
import http.client
import re
import subprocess

from program import PATIENCE

PROGRAMS = ("curl", "ab", "wrk")


def says(*words, status=0):
    """What a program prints that ends by itself with this status."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, (words, done)
    return done.stdout


def curl(url, *options, status=0):
    return says("curl", "-sS", "--noproxy", "*", "--path-as-is", *options, url, status=status)


def wrk(url, clients):
    """A second of requests without an error. Returns how many there were."""
    said = says("wrk", "-t", "2", "-c", str(clients), "-d", "1s", url)
    assert "Socket errors" not in said and "Non-2xx" not in said, said
    count = int(re.search(r"(\d+) requests in", said).group(1))
    assert count > 0, said
    return count


def ab(url, requests, clients, size, keep):
    """So many requests for a file of this size; all of them succeed, on kept connections or each on its own."""
    said = says("ab", "-q", "-n", str(requests), "-c", str(clients), *["-k"] * keep, url)
    assert re.search(rf"^Complete requests: +{requests}$", said, re.M) and re.search(r"^Failed requests: +0$", said, re.M), said
    assert "Non-2xx" not in said and re.search(rf"^HTML transferred: +{requests * size} bytes$", said, re.M), said
    assert bool(re.search(rf"^Keep-Alive requests: +{requests}$", said, re.M)) == keep, said


class Old(http.client.HTTPConnection):
    """Python's client as one of HTTP/1.0."""
    _http_vsn, _http_vsn_str = 10, "HTTP/1.0"
