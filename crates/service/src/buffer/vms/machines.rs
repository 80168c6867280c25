//! The machines of a buffer.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ferretto_protovm::{Outcome, Program, Vm};

use super::{MACHINES_PER_USER, VmAbort, VmError, VmSetup, VmState};
use crate::buffer::{Identity, ProducerId};

/// The largest memory of a decoded program per encoded byte.
const DECODED: u64 = 64;

/// The steps that a machine may take at once to catch up when a buffer is replaced: less than a
/// second.
const MAX_STEPS_BEHIND: u64 = 20_000_000;

/// The machines of a buffer, in the order of their setup.
#[derive(Debug, Default)]
pub(in crate::buffer) struct Machines {
    all: Vec<Machine>,
    aborts: Vec<VmAbort>,
}

#[derive(Debug)]
struct Machine {
    /// The name of the data source.
    source: Box<[u8]>,
    program: Program,
    memory_limit_kb: u32,
    producers: BTreeSet<ProducerId>,
    /// The user of the first producer.
    user: Option<u32>,
    state: MachineState,
    /// The number of patches that failed.
    aborts: u64,
    /// The number of steps before it was set up.
    steps_before: u64,
}

#[derive(Debug)]
enum MachineState {
    Live(Box<Vm>),
    /// The state in a copy of a buffer, in which no packet is overwritten.
    Copied(Vec<u8>),
}

impl Machine {
    /// Copies the machine with another state.
    fn with(&self, state: MachineState) -> Self {
        let steps_before = match &state {
            MachineState::Live(vm) => vm.steps_taken(),
            MachineState::Copied(_) => 0,
        };
        Self {
            source: self.source.clone(),
            program: self.program.clone(),
            memory_limit_kb: self.memory_limit_kb,
            producers: self.producers.clone(),
            user: self.user,
            state,
            aborts: self.aborts,
            steps_before,
        }
    }
}

impl Machines {
    pub(super) fn set_up(&mut self, setup: &VmSetup<'_>) -> Result<(), VmError> {
        let same = |one: &&mut Machine| {
            *one.source == *setup.source && one.program.as_bytes() == setup.program
        };
        if let Some(machine) = self.all.iter_mut().find(same) {
            machine.producers.insert(setup.producer);
            return Ok(());
        }
        let user = user(setup.identity);
        if self.all.iter().filter(|one| one.user == user).count() >= MACHINES_PER_USER {
            return Err(VmError::TooMany);
        }
        let program = Program::parse(setup.program);
        let program = program.map_err(|error| VmError::Program(error.to_string()))?;
        let limit = u64::from(setup.memory_limit_kb) * 1024;
        self.all.push(Machine {
            source: setup.source.into(),
            state: MachineState::Live(Box::new(Vm::new(program.clone(), limit))),
            program,
            memory_limit_kb: setup.memory_limit_kb,
            producers: BTreeSet::from([setup.producer]),
            user,
            aborts: 0,
            steps_before: 0,
        });
        Ok(())
    }

    /// Returns true if there is a machine for packets of this producer.
    pub(super) fn want(&self, producer: ProducerId) -> bool {
        let mut all = self.all.iter();
        all.any(|machine| machine.producers.contains(&producer))
    }

    /// Passes a packet of this producer to one machine after the other, until one applies it.
    pub(super) fn apply(&mut self, producer: ProducerId, packet: &[u8]) {
        for machine in &mut self.all {
            if !machine.producers.contains(&producer) {
                continue;
            }
            let MachineState::Live(vm) = &mut machine.state else {
                continue;
            };
            match vm.apply(packet) {
                Outcome::Applied => return,
                Outcome::Rejected => {}
                Outcome::Aborted(abort) => {
                    machine.aborts += 1;
                    if is_power_of_ten(machine.aborts) {
                        self.aborts.push(VmAbort {
                            source: machine.source.to_vec(),
                            count: machine.aborts,
                            reason: abort.to_string(),
                        });
                    }
                }
            }
        }
    }

    pub(super) fn take_aborts(&mut self) -> Vec<VmAbort> {
        std::mem::take(&mut self.aborts)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = VmState<'_>> {
        self.all.iter().map(|machine| VmState {
            program: machine.program.as_bytes(),
            state: match &machine.state {
                MachineState::Live(vm) => Cow::Owned(vm.state()),
                MachineState::Copied(state) => Cow::Borrowed(state),
            },
            memory_limit_kb: machine.memory_limit_kb,
            producers: machine.producers.iter().copied().collect(),
        })
    }

    /// Returns the machines for a copy of the buffer, with their current states.
    pub(in crate::buffer) fn copied(&self) -> Self {
        let copied = |machine: &Machine| {
            machine.with(MachineState::Copied(match &machine.state {
                MachineState::Live(vm) => vm.state(),
                MachineState::Copied(state) => state.clone(),
            }))
        };
        Self {
            all: self.all.iter().map(copied).collect(),
            aborts: Vec::new(),
        }
    }

    /// Returns true if they apply packets, which those of copies do not.
    pub(super) fn are_live(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|machine| matches!(machine.state, MachineState::Live(_)))
    }

    /// Copies the machines, which continue independently.
    pub(super) fn forked(&self) -> Self {
        let forked = |machine: &Machine| match &machine.state {
            MachineState::Live(vm) => Some(machine.with(MachineState::Live(vm.clone()))),
            MachineState::Copied(_) => None,
        };
        Self {
            all: self.all.iter().filter_map(forked).collect(),
            aborts: Vec::new(),
        }
    }

    /// Drops the machines that have taken too many steps since they were forked.
    pub(super) fn drop_exhausted(&mut self) {
        let aborts = &mut self.aborts;
        self.all.retain(|machine| {
            let MachineState::Live(vm) = &machine.state else {
                return true;
            };
            let fits = vm.steps_taken() - machine.steps_before <= MAX_STEPS_BEHIND;
            if !fits {
                aborts.push(VmAbort {
                    source: machine.source.to_vec(),
                    count: 1,
                    reason:
                        "its buffer holds too much to go on from when it is replaced, so it ends"
                            .to_owned(),
                });
            }
            fits
        });
    }

    /// Returns their memory in bytes.
    pub(in crate::buffer) fn memory(&self) -> u64 {
        let machines = self.all.iter().map(|machine| {
            let program = machine.program.as_bytes().len() as u64;
            let state = match &machine.state {
                MachineState::Live(vm) => vm.memory_usage(),
                MachineState::Copied(state) => state.len() as u64,
            };
            program * DECODED + state
        });
        machines.sum()
    }
}

/// Returns the user of an identity. All users of other machines count as one.
fn user(identity: Identity) -> Option<u32> {
    (identity.machine_id == 0).then_some(identity.uid)
}

fn is_power_of_ten(count: u64) -> bool {
    std::iter::successors(Some(1u64), |power| power.checked_mul(10)).any(|power| power == count)
}
