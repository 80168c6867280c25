//! `ferretto record`, with its own service.

use std::time::Duration;

use ferretto_testing::faults::{End, Fault, Run};

use crate::judge::{self, Judged};
use crate::plan::cover;
use crate::program;
use crate::world::World;

const LIMIT: Duration = Duration::from_secs(90);
/// The content of the output before the recording.
const OLD: &[u8] = b"the file that was there before";

fn run(config: &str, fault: Option<Fault>) -> Judged {
    let world = World::new();
    world.write("config", config);
    world.write("t", OLD);
    let mut command = world.command("ferretto", &["record", "-c", "config", "-o", "t"]);
    program::add_to(&mut command);
    let outcome = Run::new(command).fault(fault).limit(LIMIT).outcome();
    let outcome = outcome.expect("the command starts");
    let stderr = world.stderr("ferretto");
    let check = || {
        judge::end(&outcome, fault, &stderr)?;
        let [trace, old] = ["t", "t.old"].map(|name| world.read(name));
        if trace.as_deref() != Some(OLD) && old.as_deref() != Some(OLD) {
            return Err("the earlier file is gone".to_owned());
        }
        let is_new = trace.as_ref().is_some_and(|trace| trace != OLD);
        if outcome.end == End::Exited(0) && !is_new {
            return Err("it wrote nothing".to_owned());
        }
        if is_new {
            // Otherwise it has said that the recording ended early.
            let is_complete = outcome.end == End::Exited(0);
            program::judge_trace(&world, "t", is_complete, fault.is_none())?;
        }
        Ok(())
    };
    let wrong = check().map_err(|wrong: String| format!("{wrong}\n{stderr}"));
    Judged { outcome, wrong }
}

#[test]
fn record() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" } }
    "#;
    cover("record", |fault| run(CONFIG, fault));
}

#[test]
fn record_into_file() {
    const CONFIG: &str = r#"
        buffers { size_kb: 4096 }
        data_sources { config { name: "track_event" } }
        write_into_file: true
        file_write_period_ms: 100
    "#;
    cover("record into a file", |fault| run(CONFIG, fault));
}
