//! From registers to callers, frame by frame.

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

/// Memory that walks use again.
#[derive(Default)]
pub(crate) struct Walk {
    /// The addresses of the frames as they were found, return addresses not moved back.
    addresses: Vec<u64>,
}

/// The end of a walk.
pub(crate) enum Outcome {
    /// An address is in none of the maps, which may be older than the sample.
    Unmapped,
    /// There is nothing more to find, or no way to.
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

/// All that walks work with.
pub(crate) struct Walker<'p> {
    pub(crate) space: &'p mut Space,
    pub(crate) walk: &'p mut Walk,
    /// `/proc/PID/maps` and `/proc/PID/mem`; `None` if the process is gone.
    pub(crate) maps: Option<&'p File>,
    pub(crate) memory: Option<&'p File>,
    pub(crate) pages: &'p mut Pages,
    pub(crate) cache: &'p Cache,
    pub(crate) frames: &'p mut Vec<Frame>,
    /// Set if maps may still be read anew for this sample.
    pub(crate) may_read: bool,
}

/// The state of one walk.
struct WalkState<'m> {
    mode: Mode,
    registers: Registers,
    memory: Memory<'m>,
    budget: Budget,
    /// The program counter is that of an instruction, not the one after a call.
    exact: bool,
    /// The stack goes on where the copy ends.
    stack_full: bool,
    /// An earlier position of the walk; it moves on at steps that are powers of two, so that any
    /// circle is found.
    been: (u64, u64),
    steps: usize,
    /// Bits of return addresses that are part of the address.
    address_bits: u64,
}

/// The point at which the walk went on in memory that was not copied, although the kernel knows
/// better.
#[derive(Clone, Copy)]
struct Beyond<'s> {
    /// The kernel's addresses from there on.
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
        // The kernel's chain is of the moment of the sample; memory is as it is now.
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

    /// Walks, and lets the kernel's chain continue where that ends too early.
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
        // Where tables say that functions keep no frame pointer, following it may lead anywhere.
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
            self.push(spot.place, shown);
            self.walk.addresses.push(pc);
            let step = loop {
                let step = if restorer {
                    signal::step(state)
                } else {
                    self.step(state, &spot.rule, inside, spot.place)
                };
                if !matches!(step, Step::Failed(UnwindError::MemoryInvalid))
                    || !state.memory.was_cut()
                {
                    break step;
                }
                // The memory that is needed was not copied.
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
            if state.has_been_here() {
                return Outcome::Ended(Err(UnwindError::RepeatedFrame));
            }
        }
    }

    /// The registers of the caller, by the rule or by frame pointers.
    fn step(&mut self, state: &mut WalkState<'_>, rule: &Rule, inside: u64, place: u32) -> Step {
        let pointers = state.mode == Mode::FramePointer;
        let by_table = !pointers || state.exact || rule.signal || rule.kind == Kind::End;
        if rule.kind == Kind::Missing || !by_table {
            let limit = pointers.then(|| state.memory.stack_end());
            return pointers::step(state, self.space, limit);
        }
        let step = match rule.kind {
            Kind::Program => self.program(state, inside, place),
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

    /// Follows a row of the table that no rule can express.
    fn program(&mut self, state: &mut WalkState<'_>, inside: u64, place: u32) -> Step {
        let mapping = self.space.mapping(place, self.cache);
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

    /// There is no code where the walk has come to. `None` if it goes on nevertheless.
    fn unmapped(
        &mut self,
        sample: &StackCopy<'_>,
        state: &mut WalkState<'_>,
        first: usize,
        reliable: bool,
    ) -> Option<Outcome> {
        let is_first = self.frames.len() == first;
        // A word from the end of a cut stack is rarely an address.
        if self.may_read && (is_first || !sample.stack_full) {
            return Some(Outcome::Unmapped);
        }
        if !state.exact {
            let error = reliable.then_some(UnwindError::InvalidMap);
            return Some(Outcome::Ended(error.map_or(Ok(()), Err)));
        }
        // A call to nowhere: the caller is at the return address.
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

    /// A frame at an address in a map.
    #[inline]
    fn push(&mut self, place: u32, address: u64) {
        let mapping = self.space.mapping(place, self.cache);
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
                .and_then(|maps| self.space.jit_name(place, address, maps, devices));
        }
        self.frames.push(frame);
    }

    /// A frame at any address.
    fn push_address(&mut self, address: u64) {
        match self.space.find(address) {
            Some(place) => self.push(place, address),
            None => self.frames.push(Frame {
                mapping: None,
                rel_pc: address,
                name: None,
            }),
        }
    }
}

impl WalkState<'_> {
    /// Returns whether frames may lie after the copied stack.
    fn stack_goes_on(&self) -> bool {
        self.stack_full
    }

    /// Returns whether the walk goes round in a circle.
    fn has_been_here(&mut self) -> bool {
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

/// Returns whether code of that rule is in a function that has set up its frame pointer; taken as
/// such where it is not known.
fn keeps_frame_pointer(rule: &Rule, machine: Machine) -> bool {
    rule.kind == Kind::Missing || usize::from(rule.base) == machine.fp()
}

/// Return addresses on arm64 may be signed in the bits that addresses do not need.
fn address_bits(machine: Machine, end: u64) -> u64 {
    const LEAST: u32 = 48;
    match machine {
        Machine::Aarch64 => {
            let bits = (u64::BITS - end.leading_zeros()).max(LEAST);
            u64::MAX >> (u64::BITS - bits)
        }
        _ => u64::MAX,
    }
}
