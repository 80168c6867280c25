//! Counters and file descriptors of processes.

use ferretto_proto::fields::process_stats::{PROCESSES, fd_info, process as field, thread};
use ferretto_wire::{Field, Fields};

use crate::import::context::Context;
use crate::import::message::Message;
use crate::schema::{FiledescriptorRow, TableId};
use crate::stats::Stat;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// Reads a `ProcessStats`.
pub(super) fn parse(cx: &mut Context, ts: i64, bytes: &[u8]) {
    for part in Fields::new(bytes).map_while(Result::ok) {
        if part.number == PROCESSES {
            process(cx, ts, part.as_bytes().unwrap_or_default());
        }
    }
}

fn process(cx: &mut Context, ts: i64, bytes: &[u8]) {
    let pid = Fields::find(field::PID, bytes).and_then(|pid| pid.as_u64());
    let pid = i64::from(pid.unwrap_or(0) as u32);
    for part in Fields::new(bytes).map_while(Result::ok) {
        match part.number {
            field::PID
            | field::IS_PEAK_RSS_RESETTABLE
            | field::CHROME_PRIVATE_FOOTPRINT_KB
            | field::CHROME_PEAK_RESIDENT_SET_KB => {}
            field::THREADS => {
                let part = Message::<2>::read(part.as_bytes().unwrap_or_default());
                let tid = part.u32(thread::TID).into();
                cx.processes.thread_in_process(&mut cx.store, tid, pid);
            }
            field::FDS => {
                let part = Message::<3>::read(part.as_bytes().unwrap_or_default());
                let upid = cx.processes.process(&mut cx.store, pid);
                if cx.store.wants(TableId::filedescriptor) {
                    let row = FiledescriptorRow {
                        ufd: 0,
                        fd: part.int(fd_info::FD),
                        ts: Some(ts),
                        upid: Some(upid),
                        path: cx.store.strings.intern_bytes(part.bytes(fd_info::PATH)),
                    };
                    cx.store.tables.filedescriptor.push(row);
                }
            }
            _ => counter(cx, ts, pid, part),
        }
    }
}

fn counter(cx: &mut Context, ts: i64, pid: i64, part: Field<'_>) {
    let memory = |key| ("process_memory", "process_memory_key", "mem.", key, 1024);
    let smaps = |key| ("smaps", "smaps_key", "mem.smaps.", key, 1024);
    let runtime = |key| {
        (
            "proc_stat_runtime",
            "proc_stat_runtime_key",
            "runtime.",
            key,
            1,
        )
    };
    let (type_, dimension, prefix, key, unit) = match part.number {
        field::VM_SIZE_KB => memory("virt"),
        field::VM_RSS_KB => memory("rss"),
        field::RSS_ANON_KB => memory("rss.anon"),
        field::RSS_FILE_KB => memory("rss.file"),
        field::RSS_SHMEM_KB => memory("rss.shmem"),
        field::VM_SWAP_KB => memory("swap"),
        field::VM_LOCKED_KB => memory("locked"),
        field::VM_HWM_KB => memory("rss.watermark"),
        field::DMABUF_RSS_KB => memory("dmabuf_rss"),
        field::SMR_RSS_KB => smaps("rss"),
        field::SMR_PSS_KB => smaps("pss"),
        field::SMR_PSS_ANON_KB => smaps("pss.anon"),
        field::SMR_PSS_FILE_KB => smaps("pss.file"),
        field::SMR_PSS_SHMEM_KB => smaps("pss.smem"),
        field::SMR_SWAP_PSS_KB => smaps("swap.pss"),
        field::RUNTIME_USER_MODE => runtime("user_ns"),
        field::RUNTIME_KERNEL_MODE => runtime("kernel_ns"),
        field::OOM_SCORE_ADJ => ("oom_score_adj", "", "oom_score_adj", "", 1),
        _ => {
            cx.store.stats.add(Stat::proc_stat_unknown_counters, 1);
            return;
        }
    };
    let upid = cx.processes.process(&mut cx.store, pid);
    let value = (part.as_i64().unwrap_or(0) as f64) * f64::from(unit);
    let mut dimensions = vec![Dimension::Upid(upid)];
    if !dimension.is_empty() {
        let key = cx.store.strings.intern(key);
        dimensions.push(Dimension::Text(dimension, key));
    }
    let name = cx.store.strings.intern(&format!("{prefix}{key}"));
    let spec = TrackSpec::counter(type_, &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
}
