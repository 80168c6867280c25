//! The names and arguments of system calls.

use std::collections::HashMap;

use ferretto_format::kernel_names::Architecture;
use ferretto_format::system_calls::{SystemCall, SystemCalls};
use ferretto_proto::fields::{
    sys_enter_ftrace_event as entered, sys_exit_ftrace_event as exited, system_info, trace_packet,
    utsname,
};
use ferretto_wire::Fields;

/// The maximum number of machines.
const MAX_MACHINES: usize = 256;
/// The maximum number of arguments of a call. The kernel records six.
const MAX_ARGUMENTS: usize = 8;

/// The system calls of the machines of a trace.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<u32, SystemCalls>);

impl Calls {
    /// Reads a packet, which may be a `SystemInfo`.
    pub(super) fn add(&mut self, packet: &[u8]) {
        let info = Fields::find(trace_packet::SYSTEM_INFO, packet);
        if let Some(info) = info.and_then(|info| info.as_bytes()) {
            let machine = Fields::find(trace_packet::MACHINE_ID, packet);
            let machine = machine.and_then(|id| id.as_u32()).unwrap_or(0);
            self.describe(machine, info);
        }
    }

    fn describe(&mut self, machine: u32, bytes: &[u8]) {
        let name = Fields::find(system_info::UTSNAME, bytes)
            .and_then(|name| Fields::find(utsname::MACHINE, name.as_bytes()?))
            .and_then(|name| std::str::from_utf8(name.as_bytes()?).ok());
        if let Some(architecture) = name.and_then(Architecture::of_machine)
            && self.0.len() < MAX_MACHINES
        {
            self.0.insert(machine, SystemCalls::of(architecture));
        }
    }

    fn get(&self, machine: u32, number: u64) -> Option<&SystemCall> {
        self.0.get(&machine)?.get(number)
    }

    /// Returns the name and the arguments of a `sys_enter`; `None` if the call is unknown.
    pub(super) fn enter(&self, machine: u32, body: &[u8]) -> Option<String> {
        let number = Fields::find(entered::ID, body)?.as_u64()?;
        let call = self.get(machine, number)?;
        let fields = Fields::new(body).map_while(Result::ok);
        let values = fields.filter(|field| field.number == entered::ARGS);
        let values = values
            .flat_map(|field| field.as_varints())
            .take(MAX_ARGUMENTS);
        let mut text = call.name.to_owned();
        // Writing to a string cannot fail.
        let Some(arguments) = &call.arguments else {
            for (index, value) in values.enumerate() {
                text.push_str(&format!(" args[{index}]={value:#x}"));
            }
            return Some(text);
        };
        for (argument, value) in arguments.iter().zip(values) {
            text.push(' ');
            text.push_str(argument.name);
            text.push('=');
            let _ = argument.write(&mut text, value);
        }
        Some(text)
    }

    /// Returns the name and the result of a `sys_exit`; `None` if the call is unknown.
    pub(super) fn exit(&self, machine: u32, body: &[u8]) -> Option<String> {
        let number = Fields::find(exited::ID, body)?.as_u64()?;
        let call = self.get(machine, number)?;
        let result = Fields::find(exited::RET, body).and_then(|result| result.as_i64());
        Some(format!(
            "{} = {}",
            call.name,
            call.result(result.unwrap_or(0))
        ))
    }
}
