//! Every scenario in every cast: our and the official service, producer and
//! consumer.

mod documented;
mod scenarios;

use ferretto_interop::{Cast, Programs, Whose};

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// Who plays the parts of a scenario that only one of them can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// The official consumer is a tracing session of the SDK.
    Sdk,
    /// The official consumer is the endpoint inside upstream's `perfetto`.
    Endpoint,
}

/// Defines the macro that makes one test of each scenario, and their list.
macro_rules! scenarios {
    ($($parts:ident $module:ident::$name:ident;)*) => {
        macro_rules! tests_of_this_cast {
            () => { $(
                #[test]
                fn $name() {
                    super::scenarios::$module::$name(CAST);
                }
            )* };
        }

        /// Every scenario with its module and who plays its official consumer.
        const SCENARIOS: &[(Parts, &str, &str)] =
            &[$((Parts::$parts, stringify!($module), stringify!($name)),)*];
    };
}

/// Makes one module of tests for each cast, and their list.
macro_rules! casts {
    ($($name:ident: $service:ident, $producer:ident, $consumer:ident;)*) => {
        $(
            mod $name {
                use super::{Cast, Whose};

                const CAST: Cast = Cast {
                    service: Whose::$service,
                    producer: Whose::$producer,
                    consumer: Whose::$consumer,
                };

                tests_of_this_cast!();
            }
        )*

        /// Every cast: service, producer, consumer.
        const CASTS: &[[Whose; 3]] =
            &[$([Whose::$service, Whose::$producer, Whose::$consumer],)*];
    };
}

scenarios! {
    Sdk plain::track_events_arrive_complete_and_in_order;
    Sdk plain::a_packet_of_74_kb_arrives_whole;
    Sdk plain::a_packet_of_20_mb_arrives_whole;
    Sdk plain::a_read_takes_out_what_was_flushed;
    Sdk plain::a_killed_producer_leaves_what_it_had_written;
    Sdk plain::a_producer_finds_the_next_service;
    Sdk plain::two_sessions_each_get_their_own;
    Sdk plain::a_late_producer_joins;
    Sdk plain::both_kinds_of_producer_share_a_session;
    Sdk buffers::a_ring_keeps_the_newest;
    Sdk buffers::a_full_buffer_keeps_the_oldest;
    Endpoint files::a_long_recording_fills_the_consumers_file;
    Sdk files::a_long_recording_makes_its_own_file;
    Endpoint files::a_full_file_ends_the_recording;
    Endpoint files::a_dying_service_leaves_the_file;
    Endpoint triggers::a_trigger_starts_a_recording;
    Endpoint triggers::a_trigger_stops_a_recording;
    Sdk triggers::the_sdk_waits_for_a_trigger;
    Endpoint triggers::triggers_ask_for_snapshots;
    Endpoint clones::a_session_is_cloned_by_name_and_number;
    Endpoint clones::a_long_recording_is_cloned_into_a_file;
    Endpoint sessions::a_detached_session_goes_on;
    Endpoint sessions::a_deferred_session_starts_when_told;
    Endpoint sessions::a_stop_waits_for_slow_data_sources;
    Endpoint sessions::a_changed_config_lets_producers_in;
    Sdk sessions::five_sessions_of_different_kinds_run_at_once;
    Sdk transformed::a_trace_is_deflated;
    Sdk transformed::a_trace_is_compressed_with_zstd;
    Sdk transformed::a_filter_takes_out_fields_and_secrets;
    Sdk startup::what_was_recorded_before_the_session_is_in_it;
}

// The last cast proves the scenarios themselves.
casts! {
    ours_ours_ours: Ours, Ours, Ours;
    ours_ours_official: Ours, Ours, Official;
    ours_official_ours: Ours, Official, Ours;
    ours_official_official: Ours, Official, Official;
    official_ours_ours: Official, Ours, Ours;
    official_ours_official: Official, Ours, Official;
    official_official_ours: Official, Official, Ours;
    official_official_official: Official, Official, Official;
}
