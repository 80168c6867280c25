//! The heap profiler with real programs.

mod clients;
mod cost;
mod libraries;
mod library;
mod life;
mod packets;
mod programs;
#[path = "../ring_client/mod.rs"]
mod ring_client;
mod upstream;
mod world;
