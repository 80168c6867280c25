//! The requests of `/rpc`.

use std::net::SocketAddr;

use ferretto_wire::{Fields, encode as message};

use super::{number, post, query, server, text};
use crate::common::{TRACE, encode};

/// Sends requests to `/rpc` and returns the messages of the reply.
fn rpc(address: SocketAddr, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let body = message(|stream| {
        for request in requests {
            stream.bytes(1, request);
        }
    });
    let answer = post(address, "/rpc", "", &body);
    Fields::new(&answer.body)
        .flatten()
        .map(|f| f.as_bytes().expect("message").to_vec())
        .collect()
}

#[test]
fn query_132_gaps_in_the_numbers_of_requests_are_fatal() {
    let address = server();
    let request = |number: i64| {
        message(|m| {
            m.int(1, number);
            m.varint(2, 10);
        })
    };
    assert_eq!(rpc(address, &[request(1), request(2)]).len(), 2);
    let replies = rpc(address, &[request(1), request(3), request(4)]);
    assert_eq!(replies.len(), 2);
    assert!(
        text(&replies[1], 5)
            .expect("error")
            .contains("(ERR:rpc_seq)")
    );
    assert_eq!(rpc(address, &[request(5), request(0), request(1)]).len(), 3);
}

#[test]
fn query_133_unknown_methods_and_missing_arguments_have_replies() {
    let address = server();
    let request = |method: u64| message(|m| m.varint(2, method));
    let replies = rpc(address, &[request(99), request(1)]);
    assert_eq!(number(&replies[0], 4), Some(99));
    let result = Fields::find(201, &replies[1])
        .and_then(|f| f.as_bytes())
        .expect("result");
    assert!(text(result, 2).expect("error").contains("missing"));
}

#[test]
fn query_134_another_trace_replaces_the_first_and_restoring_keeps_the_trace() {
    let address = server();
    let count = |address| query(address, "SELECT count(*) FROM slice").cells;
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    assert_eq!(count(address), ["4"]);
    query(address, "CREATE PERFETTO TABLE mine AS SELECT 1 AS a");
    assert_eq!(query(address, "SELECT a FROM mine").cells, ["1"]);
    post(address, "/restore_initial_tables", "", b"");
    assert!(query(address, "SELECT a FROM mine").error.is_some());
    assert_eq!(count(address), ["4"]);
    post(address, "/parse", "", b"");
    post(address, "/notify_eof", "", b"");
    assert_eq!(count(address), ["0"]);
}

#[test]
fn query_135_packages_of_modules_are_registered() {
    let address = server();
    let register = |replace: bool| {
        message(|m| {
            m.varint(2, 13);
            m.nested(108, |args| {
                args.string(1, "mine");
                args.nested(2, |module| {
                    module.string(1, "mine.a");
                    module.string(2, "CREATE PERFETTO TABLE from_module AS SELECT 5 AS x");
                });
                args.bool(3, replace);
            });
        })
    };
    let error = |reply: &[u8]| {
        Fields::find(211, reply)
            .and_then(|f| f.as_bytes())
            .and_then(|b| text(b, 1))
    };
    assert_eq!(error(&rpc(address, &[register(false)])[0]), None);
    let table = query(
        address,
        "INCLUDE PERFETTO MODULE mine.a; SELECT x FROM from_module",
    );
    assert_eq!(table.cells, ["5"]);
    assert!(error(&rpc(address, &[register(false)])[0]).is_some());
    assert_eq!(error(&rpc(address, &[register(true)])[0]), None);
}

#[test]
fn requests_that_are_not_supported_have_an_error_in_their_own_reply() {
    let address = server();
    for (method, field, error) in [
        (5, 205, 2),
        (9, 209, 2),
        (15, 214, 3),
        (16, 215, 2),
        (17, 216, 2),
        (18, 217, 6),
        (19, 218, 1),
        (21, 220, 2),
    ] {
        let request = message(|m| m.varint(2, method));
        let replies = rpc(address, &[request]);
        let result = Fields::find(field, &replies[0]).and_then(|f| f.as_bytes());
        let text = text(result.expect("a result"), error).expect("an error");
        assert!(text.contains("is not supported"), "{text}");
    }
}
