//! Benchmarks, with upstream's names where upstream has the same.
