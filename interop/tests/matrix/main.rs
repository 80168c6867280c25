//! Every scenario in every cast: our and the official service, producer and
//! consumer.

mod scenarios;

use ferretto_interop::{Cast, Programs, Whose};

const PROGRAMS: Programs = Programs {
    ours: env!("CARGO_BIN_EXE_ours"),
    official: env!("CARGO_BIN_EXE_official"),
};

/// One module of tests for each cast, one test in it for each scenario.
macro_rules! matrix {
    ($($name:ident: $service:ident, $producer:ident, $consumer:ident;)*) => {
        $(
            mod $name {
                use super::{Cast, Whose};

                const CAST: Cast = Cast {
                    service: Whose::$service,
                    producer: Whose::$producer,
                    consumer: Whose::$consumer,
                };

                #[test]
                fn track_events_arrive_complete_and_in_order() {
                    super::scenarios::track_events(CAST);
                }

                #[test]
                fn a_packet_of_74_kb_arrives_whole() {
                    super::scenarios::large_packet(CAST, 74_000);
                }

                #[test]
                fn a_packet_of_20_mb_arrives_whole() {
                    super::scenarios::large_packet(CAST, 20_000_000);
                }

                #[test]
                fn a_read_takes_out_what_was_flushed() {
                    super::scenarios::flush_and_read(CAST);
                }

                #[test]
                fn a_killed_producer_leaves_what_it_had_written() {
                    super::scenarios::killed_producer(CAST);
                }

                #[test]
                fn a_producer_finds_the_next_service() {
                    super::scenarios::next_service(CAST);
                }

                #[test]
                fn two_sessions_each_get_their_own() {
                    super::scenarios::two_sessions(CAST);
                }
            }
        )*
    };
}

// The service, the producer, the consumer. The last cast proves the scenarios
// themselves.
matrix! {
    ours_ours_ours: Ours, Ours, Ours;
    ours_ours_official: Ours, Ours, Official;
    ours_official_ours: Ours, Official, Ours;
    ours_official_official: Ours, Official, Official;
    official_ours_ours: Official, Ours, Ours;
    official_ours_official: Official, Ours, Official;
    official_official_ours: Official, Official, Ours;
    official_official_official: Official, Official, Official;
}
