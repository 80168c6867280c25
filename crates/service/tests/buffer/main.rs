//! The trace buffers and the processing of packets on their way out of them. Tests whose names
//! start with `tracebuf_` and a number are items of a list of requirements on a trace buffer.

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
