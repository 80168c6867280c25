//! The built binary, used as people and scripts use it.

mod accuracy;
mod commands;
mod daemons;
mod damage;
mod detach;
mod doctor;
mod files;
mod flamegraph;
mod machines;
mod open;
mod outputs;
mod perfetto;
mod presets;
mod private;
mod profile;
mod record;
mod relay;
mod remote;
mod snapshots;
mod symbolize;
mod target;
mod tls;
mod tracebox;
mod users;
mod view;
mod world;
