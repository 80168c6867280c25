//! The meaning of foreign files, in one form for all formats.
//!
//! A format has one interpreter, which decides what its records mean and calls a [`Sink`]. A sink
//! decides how that is stored: as packets ([`import`](crate::import)), or as the rows of tables.
//! Interpreters are called in the order of time. Decisions that depend on the format (phases, ids,
//! units, defaults) belong to the interpreter; decisions that depend on the result (substitutes for
//! ids that it cannot express, tracks for slices that overlap) belong to the sink.

use std::borrow::Cow;
use std::fmt;

use crate::json::{Id, Json, Number};

/// A thread as its file names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadRef<'a> {
    /// The process; `None` if the file does not name it.
    pub pid: Option<&'a Number<'a>>,
    /// The thread; `None` if the file does not name it. Programs without threads leave it out.
    pub tid: Option<&'a Number<'a>>,
}

/// The direction of a flow at a slice that names the flow itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowStep {
    /// The flow begins.
    Begin,
    /// The flow continues.
    Step,
    /// The flow ends.
    End,
}

/// A step of an asynchronous slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncStep {
    /// The slice begins.
    Begin,
    /// The slice ends.
    End,
    /// An instant on its track.
    Instant,
}

/// The owner of the track of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The thread of the record.
    Thread,
    /// The process of the record.
    Process,
    /// The whole trace.
    Trace,
}

/// Fields that most records have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    /// The time in nanoseconds.
    pub ts: i64,
    /// The thread.
    pub thread: ThreadRef<'a>,
    /// The name; `None` if it is missing or empty.
    pub name: Option<&'a str>,
    /// The categories, separated by commas.
    pub category: Option<&'a str>,
    /// The arguments.
    pub args: &'a [(Cow<'a, str>, Json<'a>)],
    /// The name under which the arguments are stored; empty if they have no common one.
    pub args_name: &'static str,
    /// The CPU time of the thread.
    pub thread_ts: Option<i64>,
    /// A flow that the slice names itself.
    pub flow: Option<(FlowStep, u64)>,
}

/// The state of a thread during a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadState<'a> {
    /// The duration in nanoseconds.
    pub dur: i64,
    /// The CPU that the thread is on.
    pub cpu: Option<u32>,
    /// True if the thread waits for a disk.
    pub io_wait: Option<bool>,
    /// The function of the kernel in which the thread waits.
    pub blocked_function: Option<&'a str>,
}

/// The reason why a record is left out, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// A slice without a valid duration.
    NoDuration,
    /// An instant without a thread, process or known scope.
    NoOwner,
    /// An asynchronous event without an id.
    NoAsyncId,
    /// An asynchronous event without a process.
    NoProcess,
    /// A flow without an id.
    NoFlowId,
    /// A flow of a slice that neither begins nor ends there.
    NoFlowDirection,
    /// A counter without values.
    NoCounterValue,
    /// A counter value that is not a number.
    BadCounterValue,
    /// A name or sort index of the wrong type.
    BadName,
    /// Metadata of a process or thread that is not read.
    Metadata,
    /// A sample of a profiler whose stack is not known.
    ProfilerSample,
    /// An event of this phase, which no trace has.
    Phase(u8),
}

impl LeftOut {
    /// Returns true if the trace lacks something because of it, and false for metadata and phases
    /// that describe nothing in a trace.
    pub fn is_of_a_trace(self) -> bool {
        !matches!(self, Self::Metadata | Self::Phase(_))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDuration => "slices of phase X without a duration",
            Self::NoOwner => "instants without a thread, process or known scope",
            Self::NoAsyncId => "asynchronous events without an id",
            Self::NoProcess => "asynchronous events without a process",
            Self::NoFlowId => "flows without an id",
            Self::NoFlowDirection => "flows of slices without a direction",
            Self::NoCounterValue => "counters without values",
            Self::BadCounterValue => "counter values that are not numbers",
            Self::BadName => "names of processes and threads that are not texts",
            Self::Metadata => "other metadata of processes and threads",
            Self::ProfilerSample => "samples of V8's profiler",
            Self::Phase(phase) => return write!(f, "events of phase {}", char::from(*phase)),
        })
    }
}

/// A callstack sample.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The time in nanoseconds.
    pub ts: i64,
    /// The thread.
    pub thread: ThreadRef<'a>,
    /// The name of the sampled event.
    pub event: &'a str,
    /// The amount of the event that the sample stands for, if it is known.
    pub weight: Option<u64>,
    /// The time in nanoseconds that the sample stands for, if it is known.
    pub time: Option<u64>,
    /// The functions, the innermost first.
    pub frames: &'a [Frame<'a>],
}

/// A function of a callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// The file that contains the function; empty if unknown.
    pub file: &'a str,
    /// The line in the file, if it is known.
    pub line: Option<u32>,
}

/// A destination of the records of a foreign file.
pub trait Sink {
    /// The reason why a record cannot be stored.
    type Error;

    /// Begins a slice on the record's thread.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn slice_begin(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;

    /// Ends the innermost slice of the record's thread.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn slice_end(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;

    /// Adds a slice with a known duration, and the CPU time that the thread used during it.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn complete(
        &mut self,
        record: &Record<'_>,
        dur: i64,
        thread_dur: Option<i64>,
    ) -> Result<(), Self::Error>;

    /// Adds an instant.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn instant(&mut self, record: &Record<'_>, owner: Owner) -> Result<(), Self::Error>;

    /// Adds a value of the counter `name` of the record's process.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn counter(&mut self, record: &Record<'_>, name: &str, value: f64) -> Result<(), Self::Error>;

    /// Adds a step of a flow. It belongs to the innermost slice of the thread at this time, or, if
    /// `at_next`, to the slice that begins next.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn flow(
        &mut self,
        record: &Record<'_>,
        step: FlowStep,
        id: u64,
        at_next: bool,
    ) -> Result<(), Self::Error>;

    /// Adds a step of the asynchronous slice with this id. Ids that are not `is_global` are those
    /// of the record's process.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn asynchronous(
        &mut self,
        record: &Record<'_>,
        step: AsyncStep,
        id: &Id<'_>,
        is_global: bool,
    ) -> Result<(), Self::Error>;

    /// Names the record's process.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn process_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), Self::Error>;

    /// Names the record's thread.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn thread_name(&mut self, record: &Record<'_>, name: &str) -> Result<(), Self::Error>;

    /// Sets the order in which processes (`is_process`) or threads are shown.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn sort_index(
        &mut self,
        record: &Record<'_>,
        is_process: bool,
        index: i64,
    ) -> Result<(), Self::Error>;

    /// Adds a state of the record's thread, whose name is the record's.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be stored.
    fn thread_state(
        &mut self,
        record: &Record<'_>,
        state: &ThreadState<'_>,
    ) -> Result<(), Self::Error>;

    /// Adds a callstack sample.
    ///
    /// # Errors
    ///
    /// Fails if the sample cannot be stored.
    fn sample(&mut self, sample: &Sample<'_>) -> Result<(), Self::Error>;

    /// Counts a record that is left out, or a part of it.
    fn left_out(&mut self, record: &Record<'_>, why: LeftOut);
}
