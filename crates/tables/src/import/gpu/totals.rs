//! Frequencies and memory of GPUs, as the kernel reports them.

use ferretto_proto::fields::gpu_mem_total_event as memory;

use super::dimensions;
use crate::import::context::Context;
use crate::import::message::Message;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

/// Adds a frequency in kHz.
pub(in crate::import) fn add_frequency(cx: &mut Context, ts: i64, gpu: u32, khz: f64) {
    let dimensions = dimensions(cx, gpu);
    let name = cx.store.strings.intern("gpufreq");
    let spec = TrackSpec::counter("gpu_frequency", &dimensions).named(name);
    let spec = spec.in_unit(&mut cx.store, "kHz");
    add(cx, ts, spec, khz);
}

/// Reads a `GpuMemTotalEvent`, or the kernel event with the same fields.
pub(in crate::import) fn memory(cx: &mut Context, ts: i64, bytes: &[u8], is_of_kernel: bool) {
    let event = Message::<4>::read(bytes);
    let size = event.uint(memory::SIZE) as f64;
    let of = dimensions(cx, event.u32(memory::GPU_ID));
    let pid = i64::from(event.u32(memory::PID));
    let name = cx.store.strings.intern("GPU Memory");
    if pid == 0 {
        let spec = TrackSpec::counter("gpu_memory", &of).named(name);
        let spec = spec.in_unit(&mut cx.store, "bytes");
        add(cx, ts, spec, size);
        return;
    }
    // The kernel may report a process that has ended.
    if is_of_kernel && cx.processes.find_thread(&cx.store, pid).is_none() {
        return;
    }
    cx.processes.thread_in_process(&mut cx.store, pid, pid);
    let upid = cx.processes.process(&mut cx.store, pid);
    let of = [of[0], of[1], Dimension::Upid(upid)];
    let spec = TrackSpec::counter("process_gpu_memory", &of).named(name);
    let spec = spec.in_unit(&mut cx.store, "bytes");
    add(cx, ts, spec, size);
}

fn add(cx: &mut Context, ts: i64, spec: TrackSpec<'_>, value: f64) {
    let track = cx.tracks.intern(&mut cx.store, spec);
    cx.counters
        .add(&mut cx.store, ts, track, value, &mut ArgSet::default());
}
