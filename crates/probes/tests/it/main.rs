//! Integration tests, in one program.

mod batteries;
mod cgroups;
mod common;
mod counters;
mod everything;
mod frozen;
mod inodes;
mod journal;
mod kernel;
mod ordering;
mod pages;
mod recorded;
mod service;
mod watermark;
