//! A client of the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ferretto_wire::{Fields, encode as message};

pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

pub(super) fn post(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> Reply {
    request(
        address,
        &format!("POST {path} HTTP/1.1"),
        headers,
        body.len(),
        body,
    )
}

pub(super) fn request(
    address: SocketAddr,
    line: &str,
    headers: &str,
    length: usize,
    body: &[u8],
) -> Reply {
    try_request(address, line, headers, length, body).expect("a reply")
}

/// Sends a request. Returns `None` if the server closed the connection without a reply, as it does
/// if there are too many whose request has not arrived.
fn try_request(
    address: SocketAddr,
    line: &str,
    headers: &str,
    length: usize,
    body: &[u8],
) -> Option<Reply> {
    let mut client = TcpStream::connect(address).expect("connection");
    let head = format!(
        "{line}\r\nHost: {address}\r\n{headers}Connection: close\r\nContent-Length:{length}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).ok()?;
    // The server may refuse the request before it has read all of it.
    let _ = client.write_all(body);
    let mut bytes = Vec::new();
    let read = client.read_to_end(&mut bytes);
    if bytes.is_empty() {
        return None;
    }
    read.expect("the whole reply");
    let split = bytes
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("head")
        + 4;
    let head = String::from_utf8(bytes[..split].to_vec()).expect("text");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("status");
    let mut body = bytes[split..].to_vec();
    if head.contains("chunked") {
        body = unchunk(&body);
    }
    Some(Reply { status, head, body })
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("size");
        let size = std::str::from_utf8(&bytes[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("hexadecimal");
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
}

/// A decoded `QueryResult`. As in the Python package, all messages are decoded as one.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: Vec<String>,
    pub(super) error: Option<String>,
    pub(super) cells: Vec<String>,
    pub(super) batches: usize,
    pub(super) last: bool,
}

pub(super) fn decode(bytes: &[u8]) -> Table {
    let mut table = Table::default();
    for field in Fields::new(bytes).flatten() {
        match field.number {
            1 => table
                .names
                .push(field.as_str_lossy().expect("text").into_owned()),
            2 => table.error = field.as_str_lossy().map(|t| t.into_owned()),
            3 => {
                table.batches += 1;
                batch(field.as_bytes().expect("batch"), &mut table);
            }
            _ => {}
        }
    }
    table
}

fn batch(bytes: &[u8], table: &mut Table) {
    let (mut kinds, mut ints, mut reals, mut texts, mut blobs) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for field in Fields::new(bytes).flatten() {
        match field.number {
            1 => kinds = field.as_bytes().expect("bytes").to_vec(),
            2 => {
                let mut rest = field.as_bytes().expect("bytes");
                while let Some((value, size)) = ferretto_wire::decode_varint(rest) {
                    ints.push(value.cast_signed());
                    rest = &rest[size..];
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            3 => {
                let bytes = field.as_bytes().expect("bytes");
                reals.extend(
                    bytes
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|b| f64::from_le_bytes(*b)),
                );
            }
            4 => blobs.push(field.as_bytes().expect("bytes").len()),
            5 => {
                let all = field.as_str_lossy().expect("text").into_owned();
                texts = all.split_terminator('\0').map(str::to_owned).collect();
            }
            6 => table.last = true,
            _ => {}
        }
    }
    assert_eq!(kinds.len() % table.names.len().max(1), 0, "whole rows");
    let (mut i, mut r, mut t, mut b) = (
        ints.into_iter(),
        reals.into_iter(),
        texts.into_iter(),
        blobs.into_iter(),
    );
    for kind in kinds {
        table.cells.push(match kind {
            1 => "NULL".to_owned(),
            2 => i.next().expect("integer").to_string(),
            3 => format!("{:e}", r.next().expect("real")),
            4 => t.next().expect("text"),
            _ => format!("blob of {}", b.next().expect("blob")),
        });
    }
}

pub(super) fn query(address: SocketAddr, sql: &str) -> Table {
    try_query(address, sql).expect("a reply")
}

/// Returns the result of a query; `None` if the server closed the connection without a reply.
pub(super) fn try_query(address: SocketAddr, sql: &str) -> Option<Table> {
    let arguments = message(|m| m.string(1, sql));
    let line = "POST /query HTTP/1.1";
    let answer = try_request(address, line, "", arguments.len(), &arguments)?;
    assert_eq!(answer.status, 200);
    Some(decode(&answer.body))
}

pub(super) fn text(bytes: &[u8], field: u32) -> Option<String> {
    Fields::find(field, bytes)?
        .as_str_lossy()
        .map(|t| t.into_owned())
}

pub(super) fn number(bytes: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, bytes)?.as_u64()
}
