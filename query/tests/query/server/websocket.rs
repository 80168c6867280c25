//! The stream over WebSocket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ferretto_wire::{Fields, encode as message};

use super::{decode, server};
use crate::common::{TRACE, encode};

/// A WebSocket client.
struct Socket(TcpStream);

impl Socket {
    /// Sends a handshake, and returns the head of the reply.
    fn open(address: SocketAddr, headers: &str) -> (Self, String) {
        let mut client = TcpStream::connect(address).expect("connection");
        let head = format!("GET /websocket HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        client.write_all(head.as_bytes()).expect("head");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("head");
            answer.extend(byte);
        }
        (Self(client), String::from_utf8(answer).expect("text"))
    }

    /// Sends a frame. Its first byte is its kind, with a flag for the end of a message.
    fn send(&mut self, first: u8, payload: &[u8]) {
        let mask = [0x12, 0x34, 0x56, 0x78];
        let mut frame = vec![first];
        match u8::try_from(payload.len()) {
            Ok(length @ 0..126) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 127);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
        self.0.write_all(&frame).expect("a frame");
    }

    /// Returns the kind and the payload of the next frame.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let length = match head[1] {
            126 => {
                let mut bytes = [0; 2];
                self.0.read_exact(&mut bytes).expect("a length");
                u64::from(u16::from_be_bytes(bytes))
            }
            127 => {
                let mut bytes = [0; 8];
                self.0.read_exact(&mut bytes).expect("a length");
                u64::from_be_bytes(bytes)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.0.read_exact(&mut payload).expect("a payload");
        (head[0], payload)
    }
}

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const PAGE: &str = "Origin: https://ui.perfetto.dev\r\n";

#[test]
fn query_131_websocket_carries_the_stream_in_frames_of_any_size() {
    let address = server();
    let (_, refused) = Socket::open(address, UPGRADE);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let foreign = format!("{UPGRADE}Origin: https://example.org\r\n");
    let (_, refused) = Socket::open(address, &foreign);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let old = format!("{PAGE}{}", UPGRADE.replace("13", "8"));
    let (_, refused) = Socket::open(address, &old);
    assert!(refused.starts_with("HTTP/1.1 505 "), "{refused}");
    let short = format!("{PAGE}{}", UPGRADE.replace("ZQ==", ""));
    let (_, refused) = Socket::open(address, &short);
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");

    let (mut socket, head) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let accepted = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    assert!(head.contains(accepted), "{head}");
    // A trace, its end and a query, in fragments that do not end with the messages.
    let trace = encode(TRACE);
    let requests = message(|stream| {
        stream.nested(1, |m| {
            m.int(1, 1);
            m.varint(2, 1);
            m.bytes(101, &trace);
        });
        stream.nested(1, |m| {
            m.int(1, 2);
            m.varint(2, 2);
        });
        stream.nested(1, |m| {
            m.int(1, 3);
            m.varint(2, 3);
            m.nested(103, |query| query.string(1, "SELECT count(*) FROM slice"));
        });
    });
    let (first, rest) = requests.split_at(7);
    let (second, third) = rest.split_at(rest.len() / 2);
    socket.send(0x02, first);
    socket.send(0x89, b"still there?");
    socket.send(0x00, second);
    socket.send(0x80, third);
    assert_eq!(socket.receive(), (0x8a, b"still there?".to_vec()));
    let mut replies = Vec::new();
    while replies.len() < 3 {
        let (kind, payload) = socket.receive();
        assert_eq!(kind, 0x82);
        let fields = Fields::new(&payload).flatten();
        replies.extend(fields.map(|f| f.as_bytes().expect("a message").to_vec()));
    }
    let result = Fields::find(203, &replies[2]).and_then(|f| f.as_bytes());
    assert_eq!(decode(result.expect("a result")).cells, ["4"]);
    socket.send(0x88, &1000u16.to_be_bytes());
    assert_eq!(socket.receive(), (0x88, 1000u16.to_be_bytes().to_vec()));

    // Frames without a mask or with an enormous length close the connection.
    let (mut socket, _) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    socket.0.write_all(&[0x82, 0x01]).expect("a frame");
    assert_eq!(socket.receive(), (0x88, 1002u16.to_be_bytes().to_vec()));
    let (mut socket, _) = Socket::open(address, &format!("{PAGE}{UPGRADE}"));
    let endless = [&[0x82, 0xff][..], &u64::MAX.to_be_bytes()].concat();
    socket.0.write_all(&endless).expect("a frame");
    assert_eq!(socket.receive(), (0x88, 1009u16.to_be_bytes().to_vec()));
}
