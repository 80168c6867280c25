//! The service in a simulated world: scenarios in virtual time. Numbered names of tests refer to
//! items of the conformance checklist.
#![allow(unreachable_pub)]

mod admission;
mod beginning;
mod bounds;
mod buffers;
mod calls;
mod cloning;
mod cloning_files;
mod commits;
mod concurrent;
mod configs;
mod connections;
mod enabling;
mod endurance;
#[cfg(feature = "regex")]
mod expressions;
mod file;
mod filtering;
mod flushing;
mod lifecycle;
mod light;
#[cfg(feature = "priority")]
mod priority;
#[cfg(feature = "protovm")]
mod protovm;
mod queries;
mod quotas;
mod reading;
mod recording;
mod relays;
mod scale;
mod scraping;
mod statistics;
mod triggers;
mod waiting;
mod world;
