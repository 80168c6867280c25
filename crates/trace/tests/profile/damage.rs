//! Traces that nobody should have written.
