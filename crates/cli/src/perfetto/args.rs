//! The command line of `perfetto`: upstream's names, prefixes, order of checks and messages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use lexopt::Arg;

use super::flags::{Flag, Refusal, by_long, by_short};
use crate::errors::reason;
use crate::session::Then;

/// The id that selects the session with the highest bug report score.
pub(super) const BUGREPORT: u64 = u64::MAX;

/// A config of the command line: a file that is not decoded yet, or the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Config {
    File { name: String, bytes: Vec<u8> },
    Test,
}

/// The encoding of the config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    #[default]
    Binary,
    Text,
    LossyText,
}

/// Selects whether the process continues in the background once it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Background {
    #[default]
    No,
    Yes,
    /// The parent waits until all data sources have started.
    Wait,
}

/// Options that build a config without a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Light {
    pub(super) time: Option<String>,
    pub(super) buffer: Option<String>,
    pub(super) size: Option<String>,
    pub(super) apps: Vec<String>,
    pub(super) events: Vec<String>,
}

impl Light {
    fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// Values that are copied into `statsd_metadata`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) alert: Option<i64>,
    pub(super) config: Option<i64>,
    pub(super) config_uid: Option<i64>,
    pub(super) subscription: Option<i64>,
}

/// Options of the process itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProcessOptions {
    pub(super) background: Background,
    /// The descriptor to notify when all data sources have started.
    pub(super) notify_fd: Option<i32>,
}

/// The options of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) config: Option<Config>,
    pub(super) encoding: Encoding,
    pub(super) light: Light,
    pub(super) out: Option<PathBuf>,
    pub(super) no_clobber: bool,
    pub(super) process: ProcessOptions,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) ids: Ids,
    /// The key under which the session continues without this process.
    pub(super) detach: Option<Vec<u8>>,
}

/// The session to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Id(u64),
    Name(Vec<u8>),
}

/// The options of a clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CloneOptions {
    pub(super) source: Source,
    /// True if the session's filter is not applied.
    pub(super) for_bugreport: bool,
    /// The output; without it, the file for bug reports.
    pub(super) out: Option<PathBuf>,
    pub(super) no_clobber: bool,
    pub(super) process: ProcessOptions,
}

/// The action of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Record(Box<Options>),
    Attach {
        key: Vec<u8>,
        then: Then,
        process: ProcessOptions,
    },
    Clone(CloneOptions),
    /// Clones every session with a bug report score.
    SaveAll(ProcessOptions),
    Query {
        long: bool,
    },
    QueryRaw,
    Version,
    ResetGuardrails,
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Message(message.into()))
}

#[derive(Default)]
struct Parsed {
    options: Options,
    txt: bool,
    lossy: bool,
    query: bool,
    long: bool,
    query_raw: bool,
    clone_id: Option<u64>,
    clone_name: Option<Vec<u8>>,
    clone_for_bugreport: bool,
    save: bool,
    save_all: bool,
    /// The key of `--attach` or `--is_detached`.
    attach: Option<Vec<u8>>,
    is_detached: bool,
    stop: bool,
}

/// Parses a command line without the program's name. `read` reads a config file.
pub(super) fn parse(
    args: Vec<OsString>,
    read: impl Fn(&OsStr) -> std::io::Result<Vec<u8>>,
) -> Result<Action, Refusal> {
    if args.is_empty() {
        return Err(Refusal::Usage(None));
    }
    let mut parsed = Parsed::default();
    let mut parser = lexopt::Parser::from_args(args);
    loop {
        let arg = parser.next().map_err(refused)?;
        let (name, flag) = match arg {
            None => break,
            Some(Arg::Value(event)) => {
                parsed.options.light.events.push(lossy(event));
                continue;
            }
            Some(Arg::Short(short)) => by_short(short)?,
            Some(Arg::Long(long)) => by_long(long)?,
        };
        match flag {
            Flag::Help => return Err(Refusal::Usage(None)),
            Flag::Version => return Ok(Action::Version),
            Flag::ResetGuardrails => return Ok(Action::ResetGuardrails),
            flag => parsed.set(name, flag, &mut parser, &read)?,
        }
    }
    parsed.check()
}

/// Returns the refusal of options that cannot be split. The missing value is told in the words of
/// the C library, which upstream uses.
fn refused(error: lexopt::Error) -> Refusal {
    let text = match error {
        lexopt::Error::MissingValue {
            option: Some(option),
        } => format!("option '{option}' requires an argument"),
        error => error.to_string(),
    };
    Refusal::Usage(Some(text))
}

