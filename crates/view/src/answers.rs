//! The requests of the page, and the replies.

use ferretto_http::{Head, Response};
use serde_json::{Value, json};

use crate::code::FunctionRequest;
use crate::facts::Circumstances;
use crate::kept::Kept;
use crate::locate::Target;
use crate::pivot::{PivotOf, PivotRequest};
use crate::profile::{By, ProfileRequest};
use crate::relations::Step;
use crate::replies::{bad, json_reply, not_found};
use crate::search::SearchIn;
use crate::view::View;
use crate::window::Window;

/// The most nodes of a request for tiles.
const MAX_NODES: usize = 4096;
/// The default limit of rows of a list or a search.
const LIMIT: usize = 1000;

/// The traces that requests are about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traces<'a> {
    pub(crate) view: &'a View,
    pub(crate) before: Option<&'a View>,
    pub(crate) live: bool,
    pub(crate) generation: u64,
    /// True if there is a program that runs SQL.
    pub(crate) has_sql: bool,
    pub(crate) kept: Option<&'a Kept>,
}

/// The fields of the body of a request.
struct Fields(Value);

impl Fields {
    fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64().filter(|value| value.is_finite())
    }

    fn count(&self, name: &str) -> Option<usize> {
        usize::try_from(self.0.get(name)?.as_u64()?).ok()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Returns a list of numbers; `None` if it is missing or malformed.
    fn numbers(&self, name: &str) -> Option<Vec<u32>> {
        let numbers = self.0.get(name)?.as_array()?.iter();
        let numbers = numbers.map(|number| number.as_u64()?.try_into().ok());
        numbers.collect()
    }

    /// Returns the list of nodes; `None` for all nodes, and an error if it is malformed.
    fn nodes(&self) -> Result<Option<Vec<u32>>, ()> {
        match self.0.get("nodes") {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.numbers("nodes").map(Some).ok_or(()),
        }
    }
}

impl View {
    /// Answers the request for `name`, the part of the path after the token. `PROTOCOL.md` lists
    /// the names.
    pub fn answer(&self, name: &str, head: &Head, body: &[u8]) -> Response {
        let traces = Traces {
            view: self,
            before: None,
            live: false,
            generation: 0,
            has_sql: false,
            kept: None,
        };
        traces.answer(name, head, body)
    }
}

