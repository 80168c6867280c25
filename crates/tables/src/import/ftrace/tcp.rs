//! Slices of TCP connections.

use ferretto_proto::fields::{
    inet_sock_set_state_ftrace_event as socket, tcp_retransmit_skb_ftrace_event as retransmit,
};
use rustc_hash::FxHashMap;

use super::{Context, Head};
use crate::import::message::Message;
use crate::strings::StringId;
use crate::trackers::args::ArgSet;
use crate::trackers::slice::SliceStart;
use crate::trackers::track::{Dimension, TrackSpec};

const STATES: [&str; 13] = [
    "TCP_UNKNOWN",
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_NEW_SYN_RECV",
];
const ESTABLISHED: usize = 1;
const SYN_SENT: usize = 2;

const IPPROTO_TCP: u32 = 6;
/// The address families IP and IPv6.
const AF_INET: [u32; 2] = [2, 10];

/// The maximum number of sockets.
const MAX_STREAMS: usize = 1 << 16;

/// Connections with separate tracks.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The numbers of connections, by address of their socket.
    numbers: FxHashMap<u64, u32>,
}

impl Streams {
    /// Handles a change of the state of a connection: a slice ends, and that of the new state
    /// begins.
    pub(super) fn state_changed(&mut self, cx: &mut Context, head: &Head<'_>, body: &[u8]) {
        let body = Message::<10>::read(body);
        let state = |field| {
            let state = usize::try_from(body.int(field)).ok()?;
            STATES.get(state).map(|name| (state, *name))
        };
        let (Some((state, name)), Some(_)) = (state(socket::NEWSTATE), state(socket::OLDSTATE))
        else {
            return;
        };
        if body.u32(socket::PROTOCOL) != IPPROTO_TCP || !AF_INET.contains(&body.u32(socket::FAMILY))
        {
            return;
        }
        let next = self.numbers.len() as u32 + 1;
        let address = body.uint(socket::SKADDR);
        if self.numbers.len() >= MAX_STREAMS && !self.numbers.contains_key(&address) {
            return;
        }
        let stream = *self.numbers.entry(address).or_insert(next);
        let name = match state {
            SYN_SENT => format!("{name}(pid={})", head.tid),
            ESTABLISHED => {
                let (from, to) = (body.u32(socket::SPORT), body.u32(socket::DPORT));
                format!("{name}(sport={from},dport={to})")
            }
            _ => name.to_owned(),
        };
        let label = cx.store.strings.intern(&format!("TCP stream#{stream}"));
        let dimensions = [Dimension::Int("tcp_stream_idx", stream.into())];
        let spec = TrackSpec::slices("net_socket_set_state", &dimensions).named(label);
        let track = cx.tracks.intern(&mut cx.store, spec);
        let mut args = ArgSet::default();
        let any = (StringId::NULL, StringId::NULL);
        cx.slices.end(&mut cx.store, head.ts, track, any, &mut args);
        let start = SliceStart {
            ts: head.ts,
            track,
            category: cx.store.strings.intern("tcp_state"),
            name: cx.store.strings.intern(&name),
        };
        cx.slices.begin(&mut cx.store, start, &mut args);
    }
}

/// Handles a retransmission on a connection.
pub(super) fn retransmitted(cx: &mut Context, head: &Head<'_>, body: &[u8]) {
    let body = Message::<8>::read(body);
    let (from, to) = (body.u32(retransmit::SPORT), body.u32(retransmit::DPORT));
    let label = cx.store.strings.intern("TCP Retransmit Skb");
    let spec = TrackSpec::slices("net_tcp_retransmit_skb", &[]).named(label);
    let start = SliceStart {
        ts: head.ts,
        track: cx.tracks.intern(&mut cx.store, spec),
        category: cx.store.strings.intern("tcp_event"),
        name: cx.store.strings.intern(&format!("sport={from},dport={to}")),
    };
    cx.slices
        .complete(&mut cx.store, start, 0, &mut ArgSet::default());
}
