//! The trace buffers and what packets go through on their way out of them. Tests whose names start
//! with `tracebuf_` and a number are items of a list of what a trace buffer must do.

mod accounting;
mod against_model;
mod clones;
mod hostile;
mod model;
mod order;
mod packets;
mod patches;
mod reassembly;
mod scrape;
mod sizes;
mod storage;
mod support;
mod turnover;
mod verdicts;
