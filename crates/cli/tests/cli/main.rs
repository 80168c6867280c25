//! The built binary, used as people and scripts use it.

mod accuracy;
mod beside_perf;
mod commands;
#[path = "../../../edit/tests/parts/content.rs"]
mod content;
mod daemons;
mod damage;
mod detach;
mod doctor;
mod files;
mod flamegraph;
mod heap;
mod import;
mod journal;
mod machines;
mod open;
mod outputs;
mod parts;
mod parts_of_recordings;
mod perfetto;
mod presets;
mod private;
mod profile;
mod record;
mod relay;
mod remote;
mod ring;
mod snapshots;
mod symbolize;
mod target;
mod tls;
mod tracebox;
mod tracefs;
mod users;
mod view;
mod world;
