//! Integration tests, in one program.

mod closing;
mod common;
mod config;
mod cpus;
mod daemon;
mod opening;
mod overflow;
mod ring;
mod samples;
mod storm;
mod unprivileged;
