//! Requests to the server of the viewer.

use std::sync::LazyLock;

use ferretto_http::Head;
use ferretto_tables::{Options, Trace};
use ferretto_view::View;

/// A trace with slices within each other, of two threads, an instant, a counter and a flow.
const TRACE: &[u8] = br#"[
    {"ph":"M","pid":1,"name":"process_name","args":{"name":"server"}},
    {"ph":"X","pid":1,"tid":1,"name":"request","ts":1,"dur":9,"args":{"status":200,"url":"/a"}},
    {"ph":"X","pid":1,"tid":1,"name":"query","ts":2,"dur":3,"bind_id":"1","flow_out":true},
    {"ph":"X","pid":1,"tid":2,"name":"scan","ts":3,"dur":1,"bind_id":"1","flow_in":true},
    {"ph":"i","pid":1,"tid":2,"name":"done","ts":8,"s":"t"},
    {"ph":"C","pid":1,"name":"queue","ts":4,"args":{"value":1}},
    {"ph":"C","pid":1,"name":"queue","ts":6,"args":{"value":-3}}
]"#;

static VIEW: LazyLock<View> = LazyLock::new(|| {
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let trace = Trace::read(TRACE, &options).expect("a trace");
    View::new(trace, "trace", 1)
});

/// A request as it comes from the network, with its body.
pub fn view_requests(data: &[u8]) {
    let end = data.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = data.split_at(end.map_or(data.len(), |end| end + 4));
    let Some(head) = Head::parse(head) else {
        return;
    };
    assert!(head.path.starts_with('/'), "{}", head.path);
    assert!(!head.path.contains(['?', ' ', '\r', '\n']), "{}", head.path);
    assert!(head.host.is_some() || !head.is_for(1));
    let name = head.path.rsplit('/').next().unwrap_or_default();
    let answer = VIEW.answer(name, &head, body);
    match answer.status {
        "200 OK" if answer.kind == "application/octet-stream" => {
            // A frame: the length of its header, the header, columns.
            let (length, rest) = answer.body.split_first_chunk().expect("a length");
            let header = &rest[..u32::from_le_bytes(*length) as usize];
            assert!(header.starts_with(b"{") && header.trim_ascii_end().ends_with(b"}"));
        }
        "200 OK" => assert!(!answer.body.is_empty()),
        // A sentence says why.
        "400 Bad Request" | "404 Not Found" => assert!(answer.body.ends_with(b".")),
        other => panic!("{other}"),
    }
}
