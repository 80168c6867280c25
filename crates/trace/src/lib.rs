//! Reading trace files: packets, text and summaries.
#![forbid(unsafe_code)]
