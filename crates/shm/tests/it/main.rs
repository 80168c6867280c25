//! Integration tests, in one program.

mod arbiter;
mod common;
mod crowd;
mod layout;
mod local;
mod loss;
mod raw;
mod service;
mod shortage;
mod startup;
mod whole;
mod writer;
