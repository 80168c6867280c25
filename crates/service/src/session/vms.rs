//! ProtoVM: buffers in which packets about to be overwritten are folded into a state.

use ferretto_proto::DataSourceDescriptor;

use super::{Instance, Session};
use crate::buffer::{VmSetup, VmState};
use crate::command::Command;
use crate::limits::{BufferId, ProducerId};
use crate::pool::BufferPool;
use crate::service::Service;

impl Service {
    /// Sets up a machine for a data source instance, if the config and the descriptor ask for one. Whatever is missing is told
    /// to the operator only, and the instance starts without.
    pub(super) fn set_up_vm(
        &mut self,
        instance: &Instance,
        buffer: BufferId,
        producer: ProducerId,
        descriptor: &DataSourceDescriptor,
    ) {
        let program = descriptor.protovm_program.as_deref();
        let wanted = instance.config.protovm_config.as_option();
        let limit = wanted.and_then(|config| config.memory_limit_kb);
        let identity = self.producers.get(&producer).map(|p| p.identity());
        let problem = match (program, wanted, limit) {
            (None, None, _) => return,
            (None, Some(_), _) => "the producer has no program for it".to_owned(),
            (Some(_), None, _) => "the config has no protovm_config for it".to_owned(),
            (Some(_), Some(_), None) => "the protovm_config has no memory_limit_kb".to_owned(),
            (Some(program), Some(_), Some(memory_limit_kb)) => {
                let setup = VmSetup {
                    source: instance.name(),
                    program,
                    memory_limit_kb,
                    producer,
                    identity: identity.unwrap_or_default(),
                };
                match self.buffers.set_up_vm(buffer, &setup) {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                }
            }
        };
        let source = String::from_utf8_lossy(instance.name()).into_owned();
        self.commands.push_back(Command::Report {
            problem: format!("ProtoVM is not used for data source {source:?}: {problem}"),
        });
    }

    /// Tells the operator of patches that were given up.
    pub(crate) fn report_vm_aborts(&mut self) {
        for abort in self.buffers.take_vm_aborts() {
            let source = String::from_utf8_lossy(&abort.source).into_owned();
            let times = match abort.count {
                1 => String::new(),
                count => format!(", for the {count}th time"),
            };
            self.commands.push_back(Command::Report {
                problem: format!(
                    "the ProtoVM of data source {source:?} gave up a packet{times}: {}",
                    abort.reason
                ),
            });
        }
    }
}

impl Session {
    /// The machines of its buffers.
    pub(super) fn vms<'a>(&self, buffers: &'a BufferPool) -> Vec<VmState<'a>> {
        let own = self.buffers.iter().filter_map(|id| buffers.get(*id));
        own.flat_map(|buffer| buffer.vms()).collect()
    }
}
