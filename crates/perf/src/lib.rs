//! The callstack profiler.
