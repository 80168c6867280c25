//! ProtoVM: folds packets that patch a large message into its state.
//!
//! Some data sources describe a large object (a tree of windows, a table of resources) by a
//! snapshot followed by small patches. In a ring buffer the snapshot is overwritten first, which
//! makes the remaining patches useless. Such a data source provides a [`Program`]: instructions
//! that apply a patch to the state. Before a packet is overwritten, a [`Vm`] applies it, so that
//! the state before the remaining packets is always known. A reader starts with that state and
//! applies the remaining patches.
//!
//! The machine does not know the schema. It has a cursor in the patch, one in the state and 32
//! registers, and instructions that move the cursors (`select`), load a number (`reg_load`), and
//! write (`set`, `merge`, `del`). There are no jumps and no arithmetic, and the only loops are over
//! the elements of fields.
//!
//! Patches and programs are not trusted: no input causes a panic. Programs are bounded in size and
//! depth ([`ProgramError`]), the state by the limit given to [`Vm::new`], and each patch by its
//! number of steps.
//!
//! ```
//! use ferretto_protovm::{Outcome, Program, Vm};
//! use ferretto_wire::encode;
//!
//! // select field 1 of the patch { merge }
//! let program = encode(|program| {
//!     program.nested(2, |instruction| {
//!         instruction.nested(1, |select| select.nested(2, |component| component.varint(1, 1)));
//!         instruction.nested(7, |nested| nested.nested(3, |_| {}));
//!     });
//! });
//! let mut vm = Vm::new(Program::parse(&program).unwrap(), 4096);
//! let patch = encode(|packet| packet.nested(1, |fields| fields.varint(5, 42)));
//! assert_eq!(vm.apply(&patch), Outcome::Applied);
//! assert_eq!(vm.state(), encode(|state| state.varint(5, 42)));
//! ```
#![forbid(unsafe_code)]

mod abort;
mod account;
mod merge;
mod program;
mod run;
mod source;
mod tree;
mod vm;

pub use abort::{Abort, Reason};
pub use program::{MAX_DEPTH, MAX_INSTRUCTIONS, MAX_STEPS, Program, ProgramError};
pub use vm::{MAX_STATE, Outcome, Vm};
