//! The server with a toolbox of its own.

use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::{fs, process};

use ferretto_mcp::{Answer, Call, Resource, Root, Tool, Toolbox, serve};
use serde_json::{Map, Value, json};

/// A toolbox with one tool, which answers with its arguments.
struct Echo;

impl Toolbox for Echo {
    fn instructions(&self) -> String {
        "Echoes.".to_owned()
    }

    fn tools(&self) -> Vec<Tool> {
        vec![Tool {
            name: "echo",
            title: "Echo",
            description: "Answers with its arguments.".to_owned(),
            properties: json!({ "text": { "type": "string" }, "count": { "type": "integer" } }),
            required: &["text"],
            is_read_only: true,
        }]
    }

    fn call(
        &mut self,
        _: &str,
        arguments: &Map<String, Value>,
        call: &Call,
    ) -> Result<Answer, String> {
        let text = arguments["text"].as_str().unwrap_or_default();
        for step in ["read", "think"] {
            for done in [0, 1, 1, 250, 500, 1000] {
                call.progress(done, 1000, step);
            }
        }
        if text == "fail" {
            return Err("\u{1b}[31mfailed\"}".to_owned());
        }
        let count = arguments.get("count").and_then(Value::as_u64).unwrap_or(1);
        Ok(Answer::new(
            json!({ "head": text }),
            (0..count).map(|at| json!([at, text])).collect(),
        ))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource {
            uri: "echo://one".to_owned(),
            name: "one".to_owned(),
            description: "One.".to_owned(),
            mime: "text/plain",
        }]
    }

    fn read(&mut self, uri: &str) -> Option<Result<String, String>> {
        (uri == "echo://one").then(|| Ok("1".to_owned()))
    }
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the responses to lines.
fn responses(lines: &[&str]) -> Vec<Value> {
    let output = Output::default();
    let input = io::Cursor::new(lines.join("\n").into_bytes());
    serve(&mut Echo, input, output.clone()).unwrap();
    let text = output.0.lock().unwrap().clone();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn request(id: u32, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn result(method: &str, params: Value) -> Value {
    let all = responses(&[&request(1, method, params)]);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["id"], 1);
    all[0].clone()
}

fn call(arguments: Value) -> Value {
    let result = result(
        "tools/call",
        json!({ "name": "echo", "arguments": arguments }),
    );
    let content = &result["result"]["content"][0];
    let text = content["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn each_version_of_the_protocol_is_answered_in_its_own() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let all = result("initialize", json!({ "protocolVersion": version }));
        assert_eq!(all["result"]["protocolVersion"], version);
        assert_eq!(all["result"]["serverInfo"]["name"], "ferretto");
    }
    let unknown = result("initialize", json!({ "protocolVersion": "1999-01-01" }));
    assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
    let meta = |version| json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": version } });
    let discovered = result("server/discover", meta("2026-07-28"));
    let result_of = &discovered["result"];
    let versions = result_of["supportedVersions"].as_array().expect("a list");
    assert!(versions.contains(&"2026-07-28".into()), "{versions:?}");
    assert_eq!(result_of["resultType"], "complete");
    assert_eq!(
        result("tools/list", meta("2026-07-28"))["result"]["cacheScope"],
        "private"
    );
    let refused = result("tools/list", meta("2099-01-01"));
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["requested"], "2099-01-01");
}

