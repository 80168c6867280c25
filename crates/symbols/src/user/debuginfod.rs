//! Debug files from servers of debuginfod, kept in a folder.
//!
//! The protocol is HTTP: `GET URL/buildid/BUILD-ID/debuginfo`. A server sees which programs were
//! recorded, so there is none unless the user names one. Files are used only if they have the build
//! id, as any other file.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::image::{Image, Reason, hex};

/// The time to connect to a server, and the longest pause of a reply.
const PATIENCE: Duration = Duration::from_secs(15);
/// The time for a file.
const LONGEST: Duration = Duration::from_secs(300);
/// The largest file.
const MAX_FILE: u64 = 4 << 30;
/// The largest size of all kept files. The oldest are removed first.
const MAX_KEPT: u64 = 4 << 30;
/// The largest size of the head of a reply.
const MAX_HEAD: u64 = 64 << 10;
/// The largest number of redirections.
const MAX_MOVES: usize = 4;
/// The ending of files that are not complete.
const UNFINISHED: &str = ".part";

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    is_secure: bool,
    /// Host and port.
    authority: String,
    /// The path without a slash at its end.
    path: String,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let is_valid = is_plain && !authority.is_empty() && !authority.contains(['@', '?', '#']);
        if !is_valid || !matches!(scheme, "http" | "https") {
            return Err(format!(
                "'{text}' is not the address of a server, such as https://debuginfod.debian.net"
            ));
        }
        Ok(Self {
            is_secure: scheme == "https",
            authority: authority.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
        })
    }
}

impl std::fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// The servers to ask, and the folder of their files.
#[derive(Debug)]
pub(super) struct Servers {
    servers: Vec<(ServerUrl, AtomicBool)>,
    folder: PathBuf,
    /// Held during a download.
    is_busy: Mutex<()>,
}

impl Servers {
    pub(super) fn new(urls: &[ServerUrl], folder: PathBuf) -> Self {
        let servers = urls.iter().cloned();
        Self {
            servers: servers.map(|url| (url, AtomicBool::new(false))).collect(),
            folder,
            is_busy: Mutex::default(),
        }
    }

    /// Returns the debug file of a build id, from the folder or a server; otherwise where it was
    /// looked for, and why it is not there.
    pub(super) fn find(&self, build_id: &[u8]) -> Result<Image, Vec<(PathBuf, Reason)>> {
        let name = hex(build_id);
        let path = self.folder.join(&name);
        let _busy = self.is_busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(image) = Image::open_identified(&path, build_id) {
            return Ok(image);
        }
        let mut reasons = Vec::new();
        for (server, is_down) in &self.servers {
            let address = format!("{server}/buildid/{name}/debuginfo");
            let result = if is_down.load(Ordering::Relaxed) {
                Err(Failure::Down("the server did not answer before".to_owned()))
            } else {
                self.download(server, &name, &path)
            };
            let reason = match result {
                Ok(()) => match Image::open_identified(&path, build_id) {
                    Ok(image) => return Ok(image),
                    Err(reason) => {
                        let _ = fs::remove_file(&path);
                        reason
                    }
                },
                Err(Failure::NoFile) => Reason::Missing,
                Err(Failure::Refused(why)) => Reason::Unusable(why),
                Err(Failure::Down(why)) => {
                    // Other files would only wait for it again.
                    is_down.store(true, Ordering::Relaxed);
                    Reason::Unusable(why)
                }
            };
            reasons.push((PathBuf::from(address), reason));
        }
        Err(reasons)
    }

    fn download(&self, server: &ServerUrl, name: &str, path: &Path) -> Result<(), Failure> {
        let local = |error: io::Error| Failure::Refused(format!("cannot keep the file: {error}"));
        fs::create_dir_all(&self.folder).map_err(local)?;
        let unfinished = self
            .folder
            .join(format!("{name}.{}{UNFINISHED}", std::process::id()));
        let mut file = File::create(&unfinished).map_err(local)?;
        let target = format!("{}/buildid/{name}/debuginfo", server.path);
        let result = fetch(server, &target, &mut file);
        let result = result.and_then(|()| fs::rename(&unfinished, path).map_err(local));
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        self.bound(path);
        result
    }

