//! Kernel events that become slices.

mod cpu;

use ferretto_proto::fields::{
    cma_alloc_finish_ftrace_event as cma_finish, cma_alloc_info_ftrace_event as cma_info,
    ftrace_event as event, funcgraph_entry_ftrace_event as entry,
    funcgraph_exit_ftrace_event as exit, kprobe_event as probe, mark_victim_ftrace_event as victim,
    mm_alloc_contig_migrate_range_info_ftrace_event as migrated,
    mm_shrink_slab_end_ftrace_event as shrunk, mm_shrink_slab_start_ftrace_event as shrink,
    mm_vmscan_direct_reclaim_begin_ftrace_event as begun,
    mm_vmscan_direct_reclaim_end_ftrace_event as reclaimed,
    signal_deliver_ftrace_event as delivered, signal_generate_ftrace_event as signal,
    suspend_resume_ftrace_event as suspend, workqueue_execute_start_ftrace_event as work,
};
use rustc_hash::FxHashMap;

use super::tcp::{self, Streams};
use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::kernel::Version;
use crate::trackers::lane::Nesting;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The type of tracks of suspend and resume.
const SUSPEND: &str = "suspend_resume";

/// The maximum number of threads.
const MAX_KEYS: usize = 1 << 16;

/// The state of open slices beyond their track.
#[derive(Debug, Default)]
pub(super) struct Slices {
    streams: Streams,
    /// The numbers of migrated, reclaimed and mapped pages, by thread.
    migrated: FxHashMap<u32, [u64; 3]>,
    suspend: Suspend,
    /// The name of the slice of entering suspend, whose end may be missing.
    suspend_enter: StringId,
}

/// The progress of a suspend.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Suspend {
    #[default]
    No,
    Entered,
    Freezing,
}

/// The place of a slice that begins or ends.
struct Target<'a> {
    track: TrackSpec<'a>,
    category: &'a str,
}

impl<'a> Target<'a> {
    fn on(track: TrackSpec<'a>, category: &'a str) -> Self {
        Self { track, category }
    }
}

impl Slices {
    /// Parses an event.
    pub(super) fn parse(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        let mut args = ArgSet::default();
        match number {
            event::IRQ_HANDLER_ENTRY
            | event::IRQ_HANDLER_EXIT
            | event::LOCAL_TIMER_ENTRY
            | event::LOCAL_TIMER_EXIT
            | event::SOFTIRQ_ENTRY
            | event::SOFTIRQ_EXIT
            | event::NAPI_GRO_RECEIVE_ENTRY
            | event::NAPI_GRO_RECEIVE_EXIT
            | event::HRTIMER_EXPIRE_ENTRY
            | event::HRTIMER_EXPIRE_EXIT
            | event::CPUHP_ENTER
            | event::CPUHP_MULTI_ENTER
            | event::CPUHP_EXIT => cpu::parse(cx, head, number, body),
            event::WORKQUEUE_EXECUTE_START => {
                let function = Message::<3>::read(body).uint(work::FUNCTION);
                let name = head.symbol(cx, function);
                args.int(&mut cx.store, "cpu", head.cpu.into());
                begin_of_thread(cx, head, "workqueue", name, &mut args);
            }
            event::WORKQUEUE_EXECUTE_END => end_of_thread(cx, head, "workqueue", &mut args),
            event::FUNCGRAPH_ENTRY | event::FUNCGRAPH_EXIT => {
                let is_begin = number == event::FUNCGRAPH_ENTRY;
                let function = if is_begin { entry::FUNC } else { exit::FUNC };
                let function = Message::<4>::read(body).uint(function);
                let name = head.symbol(cx, function);
                function_graph(cx, head, name, is_begin);
            }
            event::MM_VMSCAN_DIRECT_RECLAIM_BEGIN
            | event::MM_VMSCAN_DIRECT_RECLAIM_END
            | event::MM_SHRINK_SLAB_START
            | event::MM_SHRINK_SLAB_END => reclaim(cx, head, number, body),
            event::CMA_ALLOC_START
            | event::CMA_ALLOC_INFO
            | event::CMA_ALLOC_FINISH
            | event::MM_ALLOC_CONTIG_MIGRATE_RANGE_INFO => self.cma(cx, head, number, body),
            event::SIGNAL_GENERATE => {
                let body = Message::<7>::read(body);
                args.int(&mut cx.store, "signal.sig", body.int(signal::SIG));
                let tid = body.u32(signal::PID).into();
                instant(cx, head.ts, tid, "signal_generate", &mut args);
            }
            event::SIGNAL_DELIVER => {
                let number = Message::<4>::read(body).int(delivered::SIG);
                args.int(&mut cx.store, "signal.sig", number);
                instant(cx, head.ts, head.tid, "signal_deliver", &mut args);
            }
            event::MARK_VICTIM => {
                let tid = Message::<2>::read(body).u32(victim::PID).into();
                instant(cx, head.ts, tid, "mem.oom_kill", &mut args);
            }
            event::KPROBE_EVENT => kprobe(cx, head, body),
            event::INET_SOCK_SET_STATE => self.streams.state_changed(cx, head, body),
            event::TCP_RETRANSMIT_SKB => tcp::retransmitted(cx, head, body),
            event::SUSPEND_RESUME => self.suspend(cx, head, body),
            _ => {}
        }
    }

