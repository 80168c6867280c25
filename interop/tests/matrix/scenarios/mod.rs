//! The scenarios, written once.

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

/// A scenario and who can play it.
pub(crate) struct Scenario {
    pub(crate) parts: Parts,
    /// The subject of the scenario.
    pub(crate) topic: &'static str,
    pub(crate) name: &'static str,
    pub(crate) play: fn(Cast),
    /// Why a cast cannot play it.
    pub(crate) exception: fn(Cast) -> Option<Exception>,
}

/// The players of a scenario that only one of them can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// The official consumer is a tracing session of the SDK.
    Sdk,
    /// The official consumer is the endpoint inside upstream's `perfetto`.
    Endpoint,
}

/// Why a scenario cannot be played.
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

fn anybody(_: Cast) -> Option<Exception> {
    None
}

fn who_has_startup_tracing(cast: Cast) -> Option<Exception> {
    (cast.producer == Sdk::OfficialOnOurs).then_some(Exception::NoStartupInC)
}

fn who_repeats_by_itself(cast: Cast) -> Option<Exception> {
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
    Sdk plain::track_events_arrive_complete_and_in_order by anybody;
    Sdk plain::a_packet_of_74_kb_arrives_whole by anybody;
    Sdk plain::a_packet_of_20_mb_arrives_whole by anybody;
    Sdk plain::two_sessions_each_get_their_own by anybody;
    Sdk plain::a_late_producer_joins by anybody;
    Sdk plain::all_kinds_of_producer_share_a_session by anybody;
    Sdk data_source::a_data_source_gets_its_config_and_is_told_of_its_life by anybody;
    Sdk data_source::every_session_configures_a_data_source_for_itself by anybody;
    Sdk exhausted::a_writer_may_wait_for_room by anybody;
    Sdk exhausted::a_writer_may_go_on_without_room by anybody;
    Sdk startup::what_was_recorded_before_the_session_is_in_it by who_has_startup_tracing;
    Sdk startup::what_was_recorded_before_the_service_came_is_in_it by who_has_startup_tracing;
    Sdk flush::a_read_takes_out_what_was_flushed by anybody;
    Sdk flush::a_flush_waits_for_data_sources by anybody;
    Sdk incremental::a_data_source_says_anew_what_it_said by anybody;
    Sdk incremental::track_events_say_anew_what_they_said by anybody;
    Sdk buffers::a_ring_keeps_the_newest by anybody;
    Sdk buffers::track_events_left_in_a_ring_can_be_read by who_repeats_by_itself;
    Sdk buffers::a_full_buffer_keeps_the_oldest by anybody;
    Endpoint files::a_long_recording_fills_the_consumers_file by anybody;
    Sdk files::a_long_recording_makes_its_own_file by anybody;
    Endpoint files::a_full_file_ends_the_recording by anybody;
    Endpoint files::a_dying_service_leaves_the_file by anybody;
    Endpoint triggers::a_trigger_starts_a_recording by anybody;
    Endpoint triggers::a_trigger_stops_a_recording by anybody;
    Sdk triggers::the_sdk_waits_for_a_trigger by anybody;
    Endpoint triggers::triggers_ask_for_snapshots by anybody;
    Endpoint clones::a_session_is_cloned_by_name_and_number by anybody;
    Endpoint clones::a_long_recording_is_cloned_into_a_file by anybody;
    Endpoint sessions::a_detached_session_goes_on by anybody;
    Endpoint sessions::a_deferred_session_starts_when_told by anybody;
    Endpoint sessions::a_stop_waits_for_slow_data_sources by anybody;
    Endpoint sessions::a_changed_config_lets_producers_in by anybody;
    Sdk sessions::five_sessions_of_different_kinds_run_at_once by anybody;
    Sdk transformed::a_trace_is_deflated by anybody;
    Sdk transformed::a_trace_is_compressed_with_zstd by anybody;
    Sdk transformed::a_filter_takes_out_fields_and_secrets by anybody;
    Sdk restarts::a_producer_finds_the_next_service by anybody;
    Sdk restarts::a_stop_may_outlive_the_service by anybody;
    Sdk restarts::a_killed_producer_leaves_what_it_had_written by anybody;
    Sdk restarts::a_killed_consumer_leaves_nothing_behind by anybody;
    Sdk older::a_service_without_newer_methods_is_enough by anybody;
    Endpoint older::what_a_service_cannot_do_is_refused by anybody;
}
