//! Requests over HTTP.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use ferretto_wire::encode as message;

use super::{number, post, query, request, server, server_with_patience, text};
use crate::common::{TRACE, encode};

#[test]
fn query_126_the_status_names_the_trace() {
    let address = server();
    let status = post(address, "/status", "", b"").body;
    assert_eq!((number(&status, 3), text(&status, 1)), (Some(14), None));
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    let status = post(address, "/status", "", b"").body;
    assert!(text(&status, 1).expect("name").contains("MB)"));
}

#[test]
fn query_127_only_known_origins_may_send_queries() {
    let address = server();
    let foreign = post(address, "/status", "Origin: https://example.com\r\n", b"");
    assert_eq!(foreign.status, 403);
    let known = post(
        address,
        "/status",
        "Origin: https://ui.perfetto.dev\r\n",
        b"",
    );
    assert_eq!(known.status, 200);
    assert!(
        known
            .head
            .contains("Access-Control-Allow-Origin: https://ui.perfetto.dev")
    );
    assert!(known.head.contains("Vary: Origin"));
    let options = request(
        address,
        "OPTIONS /query HTTP/1.1",
        "origin:   http://localhost:10000\r\n",
        0,
        b"",
    );
    assert_eq!(options.status, 204);
    for header in [
        "Allow-Methods",
        "Allow-Headers",
        "Max-Age",
        "Allow-Private-Network",
    ] {
        assert!(
            options.head.contains(&format!("Access-Control-{header}")),
            "{header}"
        );
    }
    assert_eq!(post(address, "/nothing", "", b"").status, 404);
    assert_eq!(request(address, "nonsense", "", 0, b"").status, 400);
}

#[test]
fn query_128_results_end_with_one_last_batch() {
    let address = server();
    let one = query(address, "SELECT 1 AS a, 'x' AS b");
    assert_eq!(
        (one.names, one.cells, one.last),
        (
            vec!["a".into(), "b".into()],
            vec!["1".into(), "x".into()],
            true
        )
    );
    let none = query(address, "SELECT 1 AS a WHERE 0");
    assert_eq!(
        (none.names.len(), none.cells.len(), none.last),
        (1, 0, true)
    );
    let wrong = query(address, "SELECT nonsense FROM slice");
    assert!(wrong.last && wrong.error.expect("error").contains("nonsense"));
    assert!(
        query(address, "")
            .error
            .expect("error")
            .contains("No valid SQL")
    );
}

#[test]
fn query_129_values_of_all_types_are_returned_in_order() {
    let address = server();
    let table = query(
        address,
        "SELECT 'été' AS a, -1 AS b, 1e300 AS c, zeroblob(0) AS d, NULL AS e \
         UNION ALL SELECT '', 9223372036854775807, -0.5, zeroblob(3), NULL",
    );
    let mut cells = table.cells.clone();
    if cells[0].is_empty() {
        cells.rotate_left(5);
    }
    assert_eq!(
        cells,
        [
            "été",
            "-1",
            "1e300",
            "blob of 0",
            "NULL",
            "",
            "9223372036854775807",
            "-5e-1",
            "blob of 3",
            "NULL"
        ]
    );
    let many = query(
        address,
        "WITH n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 450) \
         SELECT a.x FROM n a, n b",
    );
    assert_eq!(many.cells.len(), 202_500);
    assert!(many.batches >= 4 && many.last, "{} batches", many.batches);
}

#[test]
fn requests_are_refused_in_their_reply_while_another_one_does_not_end() {
    const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                           SELECT max(x) FROM n";
    let address = server_with_patience(Duration::from_millis(50));
    let body = message(|m| m.string(1, ENDLESS));
    let mut endless = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    endless.write_all(head.as_bytes()).expect("written");
    endless.write_all(&body).expect("written");
    let refused = loop {
        let table = query(address, "SELECT 1 AS a");
        // The endless one may not have begun.
        if let Some(error) = table.error {
            break error;
        }
        assert_eq!(table.cells, ["1"]);
    };
    assert!(
        refused.contains("Another request has been running"),
        "{refused}"
    );
    assert_eq!(post(address, "/notify_eof", "", b"").status, 503);
    let parsed = post(address, "/parse", "", b"x").body;
    assert!(
        text(&parsed, 2)
            .expect("an error")
            .contains("Another request")
    );
    // The status needs no turn.
    assert_eq!(number(&post(address, "/status", "", b"").body, 3), Some(14));
    // It ends with its client.
    drop(endless);
    while query(address, "SELECT 1 AS a").error.is_some() {}
}

#[test]
fn query_130_large_bodies_are_refused() {
    let address = server();
    let line = "POST /parse HTTP/1.1";
    assert_eq!(request(address, line, "", (64 << 20) + 1, b"").status, 413);
}
