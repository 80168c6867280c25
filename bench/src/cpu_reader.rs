//! Upstream's benchmark of its reader of kernel pages
//! (`src/traced/probes/ftrace/cpu_reader_benchmark.cc`), on pages of a current kernel. Upstream's
//! reader is not in the core that is built in.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::path::Path;

use ferretto_probes::PacketSink;
use ferretto_probes::ftrace::{Batch, Bundler, CpuState, Metadata, Page, Plan, Tracefs};
use ferretto_proto::FtraceConfig;
use ferretto_proto::ftrace_config::CompactSchedConfig;

use crate::{Group, Row};

const PAGE: usize = 4096;
/// The timestamp and the commit word.
const HEADER: usize = 16;

/// Returns the directory of a recording of the tests of `crates/probes`.
fn recorded(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/probes/tests/data")
        .join(name)
}

/// Returns a page full of recorded events.
fn full_page(folder: &str, ids: &[u16]) -> Vec<u8> {
    let pages = std::fs::read(recorded(folder).join("cpu0.pages")).expect("recorded pages");
    let pages: Vec<Page<'_>> = pages
        .chunks(PAGE)
        .map(|page| Page::parse(page, 8).expect("a page"))
        .collect();
    let records = pages.iter().flat_map(Page::records).map(Result::unwrap);
    let records: Vec<_> = records.filter(|record| ids.contains(&record.id)).collect();
    let mut page = vec![0; HEADER];
    for record in records.iter().cycle() {
        let words = record.data.len().div_ceil(4);
        if page.len() + 4 + 4 * words > PAGE {
            break;
        }
        // // Each 12 µs after the previous one.
        page.extend((words as u32 | 12_000 << 5).to_le_bytes());
        page.extend(record.data);
        page.resize(page.len().next_multiple_of(4), 0);
    }
    let size = page.len() - HEADER;
    page[..8].copy_from_slice(&4_142_342_342_342_u64.to_le_bytes());
    page[8..16].copy_from_slice(&(size as u64).to_le_bytes());
    page.resize(PAGE, 0);
    page
}

#[derive(Debug)]
struct Discard;

impl PacketSink for Discard {
    fn write_packet(&mut self, fields: &[u8]) {
        black_box(fields);
    }
}

/// Returns the id of an event from its format file.
fn id(folder: &str, event: &str) -> u16 {
    let path = recorded(folder).join("events").join(event).join("format");
    let text = std::fs::read_to_string(path).expect("a format file");
    let line = text.lines().find_map(|line| line.strip_prefix("ID: "));
    line.and_then(|id| id.parse().ok()).expect("an id")
}

fn process(
    name: &'static str,
    folder: &str,
    events: &[&str],
    pages: usize,
    compact: bool,
) -> Group {
    let config = FtraceConfig {
        ftrace_events: events.iter().map(|event| (*event).into()).collect(),
        compact_sched: CompactSchedConfig {
            enabled: Some(compact),
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    let plan = Plan::from_formats(&config, &Tracefs::at(recorded(folder))).expect("a plan");
    let ids: Vec<u16> = events.iter().map(|event| id(folder, event)).collect();
    let page = full_page(folder, &ids);
    let pages = page.repeat(pages);
    let (mut bundler, mut metadata) = (Bundler::default(), Metadata::default());
    let (mut state, mut errors) = (CpuState::default(), BTreeSet::new());
    let ours = Row::of_one_thread("ours", move || {
        let batch = Batch {
            cpu: 0,
            pages: &Page::parse_all(black_box(&pages), PAGE, plan.commit_size),
            clock: None,
        };
        metadata.clear();
        let mut sink = Discard;
        bundler.process(
            &plan,
            &batch,
            &mut state,
            &mut metadata,
            &mut errors,
            &mut sink,
        );
        assert!(errors.is_empty(), "{errors:?}");
    });
    Group {
        name,
        bar: None,
        bytes: None,
        rows: vec![ours],
    }
}

const SWITCH: &[&str] = &["sched/sched_switch"];
const BOTH: &[&str] = &["sched/sched_switch", "sched/sched_waking"];

pub(crate) fn switches_1() -> Group {
    process(
        "BM_ProcessPagesFullOfSchedSwitch/1",
        "sched",
        SWITCH,
        1,
        false,
    )
}

pub(crate) fn switches_8() -> Group {
    process(
        "BM_ProcessPagesFullOfSchedSwitch/8",
        "sched",
        SWITCH,
        8,
        false,
    )
}

pub(crate) fn switches_64() -> Group {
    process(
        "BM_ProcessPagesFullOfSchedSwitch/64",
        "sched",
        SWITCH,
        64,
        false,
    )
}

/// The compact form, which most recordings use.
pub(crate) fn compact() -> Group {
    process("ProcessPagesFullOfCompactSched/64", "sched", BOTH, 64, true)
}

pub(crate) fn prints() -> Group {
    process(
        "BM_ProcessPagesFullOfPrint/64",
        "mixed",
        &["ftrace/print"],
        64,
        false,
    )
}
