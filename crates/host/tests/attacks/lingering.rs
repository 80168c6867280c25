//! Sockets that linger when they are closed, passed in every possible message.

use std::collections::VecDeque;

use crate::common::bind_frame;
use crate::common::passing::{Lingering, give};
use crate::frame::{Attack, TWO, Target};

pub(crate) const ATTACK: Attack = Attack {
    users: TWO,
    ..Attack::by_nobody(run)
};

/// The number of simultaneous connections of each attacker.
const CONNECTIONS: usize = 50;

fn run(target: &Target) {
    let mut lingering = Lingering::default();
    let bind = bind_frame("ProducerPort");
    let mut sockets = VecDeque::new();
    let mut passed = 0_u64;
    loop {
        for (bytes, count) in [
            // A reply comes back, or half a frame stays, or the connection ends.
            (&bind[..], 1),
            (&bind[..9], 1),
            (&bind[..], 3),
            (&[0xff; 4][..], 2),
        ] {
            for socket in [target.producer_socket(), target.consumer_socket()] {
                let Some(socket) = socket else { continue };
                let fds = (0..count).map(|_| lingering.socket()).collect();
                passed += u64::from(give(&socket, bytes, fds));
                sockets.push_back(socket);
            }
        }
        while sockets.len() > CONNECTIONS {
            sockets.pop_front();
        }
        if !target.goes_on() {
            break;
        }
    }
    assert!(passed > 0);
}
