use std::io::Read;

use ferretto_proto::fields::trace_packet;
use ferretto_proto::trace_config::compression_config::{Deflate, Zstd};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn config(deflate: bool, zstd: Option<i32>, older: bool) -> TraceConfig {
    let mut config = TraceConfig::default();
    let choice = config.compression.get_or_insert_default();
    if deflate {
        choice.deflate = Deflate::default().into();
    }
    if let Some(level) = zstd {
        let level = Some(level);
        choice.zstd = Zstd {
            level,
            ..Default::default()
        }
        .into();
    }
    config.compression_type = older.then_some(CompressionType::COMPRESSION_TYPE_DEFLATE);
    config
}

fn for_config(config: &TraceConfig) -> Option<Compressor> {
    Compressor::for_config(config).unwrap()
}

fn compress(compressor: &mut Compressor, packets: &[Vec<u8>]) -> Option<Vec<u8>> {
    for packet in packets {
        let (head, tail) = packet.split_at(packet.len() / 2);
        compressor.add([head, tail].into_iter());
    }
    let batch = compressor.finish()?;
    assert!(batch.pieces(100).all(|piece| piece.len() <= 100));
    Some(batch.pieces(100).flatten().copied().collect())
}

/// Returns the packets in a compressed packet, and the number of its field.
fn open(packet: &[u8]) -> (u32, Vec<Vec<u8>>) {
    let mut fields = Fields::new(packet);
    let field = fields.next().unwrap().unwrap();
    assert!(fields.next().is_none(), "nothing else is in the packet");
    let payload = field.as_bytes().unwrap();
    let mut trace = Vec::new();
    match field.number {
        trace_packet::COMPRESSED_PACKETS => {
            let mut decoder = flate2::read::ZlibDecoder::new(payload);
            decoder.read_to_end(&mut trace).unwrap();
        }
        #[cfg(feature = "zstd")]
        trace_packet::ZSTD_COMPRESSED_PACKETS => {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(payload).unwrap();
            decoder.read_to_end(&mut trace).unwrap();
        }
        other => panic!("unexpected field {other}"),
    }
    (field.number, packets(&trace).map(<[u8]>::to_vec).collect())
}

fn field(config: &TraceConfig) -> Option<u32> {
    for_config(config).map(|compressor| compressor.codec.field())
}

#[test]
fn service_066_and_config_019_choice_of_codec() {
    let deflate = Some(trace_packet::COMPRESSED_PACKETS);
    let zstd = cfg!(feature = "zstd").then_some(trace_packet::ZSTD_COMPRESSED_PACKETS);
    assert_eq!(field(&TraceConfig::default()), None);
    assert_eq!(field(&config(true, None, false)), deflate);
    assert_eq!(
        field(&config(false, None, true)),
        deflate,
        "as older configs say"
    );
    assert_eq!(field(&config(false, None, false)), None, "an unknown codec");
    assert_eq!(field(&config(false, Some(0), false)), zstd);
    assert_eq!(field(&config(true, Some(0), true)), zstd.or(deflate));
}

#[test]
fn service_066_empty_batches_stay_empty() {
    let mut compressor = for_config(&config(true, None, false)).unwrap();
    assert_eq!(compress(&mut compressor, &[]), None);
    let packets = [vec![], vec![1; 300_000], vec![]];
    let packet = compress(&mut compressor, &packets).unwrap();
    assert_eq!(open(&packet).1, packets);
    assert!(packet.len() < 2000);
    assert_eq!(compress(&mut compressor, &[]), None);
}

proptest! {
    #[test]
    fn service_066_batches_round_trip(
        batches in vec(vec(vec(any::<u8>(), 0..200), 1..8), 1..4),
        level in prop_oneof![-7..=22, any::<i32>()],
        zstd: bool,
    ) {
        let config = config(true, zstd.then_some(level), false);
        let mut compressor = for_config(&config).unwrap();
        for packets in batches {
            let packet = compress(&mut compressor, &packets).unwrap();
            let (number, inside) = open(&packet);
            prop_assert_eq!(number, field(&config).unwrap());
            prop_assert_eq!(inside, packets);
        }
    }
}
