//! The server: one thread reads messages, the calling one executes them in order.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Map, Value, json};

use crate::answer::{Answer, DEFAULT_BYTES, base64, escaped, failure};
use crate::arguments::{self, Page};
use crate::protocol::{
    BUSY, Failure, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RESOURCE_NOT_FOUND, complete, discover, form, initialize, is_id, progress, response,
};
use crate::toolbox::{Call, Reporter, Tool, Toolbox};

/// The bytes of a message.
const MAX_MESSAGE: u64 = 1 << 20;
/// The requests that wait, and their bytes.
const MAX_WAITING: usize = 1000;
const MAX_WAITING_BYTES: usize = 16 << 20;
/// The answers that are kept for their further pages, and the items of one.
const MAX_KEPT: usize = 8;
const MAX_KEPT_ITEMS: usize = 20_000;

/// The messages of a line to execute.
struct Work {
    messages: Vec<Value>,
    /// True if they get one array of responses.
    is_batch: bool,
    /// The bytes of the line.
    bytes: usize,
}

/// The state that the reading thread shares with the executing one.
struct Shared<W> {
    output: Mutex<W>,
    waiting: Mutex<Waiting>,
}

/// The requests that wait or are executed.
#[derive(Default)]
struct Waiting {
    /// By their ids as text.
    calls: HashMap<String, Call>,
    messages: usize,
    bytes: usize,
}

impl<W: Write + Send + 'static> Shared<W> {
    fn send(&self, message: &Value) -> io::Result<()> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(output, "{}", escaped(&message.to_string()))?;
        output.flush()
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that requests of a line wait; false if too many do.
    fn wait_for(self: &Arc<Self>, requests: &[Value], bytes: usize) -> bool {
        let mut waiting = self.waiting();
        let messages = waiting.messages + requests.len();
        if messages > MAX_WAITING || waiting.bytes + bytes > MAX_WAITING_BYTES {
            return false;
        }
        waiting.messages = messages;
        waiting.bytes += bytes;
        for request in requests {
            if let Some(id) = request.get("id") {
                waiting.calls.insert(id.to_string(), self.new_call(request));
            }
        }
        true
    }

    /// Returns the call of a request, which reports its progress if the request has a token.
    fn new_call(self: &Arc<Self>, request: &Value) -> Call {
        let token = &request["params"]["_meta"]["progressToken"];
        if !token.is_string() && !token.is_number() {
            return Call::default();
        }
        let (shared, token) = (Arc::downgrade(self), token.clone());
        Call::with_reporter(Reporter::new(move |number, message| {
            if let Some(shared) = shared.upgrade() {
                // The response to the call fails, too.
                let _ = shared.send(&progress(&token, number, message));
            }
        }))
    }

    fn call_of(&self, request: &Value) -> Call {
        let id = request["id"].to_string();
        self.waiting().calls.get(&id).cloned().unwrap_or_default()
    }

    /// Forgets requests that were executed.
    fn forget(&self, requests: &[Value], bytes: usize) {
        let mut waiting = self.waiting();
        waiting.messages -= requests.len();
        waiting.bytes -= bytes;
        for request in requests {
            waiting.calls.remove(&request["id"].to_string());
        }
    }
}

/// Serves requests until the input ends; requests before are answered.
///
/// # Errors
///
/// Fails if the output cannot be written, or the thread that reads cannot be started.
pub fn serve<W: Write + Send + 'static>(
    toolbox: &mut dyn Toolbox,
    input: impl Read + Send + 'static,
    output: W,
) -> io::Result<()> {
    let shared = Arc::new(Shared {
        output: Mutex::new(output),
        waiting: Mutex::default(),
    });
    let (sender, receiver) = channel();
    let of_reader = shared.clone();
    thread::Builder::new()
        .name("ferretto-mcp".to_owned())
        .spawn(move || read(BufReader::new(input), &of_reader, &sender))?;
    Executor {
        toolbox,
        shared: &shared,
        kept: VecDeque::new(),
    }
    .run(&receiver)
}

