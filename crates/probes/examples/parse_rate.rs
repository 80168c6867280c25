//! The rate at which captured pages are converted to packets: `parse_rate FOLDER [plain]`, with a
//! folder written by the example `capture`. Prints events per second, once per round.

use std::collections::BTreeSet;
use std::path::Path;

use ferretto_probes::PacketSink;
use ferretto_probes::ftrace::{Batch, Bundler, CpuState, Metadata, Page, Plan, Tracefs};
use ferretto_proto::{FtraceConfig, ftrace_config::CompactSchedConfig};
use rustix::time::{ClockId, clock_gettime};

/// Counts bytes.
#[derive(Debug, Default)]
struct Count(usize);

impl PacketSink for Count {
    fn write_packet(&mut self, fields: &[u8]) {
        self.0 += fields.len();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("parse_rate FOLDER [plain]")?;
    let plain = std::env::args().nth(2).is_some();
    let mut config = FtraceConfig::default();
    for group in std::fs::read_dir(Path::new(&folder).join("events"))?.flatten() {
        if group.path().is_dir() {
            let group = group.file_name().into_string().map_err(|_| "a name")?;
            config.ftrace_events.push(format!("{group}/*").into_bytes());
        }
    }
    if plain {
        config.compact_sched = CompactSchedConfig {
            enabled: Some(false),
            ..Default::default()
        }
        .into();
    }
    let plan = Plan::from_formats(&config, &Tracefs::at(&folder))?;
    let pages = std::fs::read(Path::new(&folder).join("cpu0.pages"))?;
    let records = |page: &[u8]| Page::parse(page, 8).map_or(0, |page| page.records().count());
    let events: usize = pages.chunks(4096).map(records).sum();
    for _ in 0..10 {
        let (mut bundler, mut state) = (Bundler::default(), CpuState::default());
        let (mut metadata, mut errors, mut out) =
            (Metadata::default(), BTreeSet::new(), Count::default());
        let begin = cpu_seconds();
        for pages in pages.chunks(32 * 4096) {
            let batch = Batch {
                cpu: 0,
                pages: &Page::parse_all(pages, 4096, plan.commit_size),
                clock: None,
            };
            bundler.process(
                &plan,
                &batch,
                &mut state,
                &mut metadata,
                &mut errors,
                &mut out,
            );
        }
        let seconds = cpu_seconds() - begin;
        println!(
            "{:.1} M events/s, {} events, {} bytes out of {}, errors {errors:?}",
            events as f64 / seconds / 1e6,
            events,
            out.0,
            pages.len()
        );
    }
    Ok(())
}

/// Returns the CPU time of this process, so that other load does not count.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
