//! Integration tests, in one program.

mod before_init;
mod boundary;
mod c_programs;
mod categories;
mod common;
mod data_sources;
mod decoder;
mod event_ring;
mod event_times;
mod event_tracks;
mod events;
mod exports;
mod fork;
mod fork_stop;
mod installed;
mod official_suites;
mod packets;
mod plugin;
