//! The service in a world of its own: scenarios under virtual time. Names of tests say which item
//! of the conformance checklist they are about.
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
mod statistics;
mod triggers;
mod world;