impl Parsed {
    fn set(
        &mut self,
        name: &str,
        flag: Flag,
        parser: &mut lexopt::Parser,
        read: &impl Fn(&OsStr) -> std::io::Result<Vec<u8>>,
    ) -> Result<(), Refusal> {
        let options = &mut self.options;
        let mut value = || parser.value().map_err(refused);
        match flag {
            Flag::Config => options.config = Some(read_config(&value()?, read)?),
            Flag::Out => options.out = Some(value()?.into()),
            Flag::NoClobber => options.no_clobber = true,
            Flag::Txt => self.txt = true,
            Flag::TxtLossy => self.lossy = true,
            Flag::Background => options.process.background = Background::Yes,
            Flag::BackgroundWait => options.process.background = Background::Wait,
            Flag::NotifyFd => options.process.notify_fd = Some(descriptor(&lossy(value()?))?),
            Flag::Time => options.light.time = Some(lossy(value()?)),
            Flag::Buffer => options.light.buffer = Some(lossy(value()?)),
            Flag::Size => options.light.size = Some(lossy(value()?)),
            Flag::App => options.light.apps.push(lossy(value()?)),
            Flag::Query => self.query = true,
            Flag::QueryLong => self.long = true,
            Flag::QueryRaw => self.query_raw = true,
            Flag::AddAttribute => options.attributes.push(attribute(&lossy(value()?))?),
            Flag::AlertId => options.ids.alert = Some(number(name, &lossy(value()?))?),
            Flag::ConfigId => options.ids.config = Some(number(name, &lossy(value()?))?),
            Flag::ConfigUid => options.ids.config_uid = Some(number(name, &lossy(value()?))?),
            Flag::SubscriptionId => {
                options.ids.subscription = Some(number(name, &lossy(value()?))?);
            }
            Flag::Upload => return refuse("--upload is only supported on Android"),
            Flag::Dropbox => return refuse("--dropbox is only supported on Android"),
            Flag::NoGuardrails => {}
            Flag::Clone => self.clone_id = Some(number(name, &lossy(value()?))? as u64),
            Flag::CloneByName => self.clone_name = Some(value()?.into_vec()),
            Flag::CloneForBugreport => self.clone_for_bugreport = true,
            Flag::SaveForBugreport => self.save = true,
            Flag::SaveAllForBugreport => self.save_all = true,
            Flag::Detach => options.detach = Some(key(name, value()?)?),
            Flag::Attach => self.attach = Some(key(name, value()?)?),
            Flag::IsDetached => {
                self.attach = Some(key(name, value()?)?);
                self.is_detached = true;
            }
            Flag::Stop => self.stop = true,
            Flag::Help | Flag::Version | Flag::ResetGuardrails => {}
        }
        Ok(())
    }

    /// Checks the options as a whole, in upstream's order.
    fn check(mut self) -> Result<Action, Refusal> {
        self.check_conflicts()?;
        let given = match &self.options.config {
            Some(Config::File { bytes, .. }) => !bytes.is_empty(),
            Some(Config::Test) => true,
            None => false,
        };
        let light = self.options.light.is_given();
        if !self.is_query() && self.attach.is_none() && !self.save_all {
            if given && light {
                return refuse(
                    "Cannot specify both -c/--config and any of --time, --size, --buffer, \
                     --app, ATRACE_CAT, FTRACE_EVENT",
                );
            }
            return match self.clone_source() {
                Some(source) => self.clone(source),
                None if !given && !light => refuse("The TraceConfig is empty"),
                None => self.record(given),
            };
        }
        if given || light {
            return refuse("Cannot specify a trace config with this option");
        }
        if self.options.out.is_some() {
            return refuse("Can't pass an --out file (or --upload) with this option");
        }
        let process = self.options.process;
        Ok(match self.attach {
            _ if self.query_raw => Action::QueryRaw,
            _ if self.query => Action::Query { long: self.long },
            _ if self.save_all => Action::SaveAll(process),
            Some(key) => Action::Attach {
                key,
                then: match (self.is_detached, self.stop) {
                    (true, _) => Then::Leave,
                    (_, true) => Then::Stop,
                    _ => Then::Wait,
                },
                process,
            },
            None => return refuse("The TraceConfig is empty"),
        })
    }

    fn is_query(&self) -> bool {
        self.query || self.query_raw
    }

