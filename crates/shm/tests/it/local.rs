//! Writers whose packets go to a function.

use std::sync::{Arc, Mutex};

use ferretto_shm::TraceWriter;
use ferretto_wire::{Field, Fields};

fn fields(packet: &[u8]) -> Vec<Field<'_>> {
    Fields::new(packet).map(Result::unwrap).collect()
}

#[test]
fn each_packet_is_delivered_when_it_ends() {
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let packets = Arc::clone(&delivered);
    let deliver = move |packet: &[u8]| packets.lock().unwrap().push(packet.to_vec());
    let mut writer = TraceWriter::local(7, Box::new(deliver));
    let long = "x".repeat(10_000);
    {
        let mut packet = writer.new_packet();
        packet.nested(900, |m| {
            m.nested(2, |m| m.string(1, &long));
            m.varint(3, 4);
        });
        assert!(delivered.lock().unwrap().is_empty());
    }
    writer.write_packet(&[8, 1]);
    assert!(!writer.is_dropping());
    assert_eq!(writer.drop_count(), 0);
    let (sender, receiver) = std::sync::mpsc::channel();
    writer.flush(Some(Box::new(move || sender.send(()).unwrap())));
    receiver.try_recv().unwrap();

    let delivered = delivered.lock().unwrap();
    let [first, second] = &delivered[..] else {
        panic!("{delivered:?}");
    };
    let first = fields(first);
    let numbers: Vec<_> = first.iter().map(|field| field.number).collect();
    assert_eq!(numbers, [87, 900, 10], "the first on its sequence");
    assert_eq!(first[2].as_u64(), Some(7));
    let nested = fields(first[1].as_bytes().unwrap());
    let inner = fields(nested[0].as_bytes().unwrap());
    assert_eq!(inner[0].as_str_lossy().unwrap(), long);
    assert_eq!(nested[1].as_u64(), Some(4));
    assert_eq!(second[..], [8, 1, 80, 7]);
}

#[test]
fn a_panic_of_the_function_does_not_affect_the_next_packet() {
    let mut count = 0;
    let (sender, receiver) = std::sync::mpsc::channel();
    let deliver = move |packet: &[u8]| {
        count += 1;
        assert_ne!(count, 1, "the first");
        sender.send(packet.to_vec()).unwrap();
    };
    let mut writer = TraceWriter::local(1, Box::new(deliver));
    let write = std::panic::AssertUnwindSafe(|| writer.write_packet(&[8, 1]));
    std::panic::catch_unwind(write).unwrap_err();
    writer.write_packet(&[8, 2]);
    assert_eq!(receiver.try_recv().unwrap(), [8, 2, 80, 1]);
}
