//! Two users use all the descriptors they can get, of a service with few.

use std::os::fd::AsFd as _;

use crate::common::passing::pass;
use crate::common::bind_frame;
use crate::frame::{Attack, TWO, Target};
use crate::service::ServiceOptions;

pub(crate) const ATTACK: Attack = Attack {
    users: TWO,
    service: ServiceOptions { descriptors: 1024 },
    ..Attack::by_nobody(run)
};

fn run(target: &Target) {
    let bind = bind_frame("ProducerPort");
    // Within a frame, the service keeps the descriptors.
    let half = &bind[..9];
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let mut sockets = Vec::new();
    while sockets.len() < 900 {
        let new = [target.producer_socket(), target.consumer_socket()];
        for socket in new.into_iter().flatten() {
            pass(&socket, half, &[reader.as_fd()]);
            sockets.push(socket);
        }
        if !target.goes_on() {
            break;
        }
    }
    assert!(!sockets.is_empty());
    target.hold();
}