#[test]
fn tools_and_resources_are_listed_called_and_read() {
    let tools = result("tools/list", json!({}));
    let tool = &tools["result"]["tools"][0];
    assert_eq!(tool["name"], "echo");
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    assert_eq!(call(json!({ "text": "a" }))["head"], "a");
    let listed = result("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "echo://one");
    let read = result("resources/read", json!({ "uri": "echo://one" }));
    assert_eq!(read["result"]["contents"][0]["text"], "1");
    let unknown = result("resources/read", json!({ "uri": "echo://two" }));
    assert_eq!(unknown["error"]["code"], -32002);
}

#[test]
fn wrong_arguments_are_named() {
    for (arguments, expected) in [
        (json!({}), "echo needs the argument text"),
        (
            json!({ "text": 5 }),
            "the argument text must be of the type string",
        ),
        (
            json!({ "text": "a", "cuont": 5 }),
            "echo has no argument cuont; it has count",
        ),
        (
            json!({ "text": "a", "max_bytes": 5 }),
            "max_bytes must be from 1024",
        ),
        (
            json!({ "text": "a", "cursor": "x" }),
            "the cursor is not one of an answer",
        ),
        (
            json!({ "text": "a", "cursor": "9" }),
            "the cursor is not one of this answer",
        ),
    ] {
        let answer = call(arguments);
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn answers_are_continued_by_cursors() {
    let text = "x".repeat(100);
    let mut seen = 0;
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({ "text": text, "count": 300 });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = call(arguments);
        for item in page["items"].as_array().expect("a list") {
            assert_eq!(item[0], seen);
            seen += 1;
        }
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, 300);
}

#[test]
fn hostile_names_stay_in_their_strings() {
    for text in [
        "\"}],\"next_cursor\":null}",
        "\u{1b}[2J\u{9b}31m",
        "\u{202e}\u{2028}\n",
        "\0",
    ] {
        let answer = call(json!({ "text": text }));
        assert_eq!(answer["head"], *text);
        assert_eq!(answer["items"], json!([[0, text]]));
    }
    let failed = call(json!({ "text": "fail" }));
    assert_eq!(failed["error"], "\u{1b}[31mfailed\"}");
}

#[test]
fn wrong_messages_get_errors_and_the_next_one_its_answer() {
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(2 << 20));
    let deep = "[".repeat(100_000);
    let ping = request(7, "ping", json!({}));
    let all = responses(&["nonsense", "", "5", &long, &deep, "[]", &ping]);
    let codes: Vec<i64> = all
        .iter()
        .filter_map(|it| it["error"]["code"].as_i64())
        .collect();
    assert_eq!(codes, [-32700, -32600, -32600, -32700, -32600]);
    assert_eq!(all.last().expect("a response")["id"], 7);
    assert_eq!(result("nothing", json!({}))["error"]["code"], -32601);
    let no_tool = result("tools/call", json!({ "name": "nothing" }));
    assert_eq!(no_tool["error"]["code"], -32602);
    // Notifications get no response.
    assert!(responses(&[r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]).is_empty());
    let batch = format!("[{ping},{}]", request(8, "tools/list", json!({})));
    let batch = responses(&[&batch]);
    assert_eq!(batch[0].as_array().expect("a list").len(), 2);
}

#[test]
fn many_requests_are_answered_in_order() {
    let lines: Vec<String> = (0..300)
        .map(|id| {
            request(
                id,
                "tools/call",
                json!({ "name": "echo", "arguments": { "text": "a" } }),
            )
        })
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let ids: Vec<_> = responses(&lines)
        .iter()
        .map(|response| response["id"].as_u64().expect("a number"))
        .collect();
    assert_eq!(ids, (0..300).collect::<Vec<u64>>());
    let batch = format!("[{}]", lines.join(","));
    assert_eq!(responses(&[&batch])[0].as_array().map(Vec::len), Some(300));
}

#[test]
fn too_many_requests_in_a_line_each_get_an_error() {
    let one = request(1, "tools/list", json!({}));
    let batch = format!("[{}]", vec![one; 2000].join(","));
    let all = responses(&[&batch]);
    let all = all[0].as_array().expect("a list");
    assert_eq!(all.len(), 2000);
    assert!(
        all.iter()
            .all(|response| response["error"]["code"] == -32000)
    );
}

#[test]
fn ids_that_cannot_be_repeated_are_refused() {
    let line = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
    for id in [
        "18446744073709551615",
        "-9223372036854775808",
        "\"\"",
        "\"a\\u0000\"",
        "1.5",
    ] {
        let all = responses(&[&line(id)]);
        assert_eq!(all[0]["id"], serde_json::from_str::<Value>(id).unwrap());
        assert!(all[0]["result"].is_object(), "{all:?}");
    }
    for id in ["123456789012345678901234567890", "{}", "[1]", "true"] {
        let all = responses(&[&line(id)]);
        assert_eq!(all[0]["id"], Value::Null);
        assert_eq!(all[0]["error"]["code"], -32600, "{all:?}");
    }
    let all = responses(&[r#"["text",{"jsonrpc":"2.0","id":1,"method":"ping"}]"#]);
    assert_eq!(all[0].as_array().map(Vec::len), Some(2));
}

#[test]
fn progress_grows_and_is_told_to_clients_that_ask() {
    let params = |token: Value| {
        json!({
            "name": "echo",
            "arguments": { "text": "a" },
            "_meta": { "progressToken": token },
        })
    };
    for token in [json!("t"), json!(7)] {
        let all = responses(&[&request(1, "tools/call", params(token.clone()))]);
        let (response, told) = all.split_last().expect("a response");
        assert_eq!(response["id"], 1);
        let numbers: Vec<_> = told
            .iter()
            .map(|it| it["params"]["progress"].as_u64().expect("a number"))
            .collect();
        assert_eq!(numbers, [0, 25, 50, 99, 100, 125, 150, 199]);
        assert!(
            told.iter()
                .all(|it| it["method"] == "notifications/progress"
                    && it["params"]["progressToken"] == token
                    && it.get("id").is_none())
        );
        assert_eq!(told[0]["params"]["message"], "read");
        assert_eq!(told[7]["params"]["message"], "think");
    }
    let silent = responses(&[&request(1, "tools/call", params(json!({})))]);
    assert_eq!(silent.len(), 1);
}

#[test]
fn errors_have_a_limited_size() {
    let long = "\u{1b}".repeat(100_000);
    let failed = result(
        "tools/call",
        json!({ "name": "echo", "arguments": { "text": "a", &long: 1 } }),
    );
    assert!(failed.to_string().len() < 9000);
    assert!(result(&long, json!({})).to_string().len() < 9000);
}

#[test]
fn files_are_opened_below_the_root_only() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir_all(inside.join("deeper")).unwrap();
    fs::write(inside.join("deeper/file"), "in").unwrap();
    fs::write(folder.path().join("secret"), "out").unwrap();
    symlink("../secret", inside.join("link")).unwrap();
    symlink("/etc", inside.join("etc")).unwrap();
    symlink("deeper/file", inside.join("good")).unwrap();
    symlink(
        format!("/proc/{}/root/etc", process::id()),
        inside.join("magic"),
    )
    .unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        inside.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let root = Root::open(&inside).unwrap();
    let absolute = root.path().join("deeper/file");
    for name in [
        "deeper/file",
        "./deeper/file",
        "good",
        absolute.to_str().unwrap(),
    ] {
        root.file(name).unwrap_or_else(|error| panic!("{error}"));
    }
    let outside = folder.path().join("secret");
    let names = [
        "../secret",
        "link",
        "etc/passwd",
        "magic/passwd",
        "/etc/passwd",
        "deeper/../../secret",
    ];
    for name in names.into_iter().chain([outside.to_str().unwrap()]) {
        let error = root.file(name).expect_err(name);
        assert!(error.contains(" is not below "), "{error}");
    }
    for name in ["", ".", "deeper", "pipe", "nothing"] {
        root.file(name).expect_err(name);
    }
    let new_file = root.new_file("deeper/new").unwrap();
    fs::write(new_file.path(), "new").unwrap();
    assert!(Path::new(&inside.join("deeper/new")).exists());
    for name in [
        "../new",
        "link",
        "etc/new",
        "/tmp/new",
        "deeper",
        "pipe",
        "nothing/new",
    ] {
        root.new_file(name).expect_err(name);
    }
}
