//! The requests of `/rpc`.

use std::net::SocketAddr;

use ferretto_wire::{Fields, encode as message};

use super::{decode, number, post, query, server, text};
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

/// Returns the fields of a reply without its number.
fn fields(reply: &[u8]) -> Vec<u32> {
    let fields = Fields::new(reply).map(|field| field.expect("a reply").number);
    fields.filter(|number| *number != 1).collect()
}

#[test]
fn each_request_has_a_reply_of_its_kind() {
    let address = server();
    let own = [
        (1, 201),
        (2, 212),
        (3, 203),
        (5, 205),
        (6, 206),
        (9, 209),
        (10, 210),
        (13, 211),
        (15, 214),
        (16, 215),
        (17, 216),
        (18, 217),
        (19, 218),
        (20, 219),
        (21, 220),
    ];
    let random = (0..20).map(|at: u64| (at * 2_654_435_761) % 100_000 + 41);
    for method in (0..=40).chain(random).chain([u64::MAX]) {
        let replies = rpc(address, &[message(|m| m.varint(2, method))]);
        let expected = match own.iter().find(|(own, _)| *own == method) {
            Some((_, field)) => vec![3, *field],
            None if [7, 8, 11].contains(&method) => vec![3],
            None => vec![4],
        };
        assert_eq!(replies.len(), 1, "of method {method}");
        assert_eq!(fields(&replies[0]), expected, "of method {method}");
    }
    // A message without a method, and one that is malformed.
    for request in [&b""[..], b"\xff\xff"] {
        let replies = rpc(address, &[request.to_vec()]);
        assert_eq!(fields(&replies[0]), [4]);
    }
}

#[test]
fn requests_that_are_not_supported_have_an_error_in_their_own_reply() {
    let address = server();
    let request = message(|m| {
        m.varint(2, 5);
        m.nested(105, |arguments| arguments.string(1, "android_mem"));
    });
    let replies = rpc(address, &[request]);
    let result = Fields::find(205, &replies[0]).and_then(|f| f.as_bytes());
    let text = text(result.expect("a result"), 2).expect("an error");
    assert!(text.contains("is not supported"), "{text}");
}

/// Sends a request, and returns the content of its reply.
fn call(address: SocketAddr, method: u64, arguments: (u32, Vec<u8>), reply: u32) -> Vec<u8> {
    let request = message(|m| {
        m.varint(2, method);
        m.bytes(arguments.0, &arguments.1);
    });
    let replies = rpc(address, &[request]);
    let result = Fields::find(reply, &replies[0]).and_then(|f| f.as_bytes());
    result.expect("a result").to_vec()
}

