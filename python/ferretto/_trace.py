"""Traces."""

import json
import os
import shutil
import subprocess
import tempfile
import time

from ._programs import FerrettoError, answer, options, program

# The time in which a server has to load a trace.
START = 600


def summary(file):
    """Returns the contents and losses of a trace, as docs/schema/summary.json says."""
    return answer("summary", "--", os.fspath(file))


def why(file, *, slice=None, thread=None, pid=None, range=None, worst=None):
    """Returns the causes of the time of a thread or a slice, as docs/schema/why.json says."""
    given = options(slice=slice, thread=thread, pid=pid, range=range, worst=worst)
    return answer("why", *given, "--", os.fspath(file))


def diff(before, after):
    """Returns what changed between two traces, or two lists of them, as docs/schema/diff.json says."""
    def files(given):
        return [given] if isinstance(given, (str, os.PathLike)) else list(given)

    words = [f"--before={os.fspath(file)}" for file in files(before)]
    words += [f"--after={os.fspath(file)}" for file in files(after)]
    return answer("diff", *words)


def flamegraph(file, *, top=30, depth=6, off_cpu=False, heap=None, pid=None, thread=None, by=None):
    """Returns the functions with the most samples, as docs/schema/flamegraph.json says."""
    given = options(top=top, depth=depth, off_cpu=off_cpu, heap=heap, pid=pid, thread=thread, by=by)
    return answer("flamegraph", *given, "--", os.fspath(file))


class Trace:
    """A trace. It stays loaded between queries until `close`, or the end of its `with`."""

    def __init__(self, path):
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise FileNotFoundError(self.path)
        self._server = None
        self._folder = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:
            pass

    def __repr__(self):
        return f"Trace({self.path!r})"

    def close(self):
        """Ends the program that keeps the trace."""
        server, self._server = self._server, None
        if server:
            server.kill()
            server.wait()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _socket(self):
        if self._server and self._server.poll() is None:
            return os.path.join(self._folder, "queries")
        self.close()
        self._folder = tempfile.mkdtemp(prefix="ferretto-")
        socket = os.path.join(self._folder, "queries")
        command = [program("ferretto-query"), "--serve", "--socket", socket, "--idle-timeout", "12h",
                   os.path.abspath(self.path)]
        messages = open(os.path.join(self._folder, "messages"), "w+b")
        self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=messages)
        until = time.monotonic() + START
        while not os.path.exists(socket):
            if self._server.poll() is not None or time.monotonic() > until:
                messages.seek(0)
                reason = messages.read().decode(errors="replace").strip()
                messages.close()
                self.close()
                raise FerrettoError(reason or "ferretto-query did not load the trace in time")
            time.sleep(0.005)
        messages.close()
        return socket

    def rows(self, sql):
        """Returns the rows of the last statement as dicts."""
        command = [program("ferretto-query"), "--remote", self._socket(), "--format", "ndjson", "--file", "-"]
        done = subprocess.run(command, input=sql.encode(), capture_output=True)
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip()
            raise FerrettoError(reason.removeprefix("ferretto-query: "))
        return [json.loads(line) for line in done.stdout.splitlines() if line]

    def query(self, sql, format=None):
        """Returns the rows of the last statement.

        `format` is "pandas", "polars", "arrow" or "rows" (a list of dicts). Without it, the first of these that is
        installed.
        """
        if format not in (None, "pandas", "polars", "arrow", "rows"):
            raise ValueError(f"{format!r} is none of pandas, polars, arrow and rows")
        rows = self.rows(sql)
        for name, module, frame in FRAMES:
            if format not in (None, name):
                continue
            try:
                library = __import__(module)
            except ImportError:
                if format == name:
                    raise
                continue
            return frame(library, rows)
        return rows

    def summary(self):
        """Returns the contents and losses of the trace."""
        return summary(self.path)

    def why(self, **selection):
        """Returns the causes of the time of a thread or a slice."""
        return why(self.path, **selection)

    def flamegraph(self, **selection):
        """Returns the functions with the most samples."""
        return flamegraph(self.path, **selection)


def _columns(rows):
    return list(rows[0]) if rows else []


def _pandas(pandas, rows):
    frame = pandas.DataFrame(rows, columns=_columns(rows))
    # Integers with NULLs stay integers.
    return frame.convert_dtypes() if rows else frame


def _polars(polars, rows):
    return polars.DataFrame(rows, infer_schema_length=None)


def _arrow(pyarrow, rows):
    return pyarrow.table({name: [row[name] for row in rows] for name in _columns(rows)})


FRAMES = [("pandas", "pandas", _pandas), ("polars", "polars", _polars), ("arrow", "pyarrow", _arrow)]