impl Traces<'_> {
    /// Answers the request for `name`, the part of the path after the token.
    pub(crate) fn answer(self, name: &str, head: &Head, body: &[u8]) -> Response {
        if head.value("of").as_deref() == Some("before") {
            let Some(view) = self.before else {
                return not_found();
            };
            let before = Self {
                view,
                before: None,
                live: false,
                ..self
            };
            return before.about(name, head, body);
        }
        self.about(name, head, body)
    }

    /// Answers a request about `view`.
    fn about(self, name: &str, head: &Head, body: &[u8]) -> Response {
        match (head.method.as_str(), name) {
            ("GET", "") => Response::new(
                "text/html; charset=utf-8",
                self.view.page(self.circumstances(), self.kept),
            ),
            ("GET", "trace") => Response::bytes(self.view.index(self.circumstances())),
            ("GET", "details") => {
                let details = of_row(head).and_then(|(node, id)| self.view.details(node, id));
                details.map_or_else(not_found, |details| json_reply(&details))
            }
            ("GET", "why") => {
                let why = of_row(head).and_then(|(node, id)| self.view.why(node, id));
                json_reply(&json!(why))
            }
            ("GET", "locate") => {
                let Some(target) = Target::of(head) else {
                    return bad("'ts' is a time of the trace's clock.");
                };
                json_reply(&json!(self.view.locate(&target)))
            }
            ("GET", "next") => {
                let step = match head.value("to").as_deref() {
                    Some("next") => Step::Next,
                    Some("previous") => Step::Previous,
                    Some("parent") => Step::Parent,
                    Some("child") => Step::Child,
                    _ => return bad("'to' is next, previous, parent or child."),
                };
                let next = of_row(head).and_then(|(node, id)| self.view.next(node, id, step));
                json_reply(&json!(next))
            }
            ("GET", "search") => {
                let search_in = match head.value("in").as_deref() {
                    None | Some("names") => SearchIn::Names,
                    Some("args") => SearchIn::Args,
                    Some("all") => SearchIn::All,
                    Some(_) => return bad("'in' is names, args or all."),
                };
                let limit = head.number("limit").map_or(LIMIT, |limit| limit as usize);
                let text = head.value("text").unwrap_or_default();
                match self.view.search(&text, search_in, limit) {
                    Ok(found) => Response::bytes(found),
                    Err(error) => bad(&error.to_string()),
                }
            }
            ("POST", _) => match serde_json::from_slice(body) {
                Ok(fields) => self.post(name, &Fields(fields)),
                Err(_) => bad("The body is not JSON."),
            },
            _ => not_found(),
        }
    }

    fn circumstances(self) -> Circumstances<'static> {
        Circumstances {
            live: self.live,
            generation: self.generation,
            before: self.before.map(View::duration),
            sql: Some(self.has_sql),
            ..Circumstances::default()
        }
    }

    fn post(self, name: &str, fields: &Fields) -> Response {
        let Ok(nodes) = fields.nodes() else {
            return bad("'nodes' is a list of numbers, or null.");
        };
        let nodes = nodes.as_deref();
        if name == "args" {
            return self.args(fields);
        }
        let (Some(from), Some(to)) = (fields.number("from"), fields.number("to")) else {
            return bad("'from' and 'to' are times.");
        };
        let limit = fields.count("limit").unwrap_or(LIMIT);
        match name {
            "tiles" => {
                let Some(nodes) = nodes.filter(|nodes| nodes.len() <= MAX_NODES) else {
                    return bad("'nodes' is a list of at most 4096 numbers.");
                };
                let level = fields.count("level").unwrap_or(0).min(63) as u8;
                let window = Window { from, to, level };
                Response::bytes(self.view.tiles(nodes, window))
            }
            "flows" => Response::bytes(self.view.arrows(from, to, nodes, limit)),
            "summary" => match (fields.text("of"), self.before) {
                (None | Some("this"), _) => json_reply(&self.view.summary(from, to, nodes)),
                (Some("before"), Some(before)) => json_reply(&before.summary(from, to, None)),
                (Some("before"), None) => not_found(),
                (Some(_), _) => bad("'of' is this or before."),
            },
            "list" => {
                let offset = fields.count("offset").unwrap_or(0);
                json_reply(&self.view.list(from, to, nodes, offset, limit))
            }
            "profile" => self.profile(fields, (from, to), nodes),
            "code" => self.code(fields, (from, to), nodes),
            "pivot" => self.pivot(fields, (from, to), nodes),
            _ => not_found(),
        }
    }

    fn args(self, fields: &Fields) -> Response {
        let node = fields.count("node").and_then(|node| node.try_into().ok());
        let (Some(node), Some(rows)) = (node, fields.numbers("rows")) else {
            return bad("'node' is a number, and 'rows' a list of numbers.");
        };
        let all = self.view.arguments(node, &rows);
        all.map_or_else(not_found, |all| json_reply(&all))
    }

    fn pivot(self, fields: &Fields, (from, to): (f64, f64), nodes: Option<&[u32]>) -> Response {
        let of = match fields.text("of") {
            Some("slices") => PivotOf::Slices,
            Some("states") => PivotOf::States,
            Some("cpu") => PivotOf::Cpu,
            Some("events") => PivotOf::Events,
            _ => return bad("'of' is slices, states, cpu or events."),
        };
        let by = fields.0.get("by").and_then(Value::as_array);
        let by: Option<Vec<&str>> = by.and_then(|by| by.iter().map(Value::as_str).collect());
        let Some(by) = by else {
            return bad("'by' is a list of names of columns.");
        };
        json_reply(&self.view.pivot(&PivotRequest {
            from,
            to,
            nodes,
            of,
            by: &by,
        }))
    }

    fn code(self, fields: &Fields, (from, to): (f64, f64), nodes: Option<&[u32]>) -> Response {
        let (Some(function), Some(file)) = (fields.text("function"), fields.text("file")) else {
            return bad("'function' and 'file' are texts.");
        };
        let code = self.view.code(&FunctionRequest {
            samples: ProfileRequest {
                profile: fields.count("profile").unwrap_or(usize::MAX),
                from,
                to,
                nodes,
                by: By::Function,
            },
            function,
            file,
        });
        code.map_or_else(not_found, |code| json_reply(&code))
    }

    fn profile(self, fields: &Fields, (from, to): (f64, f64), nodes: Option<&[u32]>) -> Response {
        let by = match fields.text("by") {
            None | Some("none") => By::Function,
            Some("process") => By::Process,
            Some("thread") => By::Thread,
            Some("event") => By::Event,
            Some(_) => return bad("'by' is none, process, thread or event."),
        };
        let mut request = ProfileRequest {
            profile: fields.count("profile").unwrap_or(usize::MAX),
            from,
            to,
            nodes,
            by,
        };
        let answer = match fields.text("of") {
            None | Some("this") => self.view.profile(&request),
            Some("before") => self.before.and_then(|before| {
                request.profile = before.same_profile(self.view, request.profile)?;
                request.nodes = None;
                (request.from, request.to) = (f64::MIN, f64::MAX);
                before.profile(&request)
            }),
            Some(_) => return bad("'of' is this or before."),
        };
        answer.map_or_else(not_found, Response::bytes)
    }
}

