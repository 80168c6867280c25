//! Walks the stack from registers to callers, frame by frame.

mod chain;
mod pointers;
mod signal;
mod splice;
mod table;

use std::fs::File;
use std::sync::Arc;

use crate::budget::Budget;
use crate::cache::Cache;
use crate::cfi::{Kind, Rule};
use crate::error::UnwindError;
use crate::frame::Frame;
use crate::memory::{Memory, Pages};
use crate::registers::{Machine, Registers};
use crate::sample::{MAX_FRAMES, Mode, StackCopy};
use crate::space::Space;

/// Reused memory of walks.
#[derive(Default)]
pub(crate) struct Walk {
    /// The addresses of the frames as found, with return addresses not moved back.
    addresses: Vec<u64>,
}

/// The end of a walk.
pub(crate) enum Outcome {
    /// An address is in no map. The maps may be older than the sample.
    Unmapped,
    /// The walk is complete, or cannot continue.
    Ended(Result<(), UnwindError>),
}

/// The result of a step to the caller.
enum Step {
    /// The registers are the caller's.
    Caller,
    /// There is no caller.
    End,
    Failed(UnwindError),
}

/// The inputs and outputs of a walk.
pub(crate) struct Walker<'p> {
    pub(crate) space: &'p mut Space,
    pub(crate) walk: &'p mut Walk,
    /// `/proc/PID/maps` and `/proc/PID/mem`; `None` if the process is gone.
    pub(crate) maps: Option<&'p File>,
    pub(crate) memory: Option<&'p File>,
    pub(crate) pages: &'p mut Pages,
    pub(crate) cache: &'p Cache,
    pub(crate) frames: &'p mut Vec<Frame>,
    /// Set if the maps may be read again for this sample.
    pub(crate) may_read: bool,
}

/// The state of a walk.
struct WalkState<'m> {
    mode: Mode,
    registers: Registers,
    memory: Memory<'m>,
    budget: Budget,
    /// Set if the program counter is an instruction's address and not a return address.
    exact: bool,
    /// Set if the stack continues after the copy.
    stack_full: bool,
    /// An earlier position of the walk, updated at steps that are powers of two, to detect cycles.
    been: (u64, u64),
    steps: usize,
    /// The mask of the address bits of return addresses.
    address_bits: u64,
}

/// The point at which the walk continued in live memory although the sample has the kernel's chain.
#[derive(Clone, Copy)]
struct Beyond<'s> {
    /// The kernel's addresses from this point on.
    rest: splice::Rest<'s>,
    frames: usize,
    addresses: usize,
}

