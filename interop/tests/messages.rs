//! The independent reader of encoded messages.

use ferretto_interop::wire::Message;

#[test]
fn every_wire_type_is_read() {
    let message = Message::decode(b"\x08\x96\x01\x11\x02\0\0\0\0\0\0\0\x1a\x02hi\x25\x03\0\0\0");
    assert_eq!(message.number(1), 150);
    assert_eq!(message.number(2), 2);
    assert_eq!(message.text(3), "hi");
    assert_eq!(message.number(4), 3);
    assert!(!message.has(5));
}

#[test]
fn malformed_messages_are_rejected() {
    for bytes in [
        b"\x08".as_slice(),
        b"\x00\x00",
        b"\x1a\x02h",
        b"\x0b",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ] {
        assert_eq!(Message::try_decode(bytes), None, "{bytes:?}");
    }
}
