//! The scenarios.

mod buffers;
mod clones;
mod data_source;
mod exhausted;
mod files;
mod flush;
mod incremental;
mod older;
mod plain;
mod restarts;
mod sessions;
mod startup;
mod transformed;
mod triggers;

use ferretto_interop::{Cast, Sdk};

/// A scenario and the casts that support it.
pub(crate) struct Scenario {
    pub(crate) parts: Parts,
    /// The subject of the scenario.
    pub(crate) topic: &'static str,
    pub(crate) name: &'static str,
    pub(crate) play: fn(Cast),
    /// The reason why a cast does not support it.
    pub(crate) exception: fn(Cast) -> Option<Exception>,
}

/// The official consumer of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// The official consumer is a tracing session of the SDK.
    Sdk,
    /// The official consumer is the endpoint inside upstream's `perfetto`.
    Endpoint,
}

/// The reason why a cast does not support a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exception {
    NoStartupInC,
    SaidOnce,
}

impl Exception {
    pub(crate) const ALL: [Self; 2] = [Self::NoStartupInC, Self::SaidOnce];

    /// Returns its mark in the table.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::NoStartupInC => "a",
            Self::SaidOnce => "b",
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NoStartupInC => {
                "the C interface, and so the official Rust SDK, has no startup tracing. Where the producer is official, \
                 the C++ SDK plays it."
            }
            Self::SaidOnce => {
                "upstream's library says once what its events refer to, unless the config asks for repetition: none of \
                 those left can be read."
            }
        }
    }
}

fn all_casts(_: Cast) -> Option<Exception> {
    None
}

fn casts_with_startup_tracing(cast: Cast) -> Option<Exception> {
    (cast.producer == Sdk::OfficialOnOurs).then_some(Exception::NoStartupInC)
}

fn casts_with_repetition(cast: Cast) -> Option<Exception> {
    (cast.producer == Sdk::Official).then_some(Exception::SaidOnce)
}

macro_rules! scenarios {
    ($($parts:ident $module:ident::$name:ident by $exception:ident;)*) => {
        /// Every scenario, in the order of the table.
        pub(crate) const SCENARIOS: &[Scenario] = &[$(Scenario {
            parts: Parts::$parts,
            topic: stringify!($module),
            name: stringify!($name),
            play: $module::$name,
            exception: $exception,
        },)*];
    };
}

scenarios! {
    Sdk plain::track_events_arrive_complete_and_in_order by all_casts;
    Sdk plain::a_packet_of_74_kb_arrives_whole by all_casts;
    Sdk plain::a_packet_of_20_mb_arrives_whole by all_casts;
    Sdk plain::two_sessions_receive_their_own_data by all_casts;
    Sdk plain::a_late_producer_joins by all_casts;
    Sdk plain::all_kinds_of_producer_share_a_session by all_casts;
    Sdk data_source::a_data_source_receives_its_config_and_callbacks by all_casts;
    Sdk data_source::every_session_has_its_own_config_of_a_data_source by all_casts;
    Sdk exhausted::a_writer_can_wait_for_room by all_casts;
    Sdk exhausted::a_writer_can_continue_in_full_buffers by all_casts;
    Sdk startup::events_before_the_session_are_recorded by casts_with_startup_tracing;
    Sdk startup::events_before_the_start_of_the_service_are_recorded by casts_with_startup_tracing;
    Sdk flush::a_read_returns_flushed_data by all_casts;
    Sdk flush::a_flush_waits_for_data_sources by all_casts;
    Sdk incremental::a_data_source_repeats_its_state by all_casts;
    Sdk incremental::track_events_repeat_their_state by all_casts;
    Sdk buffers::a_ring_keeps_the_newest by all_casts;
    Sdk buffers::track_events_left_in_a_ring_can_be_read by casts_with_repetition;
    Sdk buffers::a_full_buffer_keeps_the_oldest by all_casts;
    Endpoint files::a_long_recording_fills_the_consumers_file by all_casts;
    Sdk files::a_long_recording_makes_its_own_file by all_casts;
    Endpoint files::a_full_file_ends_the_recording by all_casts;
    Endpoint files::a_killed_service_leaves_the_file by all_casts;
    Endpoint triggers::a_trigger_starts_a_recording by all_casts;
    Endpoint triggers::a_trigger_stops_a_recording by all_casts;
    Sdk triggers::the_sdk_waits_for_a_trigger by all_casts;
    Endpoint triggers::triggers_request_snapshots by all_casts;
    Endpoint clones::a_session_is_cloned_by_name_and_number by all_casts;
    Endpoint clones::a_long_recording_is_cloned_into_a_file by all_casts;
    Endpoint sessions::a_detached_session_goes_on by all_casts;
    Endpoint sessions::a_deferred_session_starts_on_request by all_casts;
    Endpoint sessions::a_stop_waits_for_slow_data_sources by all_casts;
    Endpoint sessions::a_changed_config_admits_producers by all_casts;
    Sdk sessions::five_sessions_of_different_kinds_run_at_once by all_casts;
    Sdk transformed::a_trace_is_deflated by all_casts;
    Sdk transformed::a_trace_is_compressed_with_zstd by all_casts;
    Sdk transformed::a_filter_removes_fields_and_secrets by all_casts;
    Sdk restarts::a_producer_finds_the_next_service by all_casts;
    Sdk restarts::a_pending_stop_survives_the_end_of_the_service by all_casts;
    Sdk restarts::data_of_a_killed_producer_is_kept by all_casts;
    Sdk restarts::the_session_of_a_killed_consumer_ends by all_casts;
    Sdk older::a_service_without_newer_methods_is_sufficient by all_casts;
    Endpoint older::unsupported_requests_are_rejected by all_casts;
}