    /// Parses the events of contiguous memory allocations (CMA), which differ between kernel
    /// versions.
    fn cma(&mut self, cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
        const INFO: Version = (5, 10);
        const FINISH: Version = (6, 1);
        let Some(version) = cx.kernels.get(&cx.store).version else {
            return;
        };
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let mut args = ArgSet::default();
        let body = Message::<11>::read(body);
        let mut uint = |cx: &mut Context, key, value| {
            args.put(&mut cx.store, key, ArgValue::Uint(value));
        };
        match number {
            event::CMA_ALLOC_START if version >= INFO => {
                self.migrated.remove(&utid);
                let name = cx.store.strings.intern("mm_cma_alloc");
                begin_of_thread(cx, head, "", name, &mut args);
            }
            event::MM_ALLOC_CONTIG_MIGRATE_RANGE_INFO
                if version >= FINISH && self.migrated.len() < MAX_KEYS =>
            {
                let fields = [
                    migrated::NR_MIGRATED,
                    migrated::NR_RECLAIMED,
                    migrated::NR_MAPPED,
                ];
                let counts = fields.map(|field| body.uint(field));
                self.migrated.insert(utid, counts);
            }
            event::CMA_ALLOC_FINISH if version >= FINISH => {
                let [migrated, reclaimed, mapped] =
                    self.migrated.get(&utid).copied().unwrap_or_default();
                let name = cx.store.strings.intern_bytes(body.bytes(cma_finish::NAME));
                uint(cx, "cma_pfn", body.uint(cma_finish::PFN));
                uint(cx, "cma_req_pages", body.uint(cma_finish::COUNT));
                uint(cx, "cma_nr_migrated", migrated);
                uint(cx, "cma_nr_reclaimed", reclaimed);
                uint(cx, "cma_nr_mapped", mapped);
                args.put(&mut cx.store, "cma_name", ArgValue::Text(name));
                end_of_thread(cx, head, "", &mut args);
            }
            event::CMA_ALLOC_INFO if version >= INFO && version < FINISH => {
                let name = cx.store.strings.intern_bytes(body.bytes(cma_info::NAME));
                let fields = [
                    ("cma_pfn", cma_info::PFN),
                    ("cma_req_pages", cma_info::COUNT),
                    ("cma_nr_migrated", cma_info::NR_MIGRATED),
                    ("cma_nr_reclaimed", cma_info::NR_RECLAIMED),
                    ("cma_nr_mapped", cma_info::NR_MAPPED),
                    ("cma_nr_isolate_fail", cma_info::ERR_ISO),
                    ("cma_nr_migrate_fail", cma_info::ERR_MIG),
                    ("cma_nr_test_fail", cma_info::ERR_TEST),
                ];
                for (key, field) in fields {
                    uint(cx, key, body.uint(field));
                }
                args.put(&mut cx.store, "cma_name", ArgValue::Text(name));
                end_of_thread(cx, head, "", &mut args);
            }
            _ => {}
        }
    }

