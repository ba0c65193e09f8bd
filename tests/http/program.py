"""Starts tests/http/server.c for the tests of this folder, with a folder of files, and ends it."""
import gzip
import os
import re
import shutil
import subprocess
import tempfile

PATIENCE = 60  # seconds
FILE = b"0123456789"
MODIFIED = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT
FUTURE = 4102444800  # 1 January 2100


def make_files(folder):
    """file.txt (10 bytes), twin.txt with twin.txt.gz, future.txt that is modified in the future, sub/index.html."""
    os.mkdir(os.path.join(folder, "sub"))
    twin = b"text " * 100
    for name, content in (("file.txt", FILE), ("twin.txt", twin), ("twin.txt.gz", gzip.compress(twin, mtime=0)),
                          ("future.txt", b"later\n"), ("large.txt", FILE * 10000), ("sub/index.html", b"<p>sub\n")):
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(content)
        os.utime(path, (MODIFIED, FUTURE if name == "future.txt" else MODIFIED))


class Server:
    """`with Server([EMULATOR..., PROGRAM]) as s:` s.port is where it serves. After that it has ended as it should."""

    def __init__(self, command):
        self.command = command

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="weft-http-")
        make_files(self.folder)
        self.process = subprocess.Popen([*self.command, self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"port (\d+)\n", line)
        if not match:
            self.process.kill()
            raise RuntimeError(f"the server says {line!r}: {self.process.communicate()[1]}")
        self.port = int(match[1])
        return self

    def __exit__(self, kind, value, traceback):
        try:
            said = "".join(self.process.communicate(timeout=PATIENCE)) # closes its input: it ends
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = "".join(self.process.communicate()) + "(it did not end)"
        shutil.rmtree(self.folder)
        if kind is None and (self.process.returncode != 0 or "Sanitizer" in said or "runtime error" in said):
            raise RuntimeError(f"the server ended with {self.process.returncode}: {said}")
        if said:
            print(said)