/// Reads messages, and answers those that must not wait.
fn read<W: Write + Send + 'static>(
    mut input: impl BufRead,
    shared: &Arc<Shared<W>>,
    work: &Sender<Work>,
) {
    let fail = |code, message| {
        let failure = Failure::new(code, message);
        shared.send(&response(&Value::Null, Err(failure)))
    };
    loop {
        let mut line = Vec::new();
        let read = (&mut input).take(MAX_MESSAGE).read_until(b'\n', &mut line);
        let Ok(1..) = read else { return };
        if line.len() as u64 == MAX_MESSAGE && !line.ends_with(b"\n") {
            if input.skip_until(b'\n').is_err() || fail(INVALID_REQUEST, "too large").is_err() {
                return;
            }
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let sent = match serde_json::from_slice::<Value>(&line) {
            Err(_) => fail(PARSE_ERROR, "the message is not JSON"),
            Ok(Value::Array(messages)) if !messages.is_empty() => {
                queue(messages, true, line.len(), shared, work)
            }
            Ok(message) => take(message, line.len(), shared, work),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Answers a message at once, or queues it.
fn take<W: Write + Send + 'static>(
    message: Value,
    bytes: usize,
    shared: &Arc<Shared<W>>,
    work: &Sender<Work>,
) -> io::Result<()> {
    let id = message.get("id").cloned();
    match (message["method"].as_str(), id) {
        (Some("notifications/cancelled"), None) => {
            let id = message["params"]["requestId"].to_string();
            if let Some(call) = shared.waiting().calls.get(&id) {
                call.cancel();
            }
        }
        // Other notifications, and responses: the server has no requests.
        (Some(_), None) | (None, Some(_)) if message.is_object() => {}
        (Some("ping"), Some(id)) if is_id(&id) => {
            let result = form(&message["params"]).map(|form| {
                let mut result = json!({});
                complete(&mut result, form, false);
                result
            });
            return shared.send(&response(&id, result));
        }
        (Some(_), Some(_)) => return queue(vec![message], false, bytes, shared, work),
        _ => {
            let failure = Failure::new(INVALID_REQUEST, "this is no request");
            return shared.send(&response(&Value::Null, Err(failure)));
        }
    }
    Ok(())
}

/// Queues the messages of a line, or answers that too many wait.
fn queue<W: Write + Send + 'static>(
    messages: Vec<Value>,
    is_batch: bool,
    bytes: usize,
    shared: &Arc<Shared<W>>,
    work: &Sender<Work>,
) -> io::Result<()> {
    if shared.wait_for(&messages, bytes) {
        let _ = work.send(Work {
            messages,
            is_batch,
            bytes,
        });
        return Ok(());
    }
    let ids = messages.iter().filter_map(|message| message.get("id"));
    let refused = ids.filter(|id| is_id(id)).map(|id| {
        let failure = Failure::new(BUSY, "too many requests wait; send it later");
        response(id, Err(failure))
    });
    answer(shared, refused.collect(), is_batch)
}

/// Sends the responses to the messages of a line.
fn answer<W: Write + Send + 'static>(
    shared: &Shared<W>,
    responses: Vec<Value>,
    is_batch: bool,
) -> io::Result<()> {
    if is_batch && !responses.is_empty() {
        return shared.send(&responses.into());
    }
    responses
        .iter()
        .try_for_each(|response| shared.send(response))
}

/// Executes requests.
struct Executor<'a, W> {
    toolbox: &'a mut dyn Toolbox,
    shared: &'a Shared<W>,
    /// The latest answers by tool and arguments.
    kept: VecDeque<(String, Answer)>,
}

impl<W: Write + Send + 'static> Executor<'_, W> {
    fn run(&mut self, work: &Receiver<Work>) -> io::Result<()> {
        for work in work {
            let mut responses = Vec::new();
            for message in &work.messages {
                let call = self.shared.call_of(message);
                if call.is_cancelled() {
                    continue;
                }
                let response = self.respond(message, &call);
                responses.extend(response.filter(|_| !call.is_cancelled()));
            }
            self.shared.forget(&work.messages, work.bytes);
            answer(self.shared, responses, work.is_batch)?;
        }
        Ok(())
    }

    /// Returns the response to a request; `None` for a notification.
    fn respond(&mut self, request: &Value, call: &Call) -> Option<Value> {
        let invalid = |id: &Value, reason: &str| {
            let failure = Failure::new(INVALID_REQUEST, reason);
            Some(response(id, Err(failure)))
        };
        if !request.is_object() {
            return invalid(&Value::Null, "this is no request");
        }
        let id = request.get("id")?;
        if !is_id(id) {
            return invalid(
                &Value::Null,
                "the id must be a string or an integer of at most 64 bits",
            );
        }
        let Some(method) = request["method"].as_str() else {
            return invalid(id, "the request has no method");
        };
        Some(response(id, self.result(method, &request["params"], call)))
    }

