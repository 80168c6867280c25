"""Recordings."""

import json
import os
import signal
import subprocess

from ._programs import FerrettoError, answer, options, program, reasons
from ._trace import Trace


class Recording:
    """A recording of this machine, from `with` to its end. Then `answer` is what docs/schema/record.json says."""

    def __init__(self, path, words):
        self.path = os.fspath(path)
        self.answer = None
        self._words = words
        self._recorder = None

    def __enter__(self):
        command = [program(), "record", "--json", "--duration", "0", *self._words, "--output", self.path]
        self._recorder = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        messages = []
        for line in self._recorder.stderr:
            messages.append(line.decode(errors="replace"))
            if '"state":"recording"' in messages[-1]:
                return self
        self._recorder.communicate()
        raise FerrettoError("; ".join(reasons("".join(messages))) or "the recording did not start")

    def __exit__(self, kind, *exception):
        self._recorder.send_signal(signal.SIGINT)
        out, err = self._recorder.communicate()
        if self._recorder.returncode not in (0, 3):
            if kind is None:
                raise FerrettoError("; ".join(reasons(err.decode(errors="replace"))) or "the recording failed")
            return
        self.answer = json.loads(out)

    def trace(self):
        """Returns the recorded trace."""
        return Trace(self.path)


def record(path="trace.pftrace", command=None, duration=None, **given):
    """Records into a file.

    With `command`, a list, or `duration`, such as "2s", records until it ends, and returns the answer. Without,
    returns a context manager, which records until the end of `with`. Other arguments are the options of
    `ferretto record`: `why=True`, `perf=999`, `pid=os.getpid()`, `syscalls=True`.
    """
    words = options(**given)
    if command is None and duration is None:
        return Recording(path, words)
    if duration is not None:
        words.append(f"--duration={duration}")
    words += ["--output", os.fspath(path)]
    if command is not None:
        words += ["--", *map(os.fspath, command)]
    return answer("record", *words, codes=range(0, 256)) if command is not None else answer("record", *words)