#[test]
fn statements_are_run_one_at_a_time() {
    let address = server();
    let sql =
        "CREATE TABLE one AS SELECT 1 AS x; -- made\n SELECT x FROM one; ;SELECT nothing; -- end";
    let mut offset = 0;
    let mut results = Vec::new();
    loop {
        let arguments = message(|m| {
            m.string(1, sql);
            m.varint(2, offset);
        });
        let reply = call(address, 20, (115, arguments), 219);
        let result = Fields::find(1, &reply).and_then(|f| f.as_bytes());
        let table = decode(result.expect("a result"));
        assert!(table.last);
        offset = number(&reply, 2).expect("the offset of the next statement");
        if number(&reply, 3) != Some(1) {
            break;
        }
        results.push((table.names, table.cells, table.error.is_some()));
    }
    let empty = Vec::<String>::new;
    let expected = [
        (empty(), empty(), false),
        (vec!["x".to_owned()], vec!["1".to_owned()], false),
        (empty(), empty(), true),
    ];
    assert_eq!(results, expected);
    assert_eq!(offset, sql.len() as u64);
    for (sql, offset, reason) in [("SELECT 1", 9, "offset"), ("SELECT '", 0, "quote")] {
        let arguments = message(|m| {
            m.string(1, sql);
            m.varint(2, offset);
        });
        let reply = call(address, 20, (115, arguments), 219);
        let result = Fields::find(1, &reply).and_then(|f| f.as_bytes());
        let error = decode(result.expect("a result")).error.expect("an error");
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn summaries_and_summarizers_are_served() {
    let address = server();
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    let spec = "query { id: 'long' table { table_name: 'slice' }
                  filters { column_name: 'dur' op: GREATER_THAN int64_rhs: 35 } }
                metric_spec { id: 'n' value: 'n' query { inner_query_id: 'long' group_by {
                  aggregates { op: COUNT result_column_name: 'n' } } } }";
    let arguments = |format: u64| {
        message(|m| {
            m.string(2, spec);
            m.nested(3, |computation| computation.bool(3, true));
            m.varint(4, format);
        })
    };
    let reply = call(address, 15, (110, arguments(1)), 214);
    let summary = text(&reply, 2).expect("a summary");
    assert!(summary.contains("double_value: 2"), "{summary}");
    let reply = call(address, 15, (110, arguments(0)), 214);
    assert!(Fields::find(1, &reply).is_some());
    let reply = call(
        address,
        15,
        (110, message(|m| m.string(2, "nonsense"))),
        214,
    );
    assert!(text(&reply, 3).is_some_and(|error| error.contains("nonsense")));

    let id = |m: &mut ferretto_wire::Encoder<'_, Vec<u8>>| m.string(1, "mine");
    let create = || call(address, 16, (111, message(id)), 215);
    assert_eq!(text(&create(), 1).as_deref(), Some("mine"));
    assert!(text(&create(), 2).is_some(), "it exists");
    let spec = ferretto_query::summary::parse_spec("spec", spec.as_bytes()).expect("a spec");
    let update = message(|m| {
        id(m);
        m.bytes(2, &spec);
    });
    let update = || call(address, 17, (112, update.clone()), 216);
    let state = update();
    let state = Fields::find(1, &state)
        .and_then(|f| f.as_bytes())
        .expect("a query")
        .to_vec();
    assert_eq!(
        (text(&state, 1).as_deref(), number(&state, 3)),
        (Some("long"), Some(1))
    );
    let ask = |name: &str| {
        let arguments = message(|m| {
            id(m);
            m.string(2, name);
        });
        call(address, 18, (113, arguments), 217)
    };
    let table = ask("long");
    assert_eq!((number(&table, 1), number(&table, 3)), (Some(1), Some(2)));
    let name = text(&table, 2).expect("a table");
    let rows = query(address, &format!("SELECT name FROM {name}"));
    assert_eq!(rows.cells, ["outer", "inner"]);
    assert_eq!(number(&ask("other"), 1), Some(0));
    // A restored session has no tables, so the query is computed again.
    rpc(address, &[message(|m| m.varint(2, 7))]);
    let again = text(&ask("long"), 2).expect("a table");
    assert_eq!(
        query(address, &format!("SELECT name FROM {again}"))
            .cells
            .len(),
        2
    );
    let destroy = || call(address, 19, (114, message(id)), 218);
    assert!(destroy().is_empty());
    assert!(text(&destroy(), 1).is_some(), "it is gone");
    assert!(
        query(address, &format!("SELECT name FROM {again}"))
            .error
            .is_some()
    );
}

#[test]
fn a_metatrace_has_the_queries() {
    let address = server();
    rpc(address, &[message(|m| m.varint(2, 8))]);
    query(address, "SELECT 42 AS answer");
    let reply = call(address, 9, (0x100, Vec::new()), 209);
    let trace = Fields::find(1, &reply)
        .and_then(|f| f.as_bytes())
        .expect("a trace");
    let text = String::from_utf8_lossy(trace).into_owned();
    assert!(text.contains("SELECT 42 AS answer"), "{text}");
    assert!(
        call(address, 9, (0x100, Vec::new()), 209).starts_with(&[0x12]),
        "an error"
    );
}

#[test]
fn query_136_exports_are_served_in_parts() {
    let address = server();
    post(address, "/parse", "", &encode(TRACE));
    post(address, "/notify_eof", "", b"");
    let arguments = |format: u64| message(|m| m.varint(1, format));
    let whole = post(address, "/export", "", &arguments(2));
    assert_eq!(whole.status, 200);
    let parts = rpc(
        address,
        &[message(|m| {
            m.varint(2, 21);
            m.bytes(116, &arguments(2));
        })],
    );
    let (mut body, mut more) = (Vec::new(), Vec::new());
    for part in &parts {
        let result = Fields::find(220, part)
            .and_then(|f| f.as_bytes())
            .expect("a result");
        let data = Fields::find(1, result).and_then(|f| f.as_bytes());
        body.extend_from_slice(data.unwrap_or_default());
        more.push(number(result, 3) == Some(1));
    }
    assert!(body == whole.body, "both are the same archive");
    assert_eq!(more.pop(), Some(false));
    assert!(more.iter().all(|more| *more));
    let database = post(address, "/export", "", &arguments(3));
    assert!(database.body.starts_with(b"SQLite format 3\0"));
    for wrong in [0, 1, 9] {
        assert_eq!(post(address, "/export", "", &arguments(wrong)).status, 400);
    }
    assert_eq!(post(address, "/export", "", b"").status, 400);
}
