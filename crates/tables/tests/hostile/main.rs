//! Files made to do harm: each is imported in a process of its own that has little memory and
//! little time.

#[path = "../common/mod.rs"]
mod common;
mod confined;
mod formats;
mod packed;
mod packets;
