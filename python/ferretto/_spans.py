"""Spans of this program, written through the C library.

They are recorded while `ferretto record -- python app.py` runs this program, or a service (`traced`) records.
"""

import contextlib
import ctypes
import ctypes.util
import functools
import os

BEGIN, END, INSTANT = 1, 2, 3
SYSTEM_BACKEND = 1 << 1
DEBUG_ARG_STRING = 11


class _Category(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("desc", ctypes.c_char_p),
                ("tags", ctypes.c_void_p), ("num_tags", ctypes.c_size_t)]


class _ArgString(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Spans:
    """The connection of this process, and its category."""

    def __init__(self, path, category):
        library = ctypes.CDLL(path)
        library.PerfettoProducerBackendInitArgsCreate.restype = ctypes.c_void_p
        library.PerfettoProducerSystemInit.argtypes = [ctypes.c_void_p]
        library.PerfettoProducerBackendInitArgsDestroy.argtypes = [ctypes.c_void_p]
        library.PerfettoTeCategoryImplCreate.argtypes = [ctypes.POINTER(_Category)]
        library.PerfettoTeCategoryImplCreate.restype = ctypes.c_void_p
        library.PerfettoTeCategoryImplGetEnabled.argtypes = [ctypes.c_void_p]
        library.PerfettoTeCategoryImplGetEnabled.restype = ctypes.POINTER(ctypes.c_bool)
        library.PerfettoTeHlEmitImpl.argtypes = [
            ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        library.PerfettoTeHlEmitImpl.restype = None
        arguments = library.PerfettoProducerBackendInitArgsCreate()
        library.PerfettoProducerSystemInit(arguments)
        library.PerfettoProducerBackendInitArgsDestroy(arguments)
        library.PerfettoTeInit()
        self._description = _Category(category.encode(), b"Spans of a Python program", None, 0)
        self._category = library.PerfettoTeCategoryImplCreate(ctypes.byref(self._description))
        library.PerfettoTePublishCategories()
        self._enabled = library.PerfettoTeCategoryImplGetEnabled(self._category)
        self._library = library

    def emit(self, kind, name, arguments):
        if not self._enabled[0]:
            return
        extras = [_ArgString(DEBUG_ARG_STRING, _text(key), _text(value)) for key, value in arguments.items()]
        pointers = [ctypes.cast(ctypes.byref(extra), ctypes.c_void_p) for extra in extras]
        table = (ctypes.c_void_p * (len(pointers) + 1))(*pointers, None)
        self._library.PerfettoTeHlEmitImpl(self._category, kind, name, table)


_spans = None
_is_looked_for = False


def _text(value):
    """Returns a text for C, which ends at a zero byte."""
    return str(value).encode(errors="replace").split(b"\0")[0]


def enable_spans(library=None, category="python"):
    """Connects this process. Returns False if the C library is not installed; spans then do nothing.

    The library is the given one, that of $FERRETTO_C_LIBRARY, or the installed libferretto_c.so. Spans do this
    themselves when the first one begins.
    """
    global _spans, _is_looked_for
    _is_looked_for = True
    if _spans:
        return True
    path = library or os.environ.get("FERRETTO_C_LIBRARY") or ctypes.util.find_library("ferretto_c")
    if not path:
        return False
    _spans = _Spans(os.fspath(path), category)
    return True


def _emit(kind, name=None, arguments={}):
    if not _is_looked_for:
        enable_spans()
    if _spans:
        _spans.emit(kind, None if name is None else _text(name), arguments)


@contextlib.contextmanager
def span(name, **arguments):
    """A slice of this thread, from `with` to its end."""
    _emit(BEGIN, name, arguments)
    try:
        yield
    finally:
        _emit(END)


def instant(name, **arguments):
    """An instant of this thread."""
    _emit(INSTANT, name, arguments)


def traced(function=None, *, name=None):
    """A decorator: each call of the function is a span."""
    if function is None:
        return functools.partial(traced, name=name)
    label = name or function.__qualname__

    @functools.wraps(function)
    def wrapper(*arguments, **keywords):
        with span(label):
            return function(*arguments, **keywords)

    return wrapper