    fn suspend(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let body = Message::<4>::read(body);
        let action = String::from_utf8_lossy(body.bytes(suspend::ACTION));
        let value = match &*action {
            // The number of a CPU, which may be a different one at the end.
            "timekeeping_freeze" => 0,
            _ => body.int(suspend::VAL),
        };
        let name = cx.store.strings.intern(&format!("{action}({value})"));
        let track = |cx: &mut Context, name: StringId, is_begin: bool| {
            let group = cx.lanes.group(&cx.store, SUSPEND, &[]);
            let cookie = name.raw().into();
            let lane = if is_begin {
                cx.lanes.begin(group, cookie, Nesting::Nested)
            } else {
                cx.lanes.end(group, cookie)
            };
            cx.lanes.track(&mut cx.store, lane, |store| {
                let label = store.strings.intern("Suspend/Resume Latency");
                (TrackSpec::slices(SUSPEND, &[]).named(label), Vec::new())
            })
        };
        let mut args = ArgSet::default();
        let any = (StringId::NULL, StringId::NULL);
        let end = |cx: &mut Context, name: StringId| {
            let track = track(cx, name, false);
            let mut args = ArgSet::default();
            cx.slices.end(&mut cx.store, head.ts, track, any, &mut args);
        };
        if body.uint(suspend::START) == 0 {
            end(cx, name);
            if action == "suspend_enter" {
                self.suspend = Suspend::No;
            } else if action == "thaw_processes" && self.suspend == Suspend::Freezing {
                // Entering suspend failed, and its end event is missing.
                end(cx, self.suspend_enter);
                self.suspend = Suspend::No;
            }
            return;
        }
        if action == "suspend_enter" {
            self.suspend = Suspend::Entered;
            self.suspend_enter = name;
        } else if action == "freeze_processes" && self.suspend == Suspend::Entered {
            self.suspend = Suspend::Freezing;
        }
        let utid = cx.processes.thread(&mut cx.store, head.tid);
        let store = &mut cx.store;
        args.put(store, "utid", ArgValue::Uint(utid.into()));
        args.text(store, "event_type", "Main Kernel Suspend Event");
        args.put(store, "cpu", ArgValue::Uint(head.cpu.into()));
        for key in ["device_name", "driver_name", "callback_phase"] {
            args.put(store, key, ArgValue::Text(StringId::NULL));
        }
        let start = SliceStart {
            ts: head.ts,
            track: track(cx, name, true),
            category: StringId::NULL,
            name,
        };
        cx.slices.begin(&mut cx.store, start, &mut args);
    }
}

fn category(cx: &mut Context, category: &str) -> StringId {
    match category {
        "" => StringId::NULL,
        category => cx.store.strings.intern(category),
    }
}

fn begin(cx: &mut Context, ts: i64, target: Target<'_>, name: StringId, args: &mut ArgSet) {
    let start = SliceStart {
        ts,
        track: cx.tracks.intern(&mut cx.store, target.track),
        category: category(cx, target.category),
        name,
    };
    cx.slices.begin(&mut cx.store, start, args);
}

fn end_named(cx: &mut Context, ts: i64, target: Target<'_>, name: StringId, args: &mut ArgSet) {
    let track = cx.tracks.intern(&mut cx.store, target.track);
    let which = (category(cx, target.category), name);
    cx.slices.end(&mut cx.store, ts, track, which, args);
}

fn begin_of_thread(cx: &mut Context, head: &Head<'_>, of: &str, name: StringId, args: &mut ArgSet) {
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let start = SliceStart {
        ts: head.ts,
        track: cx.tracks.of_thread(&mut cx.store, utid),
        category: category(cx, of),
        name,
    };
    cx.slices.begin(&mut cx.store, start, args);
}

fn end_of_thread(cx: &mut Context, head: &Head<'_>, of: &str, args: &mut ArgSet) {
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let track = cx.tracks.of_thread(&mut cx.store, utid);
    let which = (category(cx, of), StringId::NULL);
    cx.slices.end(&mut cx.store, head.ts, track, which, args);
}

