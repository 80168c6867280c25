//! The profiler as a producer of a real service, over real sockets, with real events and processes.

mod counting;
mod life;
mod world;
