//! Explains the time of a thread in a trace: each nanosecond has exactly one cause.
//!
//! - [`Schedule`] has the states of threads, and the threads that ran on each CPU.
//! - [`Partition`] divides an interval of a thread: the time of a wait that another thread ended
//!   belongs to that thread, and so on.
//! - [`Why`] adds what a trace tells of each part, as an [`Explanation`]: system calls, interrupts,
//!   callstacks, and the kinds of waits.
//! - [`Prepared`] keeps the states and events of a trace, for many explanations.
//! - [`Shares`] adds up the causes.
#![forbid(unsafe_code)]

mod evidence;
mod explain;
mod explanation;
mod grouped;
mod kind;
mod limits;
mod losses;
mod missing;
mod nearby;
mod partition;
mod phrases;
mod schedule;
mod shares;
mod stacks;
mod states;
mod threads;

pub use evidence::{Missing, Recorded};
pub use explain::{Prepared, TABLES, Why};
pub use explanation::{Cause, ExplainedWait, Explanation, Piece};
pub use kind::WaitKind;
pub use losses::LostData;
pub use partition::{Part, PartKind, Partition, Wait};
pub use schedule::{Run, Schedule, State, StateKind, Waker};
pub use shares::{Share, Shares};
pub use stacks::Function;
pub use threads::{command_pid, is_launcher};
