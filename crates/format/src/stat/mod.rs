//! The statistics of a trace: losses of the recording, and data that readers cannot show.

mod list;

use std::sync::LazyLock;

pub use self::list::Stat;

/// The severity of a value other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No problem.
    Info,
    /// A condition that may be unexpected.
    Notice,
    /// Data is missing.
    DataLoss,
    /// A fault.
    Error,
}

/// The origin of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The recording.
    Trace,
    /// The import.
    Analysis,
}

/// The scope of a statistic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole import.
    Global,
    /// A file.
    Trace,
    /// A machine, in all files.
    MachineOnly,
    /// A machine in a file.
    Machine,
}

macro_rules! define {
    ($( $name:ident, $key:ident, $severity:ident, $source:ident, $scope:ident; )+) => {
        /// Names a number of the table `stats`.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Stat {
            $( $name, )+
        }

        impl Stat {
            /// All of them, in the order of their keys.
            pub const ALL: &[Self] = &[$( Self::$name, )+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$name => stringify!($name), )+
                }
            }

            /// Returns true if there are several, one for each CPU, buffer or the like.
            pub fn is_indexed(self) -> bool {
                match self {
                    $( Self::$name => stringify!($key).len() == "indexed".len(), )+
                }
            }

            /// Returns the severity of values other than 0.
            pub fn severity(self) -> Severity {
                match self {
                    $( Self::$name => Severity::$severity, )+
                }
            }

            /// Returns the origin.
            pub fn source(self) -> Source {
                match self {
                    $( Self::$name => Source::$source, )+
                }
            }

            /// Returns the scope.
            pub fn scope(self) -> Scope {
                match self {
                    $( Self::$name => Scope::$scope, )+
                }
            }
        }
    };
}

use define;

impl Severity {
    /// Returns the name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Notice => "notice",
            Self::DataLoss => "data_loss",
            Self::Error => "error",
        }
    }
}

impl Source {
    /// Returns the name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Analysis => "analysis",
        }
    }
}

/// The descriptions of all statistics, in the order of their keys: `NAME: TEXT`.
const DESCRIPTIONS: &str = include_str!("descriptions.txt");

/// The descriptions, by key.
static TEXTS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let texts = DESCRIPTIONS.lines();
    texts
        .map(|line| line.split_once(": ").map_or("", |(_, text)| text))
        .collect()
});

impl Stat {
    /// Returns the description, a sentence.
    pub fn description(self) -> &'static str {
        TEXTS.get(self as usize).copied().unwrap_or_default()
    }

    /// Returns true for data that the recording did not contain or the recorder lost, as opposed to
    /// data in the file that a reader cannot show.
    pub fn is_of_recording(self) -> bool {
        let of_reader = matches!(
            self,
            Self::sorter_push_event_out_of_order
                | Self::trace_sorter_negative_timestamp_dropped
                | Self::atom_timestamp_missing
                | Self::gpu_counters_missing_timestamp
                | Self::perf_text_importer_sample_no_frames
                | Self::perf_text_unreadable_lines
                | Self::collapsed_stack_unreadable_lines
                | Self::strace_unreadable_lines
                | Self::json_tokenizer_failure
                | Self::json_parser_failure
                | Self::strace_missing_pid
                | Self::strace_unsupported_timestamp_format
                | Self::stackprofile_invalid_string_id
                | Self::stackprofile_invalid_mapping_id
                | Self::stackprofile_invalid_frame_id
                | Self::stackprofile_invalid_callstack_id
                | Self::stackprofile_parser_error
                | Self::legacy_v8_cpu_profile_invalid_callsite
                | Self::legacy_v8_cpu_profile_invalid_sample
                | Self::flow_duplicate_id
                | Self::flow_no_enclosing_slice
                | Self::flow_invalid_id
                | Self::flow_without_direction
                | Self::track_event_thread_invalid_end
                | Self::compact_sched_has_parse_errors
                | Self::heap_graph_invalid_string_id
                | Self::heap_graph_malformed_packet
                | Self::unknown_extension_fields
        );
        // Marks and traces of losses while recording.
        let of_marks = matches!(
            self,
            Self::traced_buf_sequence_packet_loss
                | Self::traced_buf_incremental_sequences_dropped
                | Self::perf_samples_skipped
                | Self::mismatched_sched_switch_tids
        );
        of_marks || (self.source() == Source::Trace && !of_reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_statistics_are_described() {
        let lines = DESCRIPTIONS
            .lines()
            .filter_map(|line| line.split_once(": "));
        let names: Vec<_> = lines.map(|(name, _)| name).collect();
        let all: Vec<_> = Stat::ALL.iter().map(|stat| stat.name()).collect();
        assert_eq!(names, all);
        assert!(
            Stat::ALL
                .iter()
                .all(|stat| stat.description().ends_with('.'))
        );
    }
}
