//! ProtoVM: buffers in which packets about to be overwritten are applied to a state.

use ferretto_proto::DataSourceDescriptor;

use super::Session;
use crate::buffer::{VmSetup, VmState};
use crate::command::Command;
use crate::context::Context;
use crate::ids::{BufferId, InstanceKey};
use crate::pool::BufferPool;

impl Session {
    /// Sets up a machine for a data source instance, if both the config and the descriptor ask for
    /// one. Problems are only reported to the operator, and the instance starts without a machine.
    pub(super) fn set_up_vm(
        &self,
        cx: &mut Context,
        key: InstanceKey,
        buffer: BufferId,
        descriptor: &DataSourceDescriptor,
    ) {
        let Some(instance) = self.instances.get(&key) else {
            return;
        };
        let program = descriptor.protovm_program.as_deref();
        let wanted = instance.config().protovm_config.as_option();
        let limit = wanted.and_then(|config| config.memory_limit_kb);
        let identity = self.senders.get(&key.0).copied();
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
                    producer: key.0,
                    identity: identity.unwrap_or_default(),
                };
                match cx.buffers.set_up_vm(buffer, &setup) {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                }
            }
        };
        let source = String::from_utf8_lossy(instance.name()).into_owned();
        cx.commands.push(Command::Report {
            problem: format!("ProtoVM is not used for data source {source:?}: {problem}"),
        });
    }

    /// Returns the machines of the session's buffers.
    pub(super) fn vms<'a>(&self, buffers: &'a BufferPool) -> Vec<VmState<'a>> {
        let own = self.buffers.iter().filter_map(|id| buffers.get(*id));
        own.flat_map(|buffer| buffer.vms()).collect()
    }
}
