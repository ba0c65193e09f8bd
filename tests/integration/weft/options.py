#!/usr/bin/env python3
"""The help, the man page and the completions name the same options, and the man page names each figure of status.json.

    options.py WEFT ROOT [EMULATOR...]    ROOT is the checkout
"""
import json
import os
import re
import shutil
import subprocess
import sys

import program
from program import Serve, Skip, case, main, run, site

WEFT, ROOT = (os.path.abspath(word) for word in sys.argv[1:3])
program.EMULATOR = sys.argv[3:]
COMPLETIONS = os.path.join(ROOT, "tools/weft/completion")
MAN = os.path.join(ROOT, "docs/man/weft.1")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def section(name):
    """The text of a section of the man page, without the marks of fonts."""
    text = re.search(rf"^\.SH {name}\n(.*?)(?=^\.SH|\Z)", read(MAN), re.M | re.S).group(1)
    return text.replace("\\-", "-")


def help_options():
    options = re.findall(r"^  (--[a-z]+)(?: ([A-Z]+))?", run(WEFT, "serve", "--help")[1], re.M)
    assert len(options) > 5, options
    return dict(options)


def same(found, where):
    expected = set(help_options())
    assert set(found) == expected, f"{where} and the help differ in {expected ^ set(found)}"
    assert len(found) == len(set(found)), f"{where} names an option twice"


@case
def the_man_page_has_the_options_of_the_help():
    options = re.findall(r'^\.TP\n\.BI? (--[a-z]+)(?: " ([A-Z]+)")?$', section("OPTIONS"), re.M)
    same([name for name, _ in options], "weft.1")
    assert dict(options) == help_options(), "a value has another name there"


@case
def the_man_page_has_no_other_options():
    same(sorted(set(re.findall(r"--[a-z]+", read(MAN).replace("\\-", "-")))), "weft.1")


@case
def the_completion_of_bash_has_the_options_of_the_help():
    same(complete("serve", "--"), "the completion of bash")


def complete(*words):
    """What bash offers for the last of the words."""
    script = 'source "$1"; shift; COMP_WORDS=(weft "$@"); COMP_CWORD=$#; _weft; printf "%s\\n" "${COMPREPLY[@]}"'
    said = subprocess.run(["bash", "-c", script, "bash", os.path.join(COMPLETIONS, "weft.bash"), *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    assert said.stderr == "", said.stderr
    return said.stdout.split()


@case
def the_completion_of_bash_knows_commands_and_values():
    assert complete("") == ["serve", "version", "help"] and complete("s") == ["serve"]
    assert complete("serve", "--io", "") == ["epoll", "uring"] and complete("serve", "--st") == ["--status"]
    assert complete("serve", "--port", "") == [] and complete("version", "") == []
    assert complete("serve", "/us") == ["/usr"] and "/etc/passwd" in complete("serve", "--log", "/etc/passw")


@case
def the_completion_of_zsh_has_the_options_of_the_help():
    same(re.findall(r"^        '(--[a-z]+)\[", read(COMPLETIONS, "_weft"), re.M), "the completion of zsh")


@case
def the_completion_of_fish_has_the_options_of_the_help():
    same(["--" + name for name in re.findall(r"^complete .* -l ([a-z]+)", read(COMPLETIONS, "weft.fish"), re.M)], "the completion of fish")


def keys(value):
    """All names of fields in JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


@case
def the_man_page_names_each_field_of_the_figures():
    with site() as folder, Serve(folder, "--status") as served:
        fields = set(keys(json.loads(served.get("/_weft/status.json")[1])))
    text = section("THE STATUS PAGE")
    text = text[text.index("The fields of status.json"):]
    named = set()
    for line in re.findall(r"^\.(?:B|BR|RB) (.*)$", text, re.M):
        named |= set(re.findall(r"[a-z0-9_]+", line.replace(" and ", " ")))
    assert fields == named, f"only in status.json: {fields - named}; only in weft.1: {named - fields}"


@case
def the_man_page_is_well_formed():
    if not shutil.which("man"):
        raise Skip("there is no man")
    said = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", MAN], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=True)
    assert said.stderr == "", said.stderr


main()
