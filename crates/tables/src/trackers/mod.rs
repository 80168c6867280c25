//! The state of objects at the current time of the trace. Each tracker has a few operations, and
//! fills its tables.

pub(crate) mod args;
pub(crate) mod callsites;
pub(crate) mod clock;
pub(crate) mod counter;
pub(crate) mod flow;
pub(crate) mod gpu_work;
pub(crate) mod kernel;
pub(crate) mod lane;
pub(crate) mod machine;
pub(crate) mod metadata;
pub(crate) mod process;
pub(crate) mod sched;
pub(crate) mod slice;
pub(crate) mod stack_profile;
pub(crate) mod thread_counter;
pub(crate) mod track;
pub(crate) mod translation;
pub(crate) mod waiting_args;
