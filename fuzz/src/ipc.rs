//! Frames and calls.

use std::sync::Arc;

use ferretto_ipc::frame::{Frame, FrameDecoder};
use ferretto_ipc::host::{Connection, Peer};
use ferretto_ipc::port::PortKind;

use crate::input::Input;

/// Bytes from a socket, received in pieces as the input says, on both kinds of connections.
pub fn ipc_frames(data: &[u8]) {
    let mut input = Input(data);
    let step = usize::from(input.u8()) + 1;
    let stream = input.0;
    let services: Arc<[PortKind]> =
        Arc::from([PortKind::Producer, PortKind::Consumer, PortKind::Relay]);
    let local = Connection::local(services.clone(), Peer::unidentified());
    let remote = Connection::remote(services, "127.0.0.1".to_owned());
    let mut seen = Vec::new();
    for mut connection in [local, remote] {
        let mut actions = 0;
        for piece in stream.chunks(step) {
            if connection
                .receive(piece, None, |_, _| actions += 1)
                .is_err()
            {
                break;
            }
        }
        seen.push(actions);
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0] <= stream.len() / 4, "a frame has a length");

    let mut decoder = FrameDecoder::new();
    for piece in stream.chunks(step) {
        let look = |payload: &[u8], _| drop(Frame::decode(payload));
        if decoder.decode(piece, None, look).is_err() {
            break;
        }
    }
}