fn instant(cx: &mut Context, ts: i64, tid: i64, name: &str, args: &mut ArgSet) {
    let utid = cx.processes.thread(&mut cx.store, tid);
    let start = SliceStart {
        ts,
        track: cx.tracks.of_thread(&mut cx.store, utid),
        category: StringId::NULL,
        name: cx.store.strings.intern(name),
    };
    cx.slices.complete(&mut cx.store, start, 0, args);
}

/// Reads an event of the search for memory.
fn reclaim(cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
    let mut args = ArgSet::default();
    match number {
        event::MM_VMSCAN_DIRECT_RECLAIM_BEGIN => {
            let body = Message::<4>::read(body);
            let store = &mut cx.store;
            args.int(store, "direct_reclaim_order", body.int(begun::ORDER));
            let may_write = body.int(begun::MAY_WRITEPAGE);
            args.int(store, "direct_reclaim_may_writepage", may_write);
            let flags = ArgValue::Uint(body.uint(begun::GFP_FLAGS));
            args.put(store, "direct_reclaim_gfp_flags", flags);
            let name = store.strings.intern("mm_vmscan_direct_reclaim");
            begin_of_thread(cx, head, "", name, &mut args);
        }
        event::MM_VMSCAN_DIRECT_RECLAIM_END => {
            let count = Message::<2>::read(body).uint(reclaimed::NR_RECLAIMED);
            let key = "direct_reclaim_nr_reclaimed";
            args.put(&mut cx.store, key, ArgValue::Uint(count));
            end_of_thread(cx, head, "", &mut args);
        }
        event::MM_SHRINK_SLAB_START => {
            let body = Message::<12>::read(body);
            let function = head.symbol(cx, body.uint(shrink::SHRINK));
            let store = &mut cx.store;
            args.put(store, "shrink_name", ArgValue::Text(function));
            let total = ArgValue::Uint(body.uint(shrink::TOTAL_SCAN));
            args.put(store, "total_scan", total);
            args.int(store, "priority", body.int(shrink::PRIORITY));
            let name = store.strings.intern("mm_vmscan_shrink_slab");
            begin_of_thread(cx, head, "", name, &mut args);
        }
        event::MM_SHRINK_SLAB_END => {
            let freed = Message::<8>::read(body).int(shrunk::RETVAL);
            args.int(&mut cx.store, "freed", freed);
            end_of_thread(cx, head, "", &mut args);
        }
        _ => {}
    }
}

/// Reads the call or the return of a probed function.
fn kprobe(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let mut args = ArgSet::default();
    let body = Message::<3>::read(body);
    let name = cx.store.strings.intern_bytes(body.bytes(probe::NAME));
    let utid = cx.processes.thread(&mut cx.store, head.tid);
    let start = SliceStart {
        ts: head.ts,
        track: cx.tracks.of_thread(&mut cx.store, utid),
        category: StringId::NULL,
        name,
    };
    let store = &mut cx.store;
    match body.uint(probe::TYPE) {
        1 => cx.slices.begin(store, start, &mut args),
        2 => {
            let which = (StringId::NULL, name);
            cx.slices.end(store, head.ts, start.track, which, &mut args)
        }
        3 => cx.slices.complete(store, start, 0, &mut args),
        _ => None,
    };
}

/// Begins or ends a slice of a kernel function.
fn function_graph(cx: &mut Context, head: &Head<'_>, name: StringId, is_begin: bool) {
    let (type_, dimension, label) = match head.tid {
        // The tid of the idle tasks of all CPUs.
        0 => {
            let label = format!("swapper{} -funcgraph", head.cpu);
            ("cpu_funcgraph", Dimension::Cpu(head.cpu), label)
        }
        tid => {
            let utid = cx.processes.thread(&mut cx.store, tid);
            (
                "thread_funcgraph",
                Dimension::Utid(utid),
                "Funcgraph".to_owned(),
            )
        }
    };
    let label = cx.store.strings.intern(&label);
    let dimensions = [dimension];
    let track = TrackSpec::slices(type_, &dimensions).named(label);
    let target = Target::on(track, "");
    let mut args = ArgSet::default();
    if is_begin {
        begin(cx, head.ts, target, name, &mut args)
    } else {
        end_named(cx, head.ts, target, name, &mut args)
    }
}
