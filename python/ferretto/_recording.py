"""Recordings."""

import collections
import json
import os
import signal
import subprocess
import threading

from ._programs import FerrettoError, answer, options, program, reasons
from ._trace import Trace

# The messages of a recording that are kept to tell why it failed.
MAX_MESSAGES = 1000


class Recording:
    """A recording of this machine, from `with` to its end. Then `answer` is what docs/schema/record.json says."""

    def __init__(self, path, words):
        self.path = os.fspath(path)
        self.answer = None
        self._words = words
        self._recorder = None
        self._messages = collections.deque(maxlen=MAX_MESSAGES)
        self._reader = None

    def __enter__(self):
        command = [program(), "record", "--json", "--duration", "0", *self._words, "--output", self.path]
        self._recorder = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for line in self._recorder.stderr:
            self._messages.append(line)
            if b'"state":"recording"' in line:
                # It goes on to report its progress, and would wait for a reader.
                self._reader = threading.Thread(target=self._messages.extend, args=(self._recorder.stderr,), daemon=True)
                self._reader.start()
                return self
        self._recorder.communicate()
        raise FerrettoError(self._reasons() or "the recording did not start")

    def __exit__(self, kind, *exception):
        self._recorder.send_signal(signal.SIGINT)
        out = self._recorder.stdout.read()
        self._reader.join()
        self._recorder.stdout.close()
        self._recorder.stderr.close()
        if self._recorder.wait() not in (0, 3):
            if kind is None:
                raise FerrettoError(self._reasons() or "the recording failed")
            return
        self.answer = json.loads(out)

    def _reasons(self):
        return "; ".join(reasons(b"".join(self._messages).decode(errors="replace")))

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
