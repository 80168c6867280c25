//! The service in a world of its own: scenarios under virtual time.
#![allow(unreachable_pub)]

mod recording;
mod world;