    fn check_conflicts(&self) -> Result<(), Refusal> {
        let options = &self.options;
        let attach = self.attach.is_some();
        let detach = options.detach.is_some();
        let background = options.process.background;
        let in_background = background != Background::No;
        let clone = self.clone_id.is_some() || self.clone_name.is_some();
        let bugreport_alone = !attach
            && !detach
            && !self.is_query()
            && !options.light.is_given()
            && background != Background::Wait;
        let conflicts = [
            (
                self.is_query() && (detach || attach || in_background),
                "--query cannot be combined with any other argument",
            ),
            (
                self.long && !self.is_query(),
                "--long can only be used with --query",
            ),
            (
                attach && detach,
                "--attach and --detach are mutually exclusive",
            ),
            (
                self.txt && self.lossy,
                "--txt and --txt-lossy are mutually exclusive",
            ),
            (
                detach && in_background,
                "--detach and --background are mutually exclusive",
            ),
            (
                self.stop && !attach,
                "--stop is supported only in combination with --attach",
            ),
            (
                (self.save || self.save_all) && !bugreport_alone,
                "--save-for-bugreport cannot take any other argument",
            ),
            (
                self.clone_id.is_some() && self.clone_name.is_some(),
                "--clone and --clone-by-name are mutually exclusive",
            ),
            (
                self.clone_for_bugreport && !clone,
                "--clone-for-bugreport requires --clone or --clone-by-name",
            ),
        ];
        match conflicts.iter().find(|(found, _)| *found) {
            Some((_, message)) => refuse(*message),
            None => Ok(()),
        }
    }

    /// Returns the session to clone, if any.
    fn clone_source(&mut self) -> Option<Source> {
        match (self.clone_id, self.clone_name.take()) {
            // With a config and -o, upstream ignores --save-for-bugreport and records.
            _ if self.save && (self.options.config.is_none() || self.options.out.is_none()) => {
                Some(Source::Id(BUGREPORT))
            }
            (Some(id), _) => Some(Source::Id(id)),
            (None, name) => name.map(Source::Name),
        }
    }

    fn clone(self, source: Source) -> Result<Action, Refusal> {
        let options = self.options;
        if options.out.is_none() && !self.save {
            return refuse("Either --out or --upload is required");
        }
        Ok(Action::Clone(CloneOptions {
            source,
            for_bugreport: self.clone_for_bugreport || self.save,
            out: options.out,
            no_clobber: options.no_clobber,
            process: options.process,
        }))
    }

    /// Returns the action of a recording. `given` is true if there is a config.
    fn record(mut self, given: bool) -> Result<Action, Refusal> {
        if !given {
            self.options.config = None;
        }
        self.options.encoding = match (self.txt, self.lossy) {
            (true, _) => Encoding::Text,
            (_, true) => Encoding::LossyText,
            _ => Encoding::Binary,
        };
        Ok(Action::Record(Box::new(self.options)))
    }
}

fn read_config(
    name: &OsStr,
    read: &impl Fn(&OsStr) -> std::io::Result<Vec<u8>>,
) -> Result<Config, Refusal> {
    if name == ":test" {
        return Ok(Config::Test);
    }
    let shown = if name == "-" {
        "stdin".to_owned()
    } else {
        name.to_string_lossy().into_owned()
    };
    match read(name) {
        Ok(bytes) => Ok(Config::File { name: shown, bytes }),
        Err(error) => refuse(format!("Could not open {shown} ({})", reason(&error))),
    }
}

fn attribute(text: &str) -> Result<(String, String), Refusal> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    if key.is_empty() {
        return refuse("add-attribute: key must be non-empty");
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn number(name: &str, text: &str) -> Result<i64, Refusal> {
    match text.trim().parse() {
        Ok(number) => Ok(number),
        Err(_) => refuse(format!("--{name} needs a number and not \"{text}\"")),
    }
}

/// Parses the key of a detached session.
fn key(name: &str, value: OsString) -> Result<Vec<u8>, Refusal> {
    match value.into_vec() {
        key if key.is_empty() => refuse(format!("--{name} needs a key that is not empty")),
        key => Ok(key),
    }
}

fn descriptor(text: &str) -> Result<i32, Refusal> {
    match text.trim().parse() {
        Ok(number) if number > 2 => Ok(number),
        _ => refuse(format!(
            "--notify-fd needs the number of an open descriptor above 2 and not \"{text}\""
        )),
    }
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
