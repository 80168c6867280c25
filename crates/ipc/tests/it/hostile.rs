//! No bytes from a peer make either side panic, and their division into receives does not matter.

use std::sync::Arc;

use ferretto_ipc::client;
use ferretto_ipc::frame::{Frame, FrameTooLarge};
use ferretto_ipc::host::{Action, Connection, Peer};
use ferretto_ipc::port::{PortKind, consumer};
use ferretto_ipc::socket::Socket;
use proptest::prelude::*;

/// A recorded conversation; the headers of its records act as noise.
const RECORDED: &[u8] = include_bytes!("../data/clone_session.frames");

/// Returns bytes that resemble frames: recorded ones with errors, or arbitrary bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let damaged = (
        0..RECORDED.len(),
        1..2000usize,
        prop::collection::vec((any::<u16>(), any::<u8>()), 0..8),
    )
        .prop_map(|(start, len, damage)| {
            let end = (start + len).min(RECORDED.len());
            let mut bytes = RECORDED[start..end].to_vec();
            for (position, value) in damage {
                let position = position as usize % bytes.len();
                bytes[position] = value;
            }
            bytes
        });
    let framed = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6).prop_map(
        |payloads| {
            payloads
                .iter()
                .flat_map(|payload| [&(payload.len() as u32).to_le_bytes()[..], payload].concat())
                .collect()
        },
    );
    prop_oneof![damaged, framed, prop::collection::vec(any::<u8>(), 0..300)]
}

fn host() -> Connection {
    let services: Arc<[PortKind]> =
        [PortKind::Producer, PortKind::Consumer, PortKind::Relay].into();
    Connection::local(services, Peer::unidentified())
}

fn feed(
    connection: &mut Connection,
    bytes: &[u8],
    out: &mut Vec<String>,
) -> Result<(), FrameTooLarge> {
    connection.receive(bytes, None, |_, action| {
        out.push(match action {
            Action::Send(frame) => {
                assert!(Frame::decode(&frame[4..]).is_ok());
                format!("{frame:x?}")
            }
            Action::Invoke(call) => format!("{} {:?}", call.request_id, call.request),
        });
    })
}

proptest! {
    #[test]
    fn a_host_survives_any_bytes_however_they_are_cut(bytes in bytes(), cuts in prop::collection::vec(any::<u16>(), 0..6)) {
        let (mut whole, mut cut) = (Vec::new(), Vec::new());
        let expected = feed(&mut host(), &bytes, &mut whole);
        let mut positions: Vec<usize> =
            cuts.iter().map(|cut| *cut as usize % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
        positions.sort_unstable();
        let mut connection = host();
        let mut result = Ok(());
        for window in positions.windows(2) {
            if result.is_ok() {
                result = feed(&mut connection, &bytes[window[0]..window[1]], &mut cut);
            }
        }
        prop_assert_eq!(expected, result);
        // A receive with an impossible header has no effect, and its start depends on the cuts.
        if expected.is_ok() {
            prop_assert_eq!(whole, cut);
        }
    }

    #[test]
    fn a_client_survives_any_bytes(bytes in bytes()) {
        let (near, mut far) = Socket::pair().unwrap();
        let mut client = client::Connection::<consumer::Port>::new(near);
        far.queue(bytes, None).unwrap();
        far.flush().unwrap();
        drop(far);
        client.process();
        let mut last = None;
        while let Some(event) = client.poll_event() {
            last = Some(event);
        }
        prop_assert!(matches!(last, Some(client::Event::Disconnected(_))));
    }
}
