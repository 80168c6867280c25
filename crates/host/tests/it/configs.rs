//! Malformed configs, byte by byte.

use crate::common::{TestHost, read_frame, send_raw};
use ferretto_ipc::frame::{self, Frame, Message};
use ferretto_ipc::socket::Socket;
use ferretto_wire::{Fields, encode};

/// Method ids of the consumer port.
const ENABLE_TRACING: u32 = 1;
const READ_BUFFERS: u32 = 3;
const FREE_BUFFERS: u32 = 4;

fn call(socket: &Socket, request: u64, method: u32, args: &[u8]) {
    let write = |out: &mut Vec<u8>| out.extend_from_slice(args);
    let frame = frame::invoke_method(request, 1, method, false, args.len(), write);
    assert!(send_raw(socket, &frame));
}

/// Enables a session with this request, reads its trace, and frees it. Returns the trace, or `None`
/// if the request was refused as malformed.
fn record(socket: &Socket, request: &[u8]) -> Option<Vec<u8>> {
    call(socket, 1, ENABLE_TRACING, request);
    call(socket, 2, READ_BUFFERS, &[]);
    call(socket, 3, FREE_BUFFERS, &[]);
    let (mut accepted, mut freed, mut ended) = (true, false, false);
    let mut trace = Vec::new();
    while !(freed && ended) {
        let payload = read_frame(socket).expect("the connection stays");
        let frame = Frame::decode(&payload).unwrap();
        let Message::InvokeMethodReply { success, reply, .. } = frame.message else {
            panic!("{frame:?}")
        };
        match frame.request_id {
            1 => (accepted, ended) = (success, true),
            2 => trace.extend_from_slice(reply),
            _ => freed = true,
        }
    }
    accepted.then_some(trace)
}

/// Returns a request with a buffer, a data source and a duration.
fn request(size: impl Fn(&mut Vec<u8>), name: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    size(&mut buffer);
    encode(|request| {
        request.nested(1, |config| {
            config.bytes(1, &buffer);
            config.nested(2, |source| source.bytes(1, name));
            config.raw(rest);
        });
    })
}

fn usual_size(buffer: &mut Vec<u8>) {
    buffer.extend(encode(|buffer| buffer.varint(1, 64)));
}

#[test]
fn config_009_a_wrong_wire_type_leaks_nothing() {
    let host = TestHost::start();
    let socket = host.consumer_socket();
    let name = encode(|config| config.string(1, "p"));
    let good = encode(|config| config.varint(3, 0));
    let echo = record(&socket, &request(usual_size, &name, &good)).unwrap();
    assert!(echo.windows(good.len()).any(|window| window == good));
    let odd_size = |buffer: &mut Vec<u8>| buffer.extend(encode(|b| b.string(1, "sixty-four")));
    let odd_name = encode(|config| config.varint(1, 0x7fff_dead_beef));
    let odd_duration = encode(|config| config.string(3, "for ever"));
    let odd_flag = encode(|config| config.bytes(4, &[1; 8]));
    for odd in [
        request(odd_size, &name, &good),
        request(usual_size, &odd_name, &good),
        request(usual_size, &name, &odd_duration),
        request(usual_size, &name, &odd_flag),
        encode(|request| request.varint(1, u64::MAX)),
    ] {
        // Either the request is refused, or the field counts as absent and is returned unchanged.
        let Some(trace) = record(&socket, &odd) else {
            continue;
        };
        let sent = Fields::find(1, &odd).and_then(|field| field.as_bytes());
        let sent = sent.expect("a config");
        assert!(trace.windows(sent.len()).any(|window| window == sent));
    }
    host.assert_alive();
}

#[test]
fn config_010_a_config_cut_short_is_refused_or_read_as_far_as_it_goes() {
    let host = TestHost::start();
    let socket = host.consumer_socket();
    let name = encode(|config| {
        config.string(1, "p");
        config.nested(100, |ftrace| ftrace.string(1, "sched/sched_switch"));
        config.nested(1001, |testing| testing.varint(3, 300));
    });
    let rest = encode(|config| {
        config.nested(20, |builtin| builtin.varint(6, 500));
        config.varint(3, 100_000);
    });
    let whole = request(usual_size, &name, &rest);
    assert!(record(&socket, &whole).is_some());
    for cut in 1..whole.len() {
        assert!(record(&socket, &whole[..cut]).is_none(), "cut at {cut}");
    }
    // Complete on the outside, truncated inside.
    let config = Fields::find(1, &whole).and_then(|field| field.as_bytes());
    let config = config.expect("a config");
    for cut in 1..config.len() {
        record(&socket, &encode(|request| request.bytes(1, &config[..cut])));
    }
    for cut in 1..name.len() {
        record(&socket, &request(usual_size, &name[..cut], &rest));
    }
    host.assert_alive();
}
