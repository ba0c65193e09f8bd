"""Runs the tests of one of python's own test modules and writes a line for each, as soon as it is known.

    each.py MODULE RECORD SECONDS [ONLY]    MODULE: test.test_socket; RECORD: a file that is appended to; ONLY: one test

A line is "began NAME", then "OUTCOME NAME". A test that RECORD has already is not run again. One that takes longer than
SECONDS ends the whole, with the stacks of its threads on stderr.
"""
import faulthandler
import os
import sys
import unittest

from test import support
from test.support import os_helper

module, record, seconds = sys.argv[1:4]
only = sys.argv[4] if len(sys.argv) > 4 else None
lines = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def write(what, test):
    os.write(lines, f"{what} {test.id()}\n".encode())


class Record(unittest.TestResult):
    """What each test came to; of one that tells several things (its parts, its end) all are lines."""

    def startTest(self, test):
        super().startTest(test)
        faulthandler.dump_traceback_later(float(seconds), exit=True)
        write("began", test)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSuccess(self, test):
        write("passed", test)

    def addError(self, test, err):
        write("error", test)
        print(f"{test.id()}: {self._exc_info_to_string(err, test)}", file=sys.stderr)

    def addFailure(self, test, err):
        write("failed", test)
        print(f"{test.id()}: {self._exc_info_to_string(err, test)}", file=sys.stderr)

    def addSkip(self, test, reason):
        write("skipped", test)

    def addExpectedFailure(self, test, err):
        write("failed-as-expected", test)

    def addUnexpectedSuccess(self, test):
        write("passed-unexpectedly", test)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def is_chosen(name):
    """Of "setUpClass (CLASS)", which may fail too, all tests of the class."""
    return only in (None, name) or ("(" in only and name.startswith(only.split("(")[1].rstrip(")") + "."))


with open(record, encoding="utf-8") as known:
    done = {line.rstrip("\n").split(" ", 1)[1] for line in known}
support.use_resources = []  # none of those that are slow, or go out to the world
everything = unittest.defaultTestLoader.loadTestsFromName(module)
suite = unittest.TestSuite(test for test in tests_of(everything) if test.id() not in done and is_chosen(test.id()))
with os_helper.temp_cwd(f"cwd{os.getpid()}"):
    suite.run(Record())
