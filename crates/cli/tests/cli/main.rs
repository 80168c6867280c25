//! The built binary, used as people and scripts use it.

mod daemons;
mod files;
mod perfetto;
mod record;
mod world;
