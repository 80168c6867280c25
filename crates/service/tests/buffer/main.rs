//! The trace buffers, and the processing of packets that are read from them. Tests with the prefix
//! `tracebuf_` and a number refer to items of a list of requirements on a trace buffer.

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
