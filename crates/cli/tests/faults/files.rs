//! Commands that read files and write others.

use std::sync::OnceLock;
use std::time::Duration;

use ferretto_testing::faults::{End, Run};
use ferretto_trace::TraceReader;
use ferretto_wire::encode;

use crate::judge::{self, Judged};
use crate::plan::cover;
use crate::world::World;

/// The content of the output before the command.
const OLD: &[u8] = b"the file that was there before";
const LIMIT: Duration = Duration::from_secs(60);

/// Returns a trace of instants, one each millisecond, with arguments.
fn trace(first: u64) -> Vec<u8> {
    let mut trace = Vec::new();
    for number in 0..3000_u64 {
        trace.extend(encode(|trace| {
            if number == 0 {
                // Boot time and wall clock time.
                trace.nested(1, |packet| {
                    packet.nested(6, |snapshot| {
                        for (clock, time) in [(6, 1), (1, 1_700_000_000)] {
                            snapshot.nested(1, |reading| {
                                reading.varint(1, clock);
                                reading.varint(2, time * 1_000_000_000);
                            });
                        }
                    });
                });
            }
            trace.nested(1, |packet| {
                packet.varint(8, 1_000_000_000 + (first + number) * 1_000_000);
                packet.varint(10, 7);
                packet.nested(11, |event| {
                    event.varint(9, 3);
                    event.varint(11, 1);
                    event.string(22, "a category");
                    event.string(23, "an event");
                });
            });
        }));
    }
    trace
}

/// Returns a file in Chrome's format.
fn chrome() -> String {
    let events: Vec<String> = (0..2000)
        .map(|number| {
            format!(r#"{{"ph":"X","name":"work","pid":1,"tid":2,"ts":{number}00,"dur":50}}"#)
        })
        .collect();
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

/// Returns the number of packets of a trace, or of bytes of another file.
fn extent(file: &[u8]) -> u64 {
    if file.first() != Some(&0x0a) {
        return file.len() as u64;
    }
    let mut packets = 0;
    match TraceReader::new(file).read_all(|_| packets += 1) {
        Ok(damage) if damage.is_none() => packets,
        _ => 0,
    }
}

/// Covers a command that writes `out`.
fn covers(name: &str, args: &[&str]) {
    // The extent without faults. The content differs by a random id.
    let expected = OnceLock::new();
    cover(name, |fault| {
        let world = World::new();
        world.write("one", trace(0));
        world.write("two", trace(1500));
        world.write("chrome.json", chrome());
        world.write("out", OLD);
        let before = world.names();
        let command = world.command("ferretto", args);
        let outcome = Run::new(command).fault(fault).limit(LIMIT).outcome();
        let outcome = outcome.expect("the command starts");
        let stderr = world.stderr("ferretto");
        let check = || {
            judge::end(&outcome, fault, &stderr)?;
            let out = world.read("out").ok_or("the earlier file is gone")?;
            let expected = *expected.get_or_init(|| extent(&out));
            match outcome.end {
                End::Exited(0) if out == OLD => return Err("it wrote nothing".to_owned()),
                End::Exited(0 | 1 | 3) | End::Killed(_) => {}
                end => return Err(format!("{end:?}")),
            }
            // A part of the input that could not be read is missing.
            let is_partial = outcome.end == End::Exited(3);
            if out != OLD && extent(&out) != expected && !is_partial {
                return Err(format!("{} of {expected}", extent(&out)));
            }
            if out != OLD && !args.contains(&"view") {
                judge::opens(&world, "out")?;
            }
            let after = world.names();
            if after != before && !judge::may_leave_files(fault) {
                return Err(format!("it left {after:?}"));
            }
            Ok(())
        };
        let wrong = check().map_err(|wrong: String| format!("{wrong}\n{stderr}"));
        Judged { outcome, wrong }
    });
}

#[test]
fn cut() {
    covers(
        "cut",
        &["cut", "one", "--from", "1s", "--to", "2s", "-o", "out"],
    );
}

#[test]
fn merge() {
    covers("merge", &["merge", "one", "two", "-o", "out"]);
}

#[test]
fn import() {
    covers("import", &["import", "chrome.json", "-o", "out"]);
}

#[test]
fn view() {
    covers("view", &["view", "one", "-o", "out"]);
}
