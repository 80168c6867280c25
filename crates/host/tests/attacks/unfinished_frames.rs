//! Frames that are begun and never finished, on as many connections as there can be.

use ferretto_ipc::frame::MAX_PAYLOAD_SIZE;

use crate::common::send_raw;
use crate::frame::{Attack, EIGHT, Target};

pub(crate) const ATTACK: Attack = Attack {
    users: EIGHT,
    ..Attack::by_nobody(run)
};

/// The number of connections of one user: more frames than are ever held for one.
const CONNECTIONS: usize = 1024;

fn run(target: &Target) {
    let mut frame = (MAX_PAYLOAD_SIZE as u32).to_le_bytes().to_vec();
    frame.resize(MAX_PAYLOAD_SIZE, 0);
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        sockets.extend(target.producer_socket().filter(|socket| send_raw(socket, &frame)));
        if !target.goes_on() {
            break;
        }
    }
    assert!(!sockets.is_empty());
    target.hold();
}
