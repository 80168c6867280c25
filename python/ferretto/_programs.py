"""The programs, their answers and errors."""

import json
import os
import shutil
import subprocess


class FerrettoError(Exception):
    """A program failed; the text is its reason."""


def program(name="ferretto"):
    """Returns the path of a program."""
    variable = name.upper().replace("-", "_")
    path = os.environ.get(variable) or shutil.which(name)
    if path:
        return path
    beside = shutil.which(os.environ.get("FERRETTO", "ferretto"))
    if beside and os.path.exists(found := os.path.join(os.path.dirname(beside), name)):
        return found
    raise FerrettoError(f"{name} is not installed: it is neither in ${variable} nor in $PATH")


def reasons(text, kind="error"):
    """Returns the texts of the messages of a kind in lines of standard error."""
    found = []
    for line in text.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and message.get("event") == kind:
            found.append(message["text"])
    return found


def answer(*args, codes=(0, 3)):
    """Runs a command of ferretto with --json, and returns its answer."""
    command = [program(), args[0], "--json", *args[1:]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    errors = done.stderr.decode(errors="replace")
    if done.returncode not in codes:
        raise FerrettoError("; ".join(reasons(errors)) or errors.strip() or f"{args[0]} returned {done.returncode}")
    return json.loads(done.stdout)


def options(**given):
    """Returns options of the command line from keyword arguments."""
    words = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [f"{option}={item}" for item in value]
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words
