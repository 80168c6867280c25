//! The tracing service as a thread of this process. Each test has a service of its own.

#![cfg(feature = "in-process")]

mod callbacks;
mod files;
mod recording;
mod sessions;
mod trouble;
mod world;
