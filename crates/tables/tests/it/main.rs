//! Integration tests, in one program.

mod android;
mod binder;
mod clocks;
mod common;
mod devices;
mod disks;
mod etw;
mod formats;
mod frames;
mod ftrace;
mod gpu;
mod health;
mod hostile;
mod hostile_kernel;
mod manifest;
mod pipeline;
mod processes;
mod profiles;
mod protovm;
mod reference;
mod sched;
mod system;
mod threads;
mod trace_info;
mod track_events;
mod upstream;
