//! Versions of the protocol, and the members that each wants.

use serde_json::{Value, json};

/// The versions that begin with `initialize`, the oldest first.
const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The version whose requests each name their version.
const STATELESS: &str = "2026-07-28";
/// The member of `_meta` with the version of a request.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` with the server.
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

pub(crate) const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
pub(crate) const RESOURCE_NOT_FOUND: i32 = -32002;
pub(crate) const BUSY: i32 = -32000;
const UNSUPPORTED_VERSION: i32 = -32022;

/// The characters of a message about a failure, which may repeat names of the request.
const MAX_MESSAGE: usize = 500;

/// A failure of a request.
#[derive(Debug)]
pub(crate) struct Failure {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.chars().count() > MAX_MESSAGE {
            message = message.chars().take(MAX_MESSAGE).chain(['…']).collect();
        }
        Self {
            code,
            message,
            data: None,
        }
    }
}

/// Returns the response to a request.
pub(crate) fn response(id: &Value, result: Result<Value, Failure>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => {
            let mut error = json!({ "code": failure.code, "message": failure.message });
            if let Some(data) = failure.data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

fn info() -> Value {
    json!({ "name": "ferretto", "title": "Ferretto", "version": env!("CARGO_PKG_VERSION") })
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {} })
}

/// Returns the result of `initialize`: the version of the client if it is known, else the newest.
pub(crate) fn initialize(params: &Value, instructions: &str) -> Value {
    let wanted = params["protocolVersion"].as_str().unwrap_or_default();
    let newest = WITH_HANDSHAKE[WITH_HANDSHAKE.len() - 1];
    let version = WITH_HANDSHAKE.iter().find(|version| **version == wanted);
    json!({
        "protocolVersion": version.unwrap_or(&newest),
        "capabilities": capabilities(),
        "serverInfo": info(),
        "instructions": instructions,
    })
}

/// Returns the result of `server/discover`.
pub(crate) fn discover(instructions: &str) -> Value {
    json!({
        "supportedVersions": versions(),
        "capabilities": capabilities(),
        "serverInfo": info(),
        "instructions": instructions,
    })
}

fn versions() -> Vec<&'static str> {
    WITH_HANDSHAKE.into_iter().chain([STATELESS]).collect()
}

/// The largest integer that each number of JSON can tell from its neighbours.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns true if a response can repeat the id of a request: a text, a number or nothing.
pub(crate) fn is_id(id: &Value) -> bool {
    match id {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|id| id.abs() <= MAX_EXACT)
        }
        id => id.is_string() || id.is_number() || id.is_null(),
    }
}

/// Returns the notification of a call's progress.
pub(crate) fn progress(token: &Value, number: u64, message: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": { "progressToken": token, "progress": number, "message": message },
    })
}

/// The form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It belongs to a session that began with `initialize`.
    OfSession,
    /// It names its version.
    Stateless,
}

/// Returns the form of a request with these parameters.
///
/// # Errors
///
/// Fails if it names a version that is not supported.
pub(crate) fn form(params: &Value) -> Result<Form, Failure> {
    match params["_meta"][VERSION_KEY].as_str() {
        None => Ok(Form::OfSession),
        Some(STATELESS) => Ok(Form::Stateless),
        Some(known) if WITH_HANDSHAKE.contains(&known) => Ok(Form::OfSession),
        Some(other) => Err(Failure {
            code: UNSUPPORTED_VERSION,
            message: "the version of the protocol is not supported".to_owned(),
            data: Some(json!({ "supported": versions(), "requested": other })),
        }),
    }
}

/// Adds the members that results have in a form.
pub(crate) fn complete(result: &mut Value, form: Form, is_cacheable: bool) {
    if form == Form::OfSession {
        return;
    }
    result["resultType"] = "complete".into();
    result["_meta"][SERVER_KEY] = info();
    if is_cacheable {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
}