    /// Removes the oldest files if all together are too large.
    fn bound(&self, newest: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let (mut files, mut total) = (Vec::new(), 0);
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            total += metadata.len();
            let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((changed, metadata.len(), entry.path()));
        }
        files.sort_unstable();
        for (_, size, path) in files {
            if total <= MAX_KEPT {
                break;
            }
            if path != newest && fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

/// The reason why a server gave no file.
enum Failure {
    /// It has none.
    NoFile,
    /// It gave something else.
    Refused(String),
    /// It cannot be reached.
    Down(String),
}

/// Writes the reply to a request into a file.
fn fetch(server: &ServerUrl, target: &str, file: &mut File) -> Result<(), Failure> {
    let deadline = Instant::now() + LONGEST;
    let (mut server, mut target) = (server.clone(), target.to_owned());
    for _ in 0..=MAX_MOVES {
        if server.is_secure {
            return fetch_securely(&server, &target, file);
        }
        match request(&server, &target, file, deadline)? {
            None => return Ok(()),
            Some(moved) => (server, target) = moved_to(&server, &moved)?,
        }
    }
    Err(Failure::Refused("too many redirections".to_owned()))
}

/// Returns the server and the target of a redirection.
fn moved_to(server: &ServerUrl, location: &str) -> Result<(ServerUrl, String), Failure> {
    if location.starts_with('/') && location.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok((server.clone(), location.to_owned()));
    }
    let to: ServerUrl = location.parse().map_err(Failure::Refused)?;
    let target = to.path.clone();
    Ok((to, target))
}

/// Sends one request. Returns the location of a redirection.
fn request(
    server: &ServerUrl,
    target: &str,
    file: &mut File,
    deadline: Instant,
) -> Result<Option<String>, Failure> {
    let down = |error: io::Error| Failure::Down(error.to_string());
    let with_port =
        if server.authority.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        }) {
            server.authority.clone()
        } else {
            format!("{}:80", server.authority)
        };
    let mut last = Failure::Down("the name has no address".to_owned());
    let mut connected = None;
    for address in with_port.to_socket_addrs().map_err(down)? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = down(error),
        }
    }
    let Some(mut stream) = connected else {
        return Err(last);
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(down)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(down)?;
    // Replies to this version are not in chunks.
    let request = format!(
        "GET {target} HTTP/1.0\r\nHost: {}\r\nUser-Agent: ferretto/{}\r\nConnection: close\r\n\r\n",
        server.authority,
        env!("CARGO_PKG_VERSION")
    );
    stream.write_all(request.as_bytes()).map_err(down)?;
    let mut reply = BufReader::new(stream);
    let head = head(&mut reply)?;
    let content = match head.status {
        200 => head.length,
        301 | 302 | 303 | 307 | 308 => {
            let location = head.location;
            let none = || Failure::Refused("a redirection to nowhere".to_owned());
            return location.ok_or_else(none).map(Some);
        }
        404 | 410 => return Err(Failure::NoFile),
        other => return Err(Failure::Refused(format!("the server replied {other}"))),
    };
    let size = copy(&mut reply, file, deadline)?;
    match content {
        Some(length) if length != size => {
            Err(Failure::Refused(format!("{size} of {length} bytes came")))
        }
        _ => Ok(None),
    }
}

/// The head of a reply.
#[derive(Default)]
struct Head {
    status: u32,
    length: Option<u64>,
    location: Option<String>,
}

fn head(reply: &mut BufReader<TcpStream>) -> Result<Head, Failure> {
    let bad = || Failure::Refused("the reply is not one of HTTP".to_owned());
    let mut lines = reply.by_ref().take(MAX_HEAD);
    let mut line = Vec::new();
    let mut head = Head::default();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        read.map_err(|error| Failure::Down(error.to_string()))?;
        if !line.ends_with(b"\n") {
            return Err(bad());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if head.status == 0 {
            let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
            head.status = status
                .and_then(|status| status.parse().ok())
                .ok_or_else(bad)?;
            continue;
        }
        if text.is_empty() {
            return Ok(head);
        }
        let (name, value) = text.split_once(':').ok_or_else(bad)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse().map_err(|_| bad())?);
        } else if name.eq_ignore_ascii_case("location") {
            head.location = Some(value.to_owned());
        }
    }
}

fn copy(reply: &mut impl Read, file: &mut File, deadline: Instant) -> Result<u64, Failure> {
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let read = match reply.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Down(error.to_string())),
        };
        size += read as u64;
        if size > MAX_FILE {
            return Err(Failure::Refused(format!(
                "it is larger than {MAX_FILE} bytes"
            )));
        }
        if Instant::now() > deadline {
            return Err(Failure::Down(format!(
                "it takes over {} s",
                LONGEST.as_secs()
            )));
        }
        let written = file.write_all(&buffer[..read]);
        written.map_err(|error| Failure::Refused(format!("cannot keep the file: {error}")))?;
    }
}

/// Like [`fetch`], with the program `curl`: the recorder has no encryption of its own.
fn fetch_securely(server: &ServerUrl, target: &str, file: &mut File) -> Result<(), Failure> {
    let output = file
        .try_clone()
        .map_err(|error| Failure::Refused(error.to_string()))?;
    let status = Command::new("curl")
        .args(["--silent", "--fail", "--location", "--proto", "=https"])
        .args(["--connect-timeout", &PATIENCE.as_secs().to_string()])
        .args(["--max-time", &LONGEST.as_secs().to_string()])
        .args(["--max-filesize", &MAX_FILE.to_string(), "--"])
        .arg(format!("https://{}{target}", server.authority))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => Ok(()),
        // An error status of the server.
        Ok(Some(22)) => Err(Failure::NoFile),
        Ok(code) => Err(Failure::Down(format!("curl failed with {code:?}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::Down(
            "https needs the program curl, which is not installed".to_owned(),
        )),
        Err(error) => Err(Failure::Down(format!("cannot run curl: {error}"))),
    }
}
