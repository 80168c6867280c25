//! The profiler as a producer of a real service, over real sockets, with real events and processes.

mod callstacks;
mod counting;
mod gone;
mod life;
mod metatrace;
mod programs;
pub(crate) mod recording;
pub(crate) mod stacks;
pub(crate) mod target;
pub(crate) mod world;
