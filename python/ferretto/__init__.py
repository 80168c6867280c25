"""Record and query traces with Ferretto.

    import ferretto

    with ferretto.record("trace.pftrace", perf=True):
        work()
    trace = ferretto.Trace("trace.pftrace")
    trace.query("select name, sum(dur) as dur_ns from slice group by name")

The programs `ferretto` and `ferretto-query` are run: those in $FERRETTO and $FERRETTO_QUERY, or in $PATH.
"""

from ._programs import FerrettoError
from ._recording import Recording, record
from ._spans import enable_spans, instant, span, traced
from ._trace import Trace, diff, flamegraph, summary, why

__all__ = [
    "FerrettoError", "Recording", "Trace", "diff", "enable_spans", "flamegraph", "instant", "record", "span",
    "summary", "traced", "why",
]
__version__ = "0.1.0"
