//! The hypervisor of protected virtual machines (pKVM): the times of CPUs in it, and why they
//! entered it.

use ferretto_proto::fields::{
    ftrace_event as event, host_ffa_call_ftrace_event as ffa, host_hcall_ftrace_event as hcall,
    host_mem_abort_ftrace_event as abort, host_smc_ftrace_event as smc,
    hypervisor_iommu_idmap_complete_ftrace_event as complete,
    hypervisor_vcpu_illegal_trap_ftrace_event as trap, iommu_idmap_ftrace_event as idmap,
    psci_mem_protect_ftrace_event as protect,
};

use super::{Context, Head};
use crate::import::message::Message;
use crate::schema::ArgValue;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

/// The type of an argument.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Uint,
    Int,
    Bool,
}

use Kind::{Bool, Int, Uint};

/// The number of a field, its name as an argument, and its type.
type Named = (u32, &'static str, Kind);

/// Returns the reason that an event gives for entering the hypervisor, and its arguments.
fn reason(kind: u32) -> Option<(&'static str, &'static [Named])> {
    Some(match kind {
        event::HOST_HCALL | event::HYPERVISOR_HOST_HCALL => (
            "host_hcall",
            &[(hcall::ID, "id", Uint), (hcall::INVALID, "invalid", Uint)],
        ),
        event::HOST_SMC | event::HYPERVISOR_HOST_SMC => (
            "host_smc",
            &[(smc::ID, "id", Uint), (smc::FORWARDED, "forwarded", Uint)],
        ),
        event::HOST_MEM_ABORT | event::HYPERVISOR_HOST_MEM_ABORT => (
            "host_mem_abort",
            &[(abort::ESR, "esr", Uint), (abort::ADDR, "addr", Uint)],
        ),
        event::HOST_FFA_CALL => (
            "host_ffa_call",
            &[
                (ffa::FUNC_ID, "func_id", Uint),
                (ffa::HANDLED, "handled", Int),
                (ffa::ERR, "err", Int),
            ],
        ),
        event::IOMMU_IDMAP | event::HYPERVISOR_IOMMU_IDMAP => (
            "iommu_idmap",
            &[
                (idmap::FROM, "from", Uint),
                (idmap::TO, "to", Uint),
                (idmap::PROT, "prot", Int),
            ],
        ),
        event::PSCI_MEM_PROTECT | event::HYPERVISOR_PSCI_MEM_PROTECT => (
            "psci_mem_protect",
            &[(protect::COUNT, "count", Uint), (protect::WAS, "was", Uint)],
        ),
        event::HYPERVISOR_IOMMU_IDMAP_COMPLETE => {
            ("iommu_idmap_complete", &[(complete::MAP, "map", Bool)])
        }
        event::HYPERVISOR_VCPU_ILLEGAL_TRAP => ("vcpu_illegal_trap", &[(trap::ESR, "esr", Uint)]),
        _ => return None,
    })
}

/// Parses an event of the hypervisor. Returns false if it is another one.
pub(super) fn parse(cx: &mut Context, head: &Head<'_>, kind: u32, body: &[u8]) -> bool {
    let is_enter = matches!(kind, event::HYP_ENTER | event::HYPERVISOR_HYP_ENTER);
    let is_exit = matches!(kind, event::HYP_EXIT | event::HYPERVISOR_HYP_EXIT);
    let reason = reason(kind);
    if !is_enter && !is_exit && reason.is_none() {
        return false;
    }
    let name = format!("pkVM Hypervisor CPU {}", head.cpu);
    let name = cx.store.strings.intern(&name);
    let dimensions = [Dimension::Cpu(head.cpu)];
    let spec = TrackSpec::slices("pkvm_hypervisor", &dimensions).named(name);
    let track = cx.tracks.intern(&mut cx.store, spec);
    let category = cx.store.strings.intern("pkvm_hyp");
    let name = cx.store.strings.intern("hyp");
    let mut args = ArgSet::default();
    if is_enter {
        let start = SliceStart {
            ts: head.ts,
            track,
            category,
            name,
        };
        cx.slices.begin(&mut cx.store, start, &mut args);
    }
    if is_exit {
        let any = (StringId::NULL, StringId::NULL);
        cx.slices.end(&mut cx.store, head.ts, track, any, &mut args);
    }
    if let Some((reason, fields)) = reason
        && let Some((_, args)) = cx.slices.open_args(track, category, name)
    {
        let body = Message::<8>::read(body);
        args.text(&mut cx.store, "hyp_enter_reason", reason);
        for (number, name, kind) in fields {
            let value = match kind {
                Uint => ArgValue::Uint(body.uint(*number)),
                Int => ArgValue::Int((body.int(*number) as i32).into()),
                Bool => ArgValue::Bool(body.uint(*number) != 0),
            };
            args.put(&mut cx.store, name, value);
        }
    }
    true
}