impl Walker<'_> {
    pub(crate) fn run(&mut self, sample: &StackCopy<'_>, mode: Mode) -> Outcome {
        self.walk.addresses.clear();
        if mode == Mode::KernelChain {
            return self.chain(sample.user_chain);
        }
        match sample.registers {
            None => Outcome::Ended(Ok(())),
            Some(registers) if registers.machine() == Machine::Bits32 => {
                self.push_address(registers.pc());
                Outcome::Ended(Err(UnwindError::Unsupported))
            }
            Some(registers) => self.by_registers(sample, *registers, mode),
        }
    }

    fn by_registers(
        &mut self,
        sample: &StackCopy<'_>,
        registers: Registers,
        mode: Mode,
    ) -> Outcome {
        // The kernel's chain is from the time of the sample; live memory may have changed.
        let beyond = !sample.stack_full || sample.user_chain.is_empty();
        let mut pages = std::mem::take(self.pages);
        let memory = Memory::new(
            sample.stack,
            registers.sp(),
            self.memory,
            &mut pages,
            beyond,
        );
        let mut state = WalkState {
            mode,
            address_bits: address_bits(registers.machine(), self.space.end()),
            registers,
            memory,
            budget: Budget::default(),
            exact: true,
            stack_full: sample.stack_full,
            been: (0, 0),
            steps: 0,
        };
        let outcome = self.walk_and_splice(sample, &mut state);
        *self.pages = pages;
        outcome
    }

    /// Walks, and continues with the kernel's chain if the walk ends too early.
    fn walk_and_splice(&mut self, sample: &StackCopy<'_>, state: &mut WalkState<'_>) -> Outcome {
        let mut beyond = None;
        let first = self.frames.len();
        let outcome = self.frames_of(sample, state, first, &mut beyond);
        let found = &self.walk.addresses;
        if let Some(Beyond {
            rest,
            frames,
            addresses,
        }) = beyond
        {
            let ended = matches!(outcome, Outcome::Ended(Ok(())));
            if !(ended && (!rest.is_sure || self.confirms(rest.addresses, addresses))) {
                self.frames.truncate(frames);
                self.append_chain(rest.addresses);
            }
            return Outcome::Ended(Ok(()));
        }
        if let Outcome::Ended(Err(error)) = outcome
            && error != UnwindError::MaxFramesExceeded
            && let Some(rest) = splice::rest(found, sample.user_chain)
            && self.append_chain(rest.addresses) > 0
        {
            return Outcome::Ended(Ok(()));
        }
        outcome
    }

    fn frames_of<'s>(
        &mut self,
        sample: &StackCopy<'s>,
        state: &mut WalkState<'_>,
        first: usize,
        beyond: &mut Option<Beyond<'s>>,
    ) -> Outcome {
        let machine = state.registers.machine();
        // Functions that keep no frame pointer according to the tables make frame pointers
        // unreliable.
        let mut reliable = true;
        loop {
            if self.frames.len() - first >= MAX_FRAMES {
                return Outcome::Ended(Err(UnwindError::MaxFramesExceeded));
            }
            let pc = state.registers.pc();
            let inside = if state.exact {
                pc
            } else {
                pc.wrapping_sub(machine.call_size())
            };
            let spot = self
                .space
                .spot(inside, machine, self.cache, &mut state.budget);
            let Some(spot) = spot else {
                match self.unmapped(sample, state, first, reliable) {
                    Some(outcome) => return outcome,
                    None => continue,
                }
            };
            let restorer = spot.rule.kind == Kind::Missing
                && !state.exact
                && signal::is_restorer(state, machine);
            let signal = spot.rule.signal || restorer;
            let shown = if signal { pc } else { inside };
            self.push(spot.map_index, shown);
            self.walk.addresses.push(pc);
            let step = loop {
                let step = if restorer {
                    signal::step(state)
                } else {
                    self.step(state, &spot.rule, inside, spot.map_index)
                };
                if !matches!(step, Step::Failed(UnwindError::MemoryInvalid))
                    || !state.memory.was_cut()
                {
                    break step;
                }
                // The required memory was not copied.
                *beyond =
                    splice::rest(&self.walk.addresses, sample.user_chain).map(|rest| Beyond {
                        rest,
                        frames: self.frames.len(),
                        addresses: self.walk.addresses.len(),
                    });
                state.memory.go_beyond();
            };
            match step {
                Step::End => return Outcome::Ended(Ok(())),
                Step::Failed(error) => return Outcome::Ended(Err(error)),
                Step::Caller => {}
            }
            reliable = state.mode == Mode::Dwarf || keeps_frame_pointer(&spot.rule, machine);
            state.exact = signal;
            state.registers.pc &= state.address_bits;
            if state.registers.pc() == 0 {
                return Outcome::Ended(Ok(()));
            }
            if state.is_in_cycle() {
                return Outcome::Ended(Err(UnwindError::RepeatedFrame));
            }
        }
    }

    /// Restores the registers of the caller, by the rule or by frame pointers.
    fn step(
        &mut self,
        state: &mut WalkState<'_>,
        rule: &Rule,
        inside: u64,
        map_index: u32,
    ) -> Step {
        let pointers = state.mode == Mode::FramePointer;
        let by_table = !pointers || state.exact || rule.signal || rule.kind == Kind::End;
        if rule.kind == Kind::Missing || !by_table {
            let limit = pointers.then(|| state.memory.stack_end());
            return pointers::step(state, self.space, limit);
        }
        let step = match rule.kind {
            Kind::Program => self.program(state, inside, map_index),
            _ => table::follow(rule, state),
        };
        match step {
            Step::Failed(UnwindError::UnwindInfo) if pointers => {
                let limit = state.memory.stack_end();
                pointers::step(state, self.space, Some(limit))
            }
            step => step,
        }
    }

    /// Evaluates a row of the table that no rule can represent.
    fn program(&mut self, state: &mut WalkState<'_>, inside: u64, map_index: u32) -> Step {
        let mapping = self.space.mapping(map_index, self.cache);
        let machine = state.registers.machine();
        let table = mapping.module.as_ref().and_then(|module| {
            let table = module.table(machine)?;
            Some((table, inside.wrapping_sub(mapping.slide)))
        });
        let Some((table, address)) = table else {
            return Step::Failed(UnwindError::UnwindInfo);
        };
        let registers = state.registers;
        match table.step(address, &registers, &mut state.memory, &mut state.budget) {
            Ok(Some(caller)) => {
                state.registers = caller;
                Step::Caller
            }
            Ok(None) => Step::End,
            Err(error) => Step::Failed(error),
        }
    }

    /// Handles an address without code. Returns `None` if the walk can continue.
    fn unmapped(
        &mut self,
        sample: &StackCopy<'_>,
        state: &mut WalkState<'_>,
        first: usize,
        reliable: bool,
    ) -> Option<Outcome> {
        let is_first = self.frames.len() == first;
        // A word at the end of a truncated stack is rarely an address.
        if self.may_read && (is_first || !sample.stack_full) {
            return Some(Outcome::Unmapped);
        }
        if !state.exact {
            let error = reliable.then_some(UnwindError::InvalidMap);
            return Some(Outcome::Ended(error.map_or(Ok(()), Err)));
        }
        // A call to an invalid address: the caller is at the return address.
        let pc = state.registers.pc();
        self.push_address(pc);
        self.walk.addresses.push(pc);
        if pointers::return_from_call(state, self.space) {
            state.exact = false;
            None
        } else {
            Some(Outcome::Ended(Err(UnwindError::InvalidMap)))
        }
    }

    /// Appends a frame at an address in a map.
    #[inline]
    fn push(&mut self, map_index: u32, address: u64) {
        let mapping = self.space.mapping(map_index, self.cache);
        let is_file = mapping.module.is_some();
        let mut frame = Frame {
            rel_pc: mapping.relative(address),
            mapping: Some(Arc::clone(mapping)),
            name: None,
        };
        if !is_file {
            let devices = &self.cache.devices;
            frame.name = self
                .maps
                .and_then(|maps| self.space.jit_name(map_index, address, maps, devices));
        }
        self.frames.push(frame);
    }

    /// Appends a frame at any address.
    fn push_address(&mut self, address: u64) {
        match self.space.find(address) {
            Some(map_index) => self.push(map_index, address),
            None => self.frames.push(Frame {
                mapping: None,
                rel_pc: address,
                name: None,
            }),
        }
    }
}

impl WalkState<'_> {
    /// Returns true if there may be frames after the copied stack.
    fn stack_goes_on(&self) -> bool {
        self.stack_full
    }

    /// Returns true if the walk is in a cycle.
    fn is_in_cycle(&mut self) -> bool {
        let here = (self.registers.pc(), self.registers.sp());
        if here == self.been {
            return true;
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.been = here;
        }
        false
    }
}

/// Returns true if the function at a rule has set up its frame pointer, or if that is unknown.
fn keeps_frame_pointer(rule: &Rule, machine: Machine) -> bool {
    rule.kind == Kind::Missing || usize::from(rule.base) == machine.fp()
}

/// Returns the mask of address bits. On arm64, unused bits of return addresses may hold a
/// signature.
fn address_bits(machine: Machine, end: u64) -> u64 {
    // Of the kernels with the smallest address spaces.
    const LEAST: u32 = 36;
    match machine {
        Machine::Aarch64 => {
            let bits = (u64::BITS - end.leading_zeros()).max(LEAST);
            u64::MAX >> (u64::BITS - bits)
        }
        _ => u64::MAX,
    }
}
