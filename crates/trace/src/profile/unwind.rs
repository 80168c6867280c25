//! The reasons for missing or incomplete callstacks.

use std::fmt;

use ferretto_proto::views::profiling::stack_unwind_error::UNWIND_ERROR_NONE;

/// The reason for an incomplete callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnwindError(u8);

/// The names after `ERROR` and the explanations for the user, by number.
const ERRORS: [(&str, &str); 16] = [
    ("UNKNOWN", "for an unknown reason"),
    ("NONE", "without an error"),
    (
        "MEMORY_INVALID",
        "the stack was deeper than the part that was copied, or not readable",
    ),
    ("UNWIND_INFO", "code without unwind information"),
    ("UNSUPPORTED", "code that the unwinder does not support"),
    ("INVALID_MAP", "an address without a mapped file"),
    ("MAX_FRAME_EXCEEDED", "too many frames"),
    ("REPEATED_FRAME", "a frame that is its own caller"),
    ("INVALID_ELF", "a malformed file"),
    ("SYSTEM_CALL", "a system call failed"),
    ("THREAD_TIMEOUT", "the thread did not answer"),
    ("THREAD_DOES_NOT_EXIST", "the thread had exited"),
    ("BAD_ARCH", "code of another architecture"),
    ("MAPS_PARSE", "the list of its mappings could not be read"),
    ("INVALID_PARAMETER", "an invalid parameter"),
    ("PTRACE_CALL", "the process could not be examined"),
];

impl UnwindError {
    /// Converts a `StackUnwindError`; unknown numbers become [`UNKNOWN`](Self::UNKNOWN).
    pub(super) fn from_number(number: i32) -> Option<Self> {
        match usize::try_from(number) {
            _ if number == UNWIND_ERROR_NONE => None,
            Ok(known) if known < ERRORS.len() => Some(Self(known as u8)),
            _ => Some(Self::UNKNOWN),
        }
    }

    /// Converts a name as in text formats, with or without `ERROR` before it.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        let name = String::from_utf8_lossy(name);
        let name = name
            .trim_start_matches("ERROR ")
            .trim_start_matches("UNWIND_ERROR_");
        let number = ERRORS.iter().position(|(known, _)| {
            *known == name || (*known == "MAX_FRAME_EXCEEDED" && name == "MAX_FRAMES_EXCEEDED")
        });
        match number {
            Some(number) => Self::from_number(number as i32),
            None => Some(Self::UNKNOWN),
        }
    }

    /// The reason is unknown.
    pub const UNKNOWN: Self = Self(0);
    /// The copied part of the stack ended, or memory could not be read.
    pub const MEMORY_INVALID: Self = Self(2);

    /// Returns the name as in the synthetic outermost frame, for example `MEMORY_INVALID`.
    pub fn name(self) -> &'static str {
        ERRORS
            .get(usize::from(self.0))
            .map_or("UNKNOWN", |error| error.0)
    }

    /// Returns a short description.
    pub fn as_str(self) -> &'static str {
        ERRORS
            .get(usize::from(self.0))
            .map_or("for an unknown reason", |error| error.1)
    }
}

impl fmt::Display for UnwindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The reason for a missing callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// The reason is unknown.
    Unknown,
    /// The process could not be examined in time.
    ReadStage,
    /// The process had exited, or access to it was denied.
    UnwindStage,
    /// Too many samples for the unwinder.
    UnwindEnqueue,
    /// The process was excluded from the profile.
    NotInScope,
}

impl SkipReason {
    /// Converts a `PerfSample.SampleSkipReason`.
    pub(super) fn from_number(number: i32) -> Self {
        use ferretto_proto::views::perf_sample::sample_skip_reason as of;
        match number {
            of::PROFILER_SKIP_READ_STAGE => Self::ReadStage,
            of::PROFILER_SKIP_UNWIND_STAGE => Self::UnwindStage,
            of::PROFILER_SKIP_UNWIND_ENQUEUE => Self::UnwindEnqueue,
            of::PROFILER_SKIP_NOT_IN_SCOPE => Self::NotInScope,
            _ => Self::Unknown,
        }
    }
}