fn of_row(head: &Head) -> Option<(u32, u32)> {
    Some((head.number("node")?, head.number("id")?))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use ferretto_tables::{Options, Trace};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// A trace of a slice within another, and a counter.
    static VIEW: LazyLock<View> = LazyLock::new(|| {
        let events = br#"[{"ph":"X","pid":1,"tid":1,"name":"a","ts":1,"dur":9,"args":{"b":1}},
            {"ph":"X","pid":1,"tid":1,"name":"b","ts":2,"dur":3},
            {"ph":"C","pid":1,"name":"c","ts":4,"args":{"value":1}}]"#;
        let trace = Trace::read(events.as_slice(), &Options::default()).expect("trace");
        View::new(trace, "test", 1)
    });

    /// Generates names and values of queries, some of them almost valid.
    fn names() -> impl Strategy<Value = &'static str> {
        select(vec![
            "", "trace", "tiles", "details", "why", "next", "search", "flows", "summary", "list",
            "pivot", "profile", "code", "function", "file", "locate", "ts", "track", "utid",
            "node", "rows", "id", "to", "in", "text", "limit", "nodes", "from", "level", "offset",
            "by", "of", "args", "thread", "before", "parent", "x", "%00",
        ])
    }

    fn values() -> impl Strategy<Value = &'static str> {
        select(vec![
            "0",
            "1",
            "3",
            "-1",
            "0.5",
            "1e9",
            "-1e308",
            "1e308",
            "1e999",
            "63",
            "4294967295",
            "18446744073709551615",
            "null",
            "true",
            "\"thread\"",
            "\"before\"",
            "\"cpu\"",
            "\"slices\"",
            "[\"name\",\"arg:debug.b\",\"thread\"]",
            "\"/(/\"",
            "[]",
            "[[]]",
            "[0,1,2,3,4]",
            "[4294967295,4294967296]",
            "[-1]",
            "{}",
        ])
    }

    proptest! {
        #[test]
        fn every_request_has_an_answer(
            is_post: bool,
            name in names(),
            query in vec((names(), values()), 0..4),
            fields in vec((names(), values()), 0..6),
            range in prop::option::of((values(), values())),
        ) {
            let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let range = range.map(|(from, to)| [("from", from), ("to", to)]);
            let fields: Vec<String> = range.into_iter().flatten().chain(fields)
                .map(|(key, value)| format!("\"{key}\":{value}")).collect();
            let method = if is_post { "POST" } else { "GET" };
            let head = format!("{method} /t/{name}?{} HTTP/1.1\r\n\r\n", query.join("&"));
            let body = format!("{{{}}}", fields.join(","));
            let view = &*VIEW;
            let traces = Traces { view, before: Some(view), live: true, generation: 7, has_sql: true, kept: None };
            if let Some(head) = Head::parse(head.as_bytes()) {
                let status = traces.answer(name, &head, body.as_bytes()).status;
                prop_assert!(["200 OK", "400 Bad Request", "404 Not Found"].contains(&status), "{}", status);
            }
        }
    }
}
