//! ProtoVM: packets that patch a large message, which are imported as the resulting message.

use ferretto_proto::fields::trace_packet as field;
use ferretto_proto::fields::trace_packet::proto_vms::{self, instance};
use ferretto_proto::fields::trace_provenance::{self, buffer, sequence};
use ferretto_protovm::{Outcome, Program, Vm};
use ferretto_wire::{Fields, encode};
use rustc_hash::FxHashMap;

use crate::stats::Stat;
use crate::store::Store;

/// The maximum numbers of VMs, and of sequences to which they are attached.
const MAX_VMS: usize = 1 << 10;
const MAX_ATTACHED: usize = 1 << 16;
/// The maximum total size of the resulting messages in bytes. Each patch results in the complete
/// message, so a small file could otherwise produce any size.
const MAX_BYTES: u64 = 4 << 30;

/// The VMs of a file.
#[derive(Debug, Default)]
pub(super) struct Vms {
    vms: Vec<Vm>,
    /// VMs by the sequence to which they are attached.
    attached: FxHashMap<(u32, u32), Vec<usize>>,
    attachments: usize,
    /// The sequences of each producer.
    producers: FxHashMap<(u32, u64), Vec<u32>>,
    bytes: u64,
}

impl Vms {
    /// Handles a packet before all topics. For a patch, returns the resulting packet.
    #[inline]
    pub(super) fn packet(
        &mut self,
        store: &mut Store,
        (machine, sequence): (u32, u32),
        data: Option<u32>,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        match data {
            Some(field::TRACE_PROVENANCE) => self.provenance(machine, packet),
            Some(field::PROTOVMS) => self.register(store, machine, packet),
            _ if self.attached.is_empty() => {}
            _ => return self.patch(store, (machine, sequence), packet),
        }
        None
    }

    /// Reads which sequences belong to which producer.
    fn provenance(&mut self, machine: u32, packet: &[u8]) {
        for provenance in all(packet, field::TRACE_PROVENANCE) {
            for buffer in all(provenance, trace_provenance::BUFFERS) {
                for bytes in all(buffer, buffer::SEQUENCES) {
                    let producer = number(bytes, sequence::PRODUCER_ID).unwrap_or(0);
                    let id = number(bytes, sequence::ID).unwrap_or(0) as u32;
                    self.producers
                        .entry((machine, producer))
                        .or_default()
                        .push(id);
                }
            }
        }
    }

    /// Reads a `ProtoVms`.
    fn register(&mut self, store: &mut Store, machine: u32, packet: &[u8]) {
        for vms in all(packet, field::PROTOVMS) {
            for bytes in all(vms, proto_vms::INSTANCE) {
                self.instance(store, machine, bytes);
            }
        }
    }

    fn instance(&mut self, store: &mut Store, machine: u32, bytes: &[u8]) {
        let find = |number| all(bytes, number).last().unwrap_or_default();
        let limit = number(bytes, instance::MEMORY_LIMIT_KB).unwrap_or(0);
        let program = Program::parse(find(instance::PROGRAM));
        let (Ok(program), true) = (program, self.vms.len() < MAX_VMS) else {
            store.stats.add(Stat::protovm_registration_error, 1);
            return;
        };
        let limit = limit.saturating_mul(1024);
        self.vms
            .push(Vm::with_state(program, limit, find(instance::STATE)));
        let vm = self.vms.len() - 1;
        let producers = Fields::new(bytes).map_while(Result::ok);
        let producers = producers.filter(|field| field.number == instance::PRODUCER_ID);
        for producer in producers.flat_map(|field| field.as_varints()) {
            let Some(sequences) = self.producers.get(&(machine, producer)) else {
                store.stats.add(Stat::protovm_registration_error, 1);
                continue;
            };
            for sequence in sequences {
                let attached = self.attached.entry((machine, *sequence)).or_default();
                if attached.last() != Some(&vm) && self.attachments < MAX_ATTACHED {
                    attached.push(vm);
                    self.attachments += 1;
                }
            }
        }
    }

    /// Applies a packet to the VMs of its sequence. Returns the resulting message of a patch.
    fn patch(&mut self, store: &mut Store, sequence: (u32, u32), packet: &[u8]) -> Option<Vec<u8>> {
        for vm in self.attached.get(&sequence)? {
            let vm = &mut self.vms[*vm];
            match vm.apply(packet) {
                Outcome::Applied if self.bytes < MAX_BYTES => {
                    let mut state = vm.state();
                    self.bytes += state.len() as u64;
                    state.extend(trusted(packet));
                    return Some(state);
                }
                Outcome::Rejected => {}
                Outcome::Applied | Outcome::Aborted(_) => {
                    store.stats.add(Stat::protovm_abort, 1);
                }
            }
        }
        None
    }
}

/// Returns the trusted fields of a packet.
fn trusted(packet: &[u8]) -> Vec<u8> {
    let kept = [
        field::TRUSTED_UID,
        field::TRUSTED_PID,
        field::TRUSTED_PACKET_SEQUENCE_ID,
        field::MACHINE_ID,
    ];
    encode(|fields| {
        for field in kept {
            if let Some(value) = number(packet, field) {
                fields.varint(field, value);
            }
        }
    })
}

fn all(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.filter_map(|field| field.as_bytes())
}

fn number(bytes: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, bytes)?.as_u64()
}
