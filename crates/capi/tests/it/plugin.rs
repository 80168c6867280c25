//! A program that loads the library, is recorded, and unloads it while recorded threads still run.

use std::fs;

use crate::common::library::{self, Scratch, has_compiler};
use ferretto::proto::Message as _;
use ferretto::session::{Buffer, RecordingConfig, TrackEvents};
use ferretto_trace::events::read_events;

#[test]
fn a_program_may_load_and_unload_the_library() {
    ferretto_testing::own_process!();
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("plugin");
    // The linker omits a library without needed symbols.
    let program = scratch.compile("plugin.c", "ferretto_c", &["-Wl,--as-needed"]);
    let config = RecordingConfig::new()
        .buffer(Buffer::discard(256))
        .track_events(TrackEvents::only(&["plugin"]));
    fs::write(scratch.join("config"), config.message().encode_to_vec()).unwrap();
    let output = scratch
        .command(program)
        .arg(library::path())
        .args([scratch.join("config"), scratch.join("trace")])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {errors}", output.status);
    let trace = fs::read(scratch.join("trace")).unwrap();
    let found = read_events(&*trace).unwrap();
    let mut names: Vec<_> = found.events.iter().filter_map(|e| e.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["main", "main", "thread", "thread"]);
}
