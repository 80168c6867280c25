//! Slices of CPUs: interrupts, timers and changes of CPUs.

use ferretto_proto::fields::{
    cpuhp_enter_ftrace_event as cpuhp, ftrace_event as event,
    hrtimer_expire_entry_ftrace_event as hrtimer, irq_handler_entry_ftrace_event as irq,
    irq_handler_exit_ftrace_event as irq_exit, napi_gro_receive_entry_ftrace_event as napi,
    softirq_entry_ftrace_event as softirq,
};

use super::super::{Context, Head};
use super::{Target, begin, end_named};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::track::{Dimension, TrackSpec};

const SOFTIRQS: [&str; 10] = [
    "HI",
    "TIMER",
    "NET_TX",
    "NET_RX",
    "BLOCK",
    "BLOCK_IOPOLL",
    "TASKLET",
    "SCHED",
    "HRTIMER",
    "RCU",
];

const IRQ: CpuTrack = CpuTrack {
    kind: "cpu_irq",
    label: "Irq Cpu",
    category: "irq",
};
const SOFTIRQ: CpuTrack = CpuTrack {
    kind: "cpu_softirq",
    label: "SoftIrq Cpu",
    category: "irq",
};
const NAPI: CpuTrack = CpuTrack {
    kind: "cpu_napi_gro",
    label: "Napi Gro Cpu",
    category: "napi_gro",
};
const HRTIMER: CpuTrack = CpuTrack {
    kind: "cpu_hrtimer",
    label: "Hrtimer Cpu",
    category: "hrtimer",
};
const HOTPLUG: CpuTrack = CpuTrack {
    kind: "cpu_hotplug",
    label: "CPU Hotplug",
    category: "cpu",
};

/// A track that each CPU has.
#[derive(Debug, Clone, Copy)]
struct CpuTrack {
    kind: &'static str,
    /// The name of the track before the number of the CPU.
    label: &'static str,
    /// The category of its slices.
    category: &'static str,
}

impl CpuTrack {
    fn begin(self, cx: &mut Context, head: &Head<'_>, name: &str, args: &mut ArgSet) {
        self.on(cx, head.cpu, |cx, target| {
            let name = cx.store.strings.intern(name);
            begin(cx, head.ts, target, name, args);
        });
    }

    fn end(self, cx: &mut Context, head: &Head<'_>, args: &mut ArgSet) {
        self.on(cx, head.cpu, |cx, target| {
            end_named(cx, head.ts, target, StringId::NULL, args);
        });
    }

    fn on(self, cx: &mut Context, cpu: u32, slice: impl FnOnce(&mut Context, Target<'_>)) {
        let label = cx.store.strings.intern(&format!("{} {cpu}", self.label));
        let dimensions = [Dimension::Cpu(cpu)];
        let track = TrackSpec::slices(self.kind, &dimensions).named(label);
        slice(cx, Target::on(track, self.category));
    }
}

/// Reads an event of an interrupt or timer, or of a change of a CPU.
pub(super) fn parse(cx: &mut Context, head: &Head<'_>, number: u32, body: &[u8]) {
    let mut args = ArgSet::default();
    match number {
        event::IRQ_HANDLER_ENTRY => {
            let body = Message::<4>::read(body);
            let name = String::from_utf8_lossy(body.bytes(irq::NAME));
            IRQ.begin(cx, head, &format!("IRQ ({name})"), &mut args);
        }
        event::IRQ_HANDLER_EXIT => {
            let is_handled = Message::<3>::read(body).int(irq_exit::RET) == 1;
            let text = if is_handled { "handled" } else { "unhandled" };
            args.text(&mut cx.store, "ret", text);
            IRQ.end(cx, head, &mut args);
        }
        event::LOCAL_TIMER_ENTRY => IRQ.begin(cx, head, "IRQ (LocalTimer)", &mut args),
        event::LOCAL_TIMER_EXIT => IRQ.end(cx, head, &mut args),
        event::SOFTIRQ_ENTRY => {
            let vec = Message::<2>::read(body).uint(softirq::VEC);
            if let Some(name) = SOFTIRQS.get(vec as usize) {
                SOFTIRQ.begin(cx, head, name, &mut args);
            }
        }
        event::SOFTIRQ_EXIT => {
            let vec = Message::<2>::read(body).u32(softirq::VEC);
            args.int(&mut cx.store, "vec", vec.into());
            SOFTIRQ.end(cx, head, &mut args);
        }
        event::NAPI_GRO_RECEIVE_ENTRY => {
            let body = Message::<12>::read(body);
            args.int(&mut cx.store, "len", body.u32(napi::LEN).into());
            let name = String::from_utf8_lossy(body.bytes(napi::NAME));
            NAPI.begin(cx, head, &name, &mut args);
        }
        event::NAPI_GRO_RECEIVE_EXIT => {
            args.int(&mut cx.store, "ret", Message::<2>::read(body).int(1));
            NAPI.end(cx, head, &mut args);
        }
        event::HRTIMER_EXPIRE_ENTRY => {
            let function = Message::<4>::read(body).uint(hrtimer::FUNCTION);
            let name = head.symbol(cx, function);
            let name = cx.store.strings.text(name).to_owned();
            HRTIMER.begin(cx, head, &name, &mut args);
        }
        event::HRTIMER_EXPIRE_EXIT => HRTIMER.end(cx, head, &mut args),
        event::CPUHP_ENTER | event::CPUHP_MULTI_ENTER => {
            let body = Message::<5>::read(body);
            let index = body.int(cpuhp::IDX);
            let action_cpu = ArgValue::Uint(head.cpu.into());
            args.put(&mut cx.store, "action_cpu", action_cpu);
            args.int(&mut cx.store, "cpuhp_idx", index);
            let on = Head {
                cpu: body.u32(cpuhp::CPU),
                ..*head
            };
            HOTPLUG.begin(cx, &on, &format!("cpuhp({index})"), &mut args);
        }
        event::CPUHP_EXIT => {
            let on = Head {
                cpu: Message::<5>::read(body).u32(cpuhp::CPU),
                ..*head
            };
            // Ends slices of any category.
            let track = CpuTrack {
                category: "",
                ..HOTPLUG
            };
            track.end(cx, &on, &mut args);
        }
        _ => {}
    }
}
