//! Upstream's packet validator benchmark
//! (`src/tracing/service/packet_stream_validator_benchmark.cc`).

use std::hint::black_box;

use ferretto_service::packet::validate;
use ferretto_wire::Encoder;

use crate::{Group, Row};

/// Returns a packet like a page of the kernel's scheduling events.
fn sched_bundle() -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).nested(1, |bundle| {
        bundle.varint(1, 1);
        for _ in 0..64 {
            bundle.nested(2, |event| {
                event.varint(2, 12345);
                event.varint(1, 1_000_000_000 * 3600 * 24 * 365);
                event.nested(4, |switch| {
                    switch.string(1, "thread_name_1");
                    switch.varint(2, 12345);
                    switch.varint(4, 42);
                    switch.string(5, "thread_name_2");
                    switch.varint(6, 67890);
                });
            });
        }
    });
    bytes
}

/// Ten such packets, each in slices of 512 bytes, as one.
pub(crate) fn validate_packets() -> Group {
    let packet = sched_bundle();
    let slices: Vec<Vec<u8>> = (0..10)
        .flat_map(|_| packet.chunks(512).map(<[u8]>::to_vec))
        .collect();
    assert_eq!(validate(slices.iter().map(Vec::as_slice)), Ok(()));
    #[cfg(feature = "upstream")]
    let upstream = {
        let packet = crate::upstream::Packet::new(&slices);
        Row::of_one_thread("upstream", move || assert!(packet.validate()))
    };
    let ours = Row::of_one_thread("ours", move || {
        assert!(validate(black_box(&slices).iter().map(Vec::as_slice)).is_ok());
    });
    Group {
        name: "BM_PacketStreamValidator",
        bar: Some(2.5),
        bytes: Some(10 * packet.len() as u64),
        rows: vec![
            ours,
            #[cfg(feature = "upstream")]
            upstream,
        ],
    }
}
