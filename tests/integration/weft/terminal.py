"""A program on a terminal of its own, and what becomes of the processes that a program has started."""
import contextlib
import os
import pty
import select
import signal

from program import PATIENCE, wait


class Terminal:
    """The program on a terminal of its own, started in a folder. If the `with` fails, it is killed."""

    def __init__(self, *words, folder="."):
        self.said = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execv(words[0], words)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        os.close(self.fd)
        if kind:
            print(self.said)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has ended already
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)

    def read(self):
        """More of what it says; empty when all who had the terminal open are gone."""
        assert select.select([self.fd], [], [], PATIENCE)[0], f"it has been silent for {PATIENCE} s: {self.said}"
        try:
            part = os.read(self.fd, 4096).decode()
        except OSError:
            part = ""
        self.said += part
        return part

    def read_until(self, text):
        while text not in self.said:
            assert self.read(), f"it ends without {text!r}: {self.said}"

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self):
        """Waits for its end: the exit status."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def children_of(pid):
    """The processes that this one has started."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split(") ")[1][0] == "Z"
    except FileNotFoundError:
        return True


def wait_until_gone(pid):
    wait(lambda: is_gone(pid), f"the end of process {pid}")
