//! Data sources defined by callbacks of programs.

mod define;
mod life;
mod trace;

pub use define::*;
pub use life::{
    PerfettoDsAsyncFlusher, PerfettoDsAsyncStopper, PerfettoDsFlushDone,
    PerfettoDsImplGetInstanceLocked, PerfettoDsImplReleaseInstanceLocked, PerfettoDsOnFlushArgs,
    PerfettoDsOnFlushArgsGetReason, PerfettoDsOnFlushArgsPostpone, PerfettoDsOnStopArgs,
    PerfettoDsOnStopArgsPostpone, PerfettoDsStopDone,
};
pub use trace::*;

pub(crate) use trace::{DsThread, collect};