    fn result(&mut self, method: &str, params: &Value, call: &Call) -> Result<Value, Failure> {
        let form = form(params)?;
        let mut is_cacheable = true;
        let mut result = match method {
            "initialize" => initialize(params, &self.toolbox.instructions()),
            "server/discover" => discover(&self.toolbox.instructions()),
            "tools/list" => {
                let tools = self.toolbox.tools();
                json!({ "tools": tools.iter().map(description).collect::<Vec<_>>() })
            }
            "tools/call" => {
                is_cacheable = false;
                self.call(params, call)?
            }
            "resources/list" => {
                let resources = self.toolbox.resources();
                let described = resources.iter().map(|resource| {
                    json!({
                        "uri": resource.uri,
                        "name": resource.name,
                        "description": resource.description,
                        "mimeType": resource.mime,
                    })
                });
                json!({ "resources": described.collect::<Vec<_>>() })
            }
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "resources/read" => self.read(params)?,
            "ping" | "logging/setLevel" => {
                is_cacheable = false;
                json!({})
            }
            other => {
                let message = format!("there is no method {other}");
                return Err(Failure::new(METHOD_NOT_FOUND, message));
            }
        };
        complete(&mut result, form, is_cacheable);
        Ok(result)
    }

    fn call(&mut self, params: &Value, call: &Call) -> Result<Value, Failure> {
        let wrong = |message: String| Failure::new(INVALID_PARAMS, message);
        let name = params["name"].as_str().unwrap_or_default();
        let tools = self.toolbox.tools();
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(wrong(format!("there is no tool {name}")));
        };
        let mut arguments = match &params["arguments"] {
            Value::Null => Map::new(),
            Value::Object(arguments) => arguments.clone(),
            _ => return Err(wrong("arguments must be an object".to_owned())),
        };
        let answer = arguments::check(tool, &mut arguments)
            .and_then(|page| self.page(tool, &arguments, page, call));
        Ok(match answer {
            Ok((text, image)) => {
                let mut content = vec![json!({ "type": "text", "text": text })];
                content.extend(image);
                json!({ "content": content, "isError": false })
            }
            Err(reason) => {
                let text = failure(&reason, DEFAULT_BYTES);
                json!({ "content": [{ "type": "text", "text": text }], "isError": true })
            }
        })
    }

    /// Returns a page of an answer, and its picture.
    fn page(
        &mut self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        page: Page,
        call: &Call,
    ) -> Result<(String, Option<Value>), String> {
        let key = format!("{} {}", tool.name, Value::Object(arguments.clone()));
        let at = self.kept.iter().position(|(kept, _)| *kept == key);
        let answer = match at.and_then(|at| self.kept.remove(at)) {
            Some((_, kept)) if page.from > 0 => kept,
            // A change must not be repeated for the rest of its answer.
            _ if page.from > 0 && !tool.is_read_only => {
                return Err("the answer is not kept any more".to_owned());
            }
            _ => self.toolbox.call(tool.name, arguments, call)?,
        };
        if page.from > 0 && page.from >= answer.items.len() {
            return Err("the cursor is not one of this answer".to_owned());
        }
        let text = answer.page(page.from, page.max);
        let image = answer.image.as_ref().map(|image| {
            json!({ "type": "image", "data": base64(&image.bytes), "mimeType": image.mime })
        });
        if answer.items.len() <= MAX_KEPT_ITEMS {
            self.kept.push_back((key, answer));
            if self.kept.len() > MAX_KEPT {
                self.kept.pop_front();
            }
        }
        Ok((text, image))
    }

    fn read(&mut self, params: &Value) -> Result<Value, Failure> {
        let uri = params["uri"].as_str().unwrap_or_default();
        let resources = self.toolbox.resources();
        let resource = resources.iter().find(|resource| resource.uri == uri);
        let (Some(resource), Some(text)) = (resource, self.toolbox.read(uri)) else {
            let message = format!("there is no resource {uri}");
            return Err(Failure::new(RESOURCE_NOT_FOUND, message));
        };
        let text = text.map_err(|reason| Failure::new(BUSY, reason))?;
        let content = json!({ "uri": uri, "mimeType": resource.mime, "text": text });
        Ok(json!({ "contents": [content] }))
    }
}

fn description(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": arguments::schema(tool),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.is_read_only,
            "destructiveHint": false,
            "openWorldHint": false,
        },
    })
}
