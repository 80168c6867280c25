//! The heap profiler with real programs.

mod clients;
mod cost;
mod libraries;
mod life;
mod packets;
mod programs;
mod upstream;
mod world;
