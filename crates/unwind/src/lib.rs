//! Callstacks of other processes.

#![forbid(unsafe_code)]
