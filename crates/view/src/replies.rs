//! Replies to requests.

use ferretto_http::Response;
use serde_json::Value;

pub(crate) fn bad(sentence: &str) -> Response {
    Response::error("400 Bad Request", sentence)
}

pub(crate) fn failed(sentence: &str) -> Response {
    Response::error("500 Internal Server Error", sentence)
}

pub(crate) fn json_reply(value: &Value) -> Response {
    Response::new("application/json", value.to_string())
}

pub(crate) fn not_found() -> Response {
    Response::error("404 Not Found", "No such page, row or profile.")
}
