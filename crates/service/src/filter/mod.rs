//! The trace filter: an allow-list of fields, applied to each packet as it is read, with rules that
//! redact parts of the allowed strings.
//!
//! A config contains the list as bytecode ([`words`]), which is compiled to tables once
//! ([`Program`]). Packets then go through [`run`] in one pass. String rules are in [`strings`].

mod program;
mod run;
mod strings;
mod words;

use ferretto_proto::trace_config;

use crate::matching::{Budget, PatternError, Weight, quoted};
use program::{Program, Rule};
use run::Scratch;
use strings::StringRules;

/// The field of `Trace` for packets. Bytecode starts at `Trace`, filtering at a packet.
const TRACE_PACKET: u32 = 1;

/// The reason why a config's filter was refused. The texts without a pattern or number are
/// upstream's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterError {
    /// A rule has an unknown policy.
    StringPolicy,
    /// A rule has an unknown semantic type.
    SemanticType,
    /// The bytecode is damaged or invalid.
    Bytecode,
    /// The bytecode has no rules for packets.
    Root,
    /// Upstream aborts instead.
    Pattern {
        /// The expression.
        pattern: String,
        /// The error in the expression.
        reason: String,
    },
}

ferretto_wire::error_text! {
    FilterError {
        Self::StringPolicy => "Trace filter has invalid string filtering rules",
        Self::SemanticType => "Trace filter has invalid semantic types in string filtering rules",
        Self::Bytecode => "Trace filter bytecode invalid",
        Self::Root => "Failed to set filter root.",
        Self::Pattern { pattern, reason } =>
            "Invalid regular expression \"{pattern}\" in trace_filter: {reason}",
    }
}

impl FilterError {
    fn pattern(pattern: &[u8], PatternError(reason): PatternError) -> Self {
        let pattern = quoted(pattern);
        Self::Pattern { pattern, reason }
    }
}

/// The error of a packet that is not an encoded message. None of its fields is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// A compiled filter.
#[derive(Debug, Clone)]
pub struct TraceFilter {
    program: Program,
    strings: StringRules,
    scratch: Scratch,
}

impl TraceFilter {
    /// Compiles the filter of a config.
    ///
    /// # Errors
    ///
    /// Fails if the filter is invalid, see [`FilterError`].
    pub fn load(config: &trace_config::TraceFilter) -> Result<Self, FilterError> {
        Self::load_within(config, &mut Budget::of_session())
    }

    /// Compiles the filter of a config if its expressions fit the budget.
    pub(crate) fn load_within(
        config: &trace_config::TraceFilter,
        budget: &mut Budget,
    ) -> Result<Self, FilterError> {
        let base = config.string_filter_chain.rules.iter();
        let rules = base.chain(&config.string_filter_chain_v54.rules);
        let strings = StringRules::load(rules, budget)?;
        let bytes = |field: &'_ Option<Vec<u8>>| field.clone().unwrap_or_default();
        let newer = bytes(&config.bytecode_v2);
        let code = if newer.is_empty() {
            bytes(&config.bytecode)
        } else {
            newer
        };
        let overlay = bytes(&config.bytecode_overlay_v54);
        let mut program = Program::load(&code, &overlay).ok_or(FilterError::Bytecode)?;
        let Rule::Nested(packet) = program.rule(program.root(), TRACE_PACKET) else {
            return Err(FilterError::Root);
        };
        program.set_root(packet);
        Ok(Self {
            program,
            strings,
            scratch: Scratch::default(),
        })
    }

    /// Returns the size of the rules' expressions.
    pub(crate) fn weight(&self) -> Weight {
        self.strings.weight()
    }

    /// Filters a packet given in pieces. The result is never longer than the packet.
    ///
    /// # Errors
    ///
    /// Fails if the packet is not an encoded message. None of its fields may then be passed on.
    pub fn filter<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<&[u8], Malformed> {
        self.scratch
            .filter(&self.program, &mut self.strings, pieces)
    }
}

/// Counters of a session's filter, for the trace's statistics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilterCounters {
    pub(crate) input_packets: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    /// The number of malformed packets, which were replaced by empty ones.
    pub(crate) errors: u64,
    /// The time spent on filtering, in nanoseconds.
    pub(crate) time_ns: u64,
    /// The bytes removed from packets of each buffer, by index in the config.
    pub(crate) discarded: Vec<u64>,
}

impl FilterCounters {
    /// Counts a packet. `buffer` is its source, if it is a producer's.
    pub(crate) fn count(
        &mut self,
        input: usize,
        output: Result<usize, Malformed>,
        buffer: Option<usize>,
    ) {
        self.input_packets += 1;
        self.input_bytes += input as u64;
        let Ok(output) = output else {
            self.errors += 1;
            return;
        };
        self.output_bytes += output as u64;
        if let Some(buffer) = buffer {
            if self.discarded.len() <= buffer {
                self.discarded.resize(buffer + 1, 0);
            }
            if let Some(discarded) = self.discarded.get_mut(buffer) {
                *discarded += input.saturating_sub(output) as u64;
            }
        }
    }
}

#[cfg(all(test, feature = "regex"))]
mod tests;
