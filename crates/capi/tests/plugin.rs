//! A program loads the library, is recorded, and lets go of it while threads that were recorded are
//! still there.

mod common;

use std::fs;

use common::library::{self, Scratch, has_compiler};
use ferretto::proto::Message as _;
use ferretto::session::{Buffer, RecordingConfig, TrackEvents};
use ferretto_trace::events::read_events;

#[test]
fn a_program_may_load_the_library_and_let_go_of_it() {
    if !has_compiler() {
        return;
    }
    let scratch = Scratch::new("plugin");
    // The compiler leaves a library out that nothing is needed of.
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
