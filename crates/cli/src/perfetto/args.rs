//! The command line of `perfetto`: upstream's names, prefixes, order of checks and messages.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use lexopt::Arg;

use super::clone::{CloneOptions, Source};
use crate::errors::reason;

/// What one option is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    Config,
    Out,
    NoClobber,
    Txt,
    TxtLossy,
    Background,
    BackgroundWait,
    NotifyFd,
    Time,
    Buffer,
    Size,
    App,
    Query,
    QueryLong,
    QueryRaw,
    AddAttribute,
    Version,
    Help,
    ResetGuardrails,
    /// Takes a value that is kept in the config for statistics.
    AlertId,
    ConfigId,
    ConfigUid,
    SubscriptionId,
    /// Android only; upstream refuses it elsewhere, too.
    Upload,
    Dropbox,
    NoGuardrails,
    Clone,
    CloneByName,
    CloneForBugreport,
    /// Not there yet.
    Unsupported {
        takes_value: bool,
    },
}

const WITH_VALUE: Flag = Flag::Unsupported { takes_value: true };
const WITHOUT_VALUE: Flag = Flag::Unsupported { takes_value: false };

/// Long name, short name, meaning.
const FLAGS: &[(&str, Option<char>, Flag)] = &[
    ("help", Some('h'), Flag::Help),
    ("config", Some('c'), Flag::Config),
    ("out", Some('o'), Flag::Out),
    ("no-clobber", None, Flag::NoClobber),
    ("txt", None, Flag::Txt),
    ("txt-lossy", None, Flag::TxtLossy),
    ("background", Some('d'), Flag::Background),
    ("background-wait", Some('D'), Flag::BackgroundWait),
    ("notify-fd", None, Flag::NotifyFd),
    ("time", Some('t'), Flag::Time),
    ("buffer", Some('b'), Flag::Buffer),
    ("size", Some('s'), Flag::Size),
    ("app", Some('a'), Flag::App),
    ("query", None, Flag::Query),
    ("long", None, Flag::QueryLong),
    ("query-raw", None, Flag::QueryRaw),
    ("add-attribute", None, Flag::AddAttribute),
    ("version", None, Flag::Version),
    ("reset-guardrails", None, Flag::ResetGuardrails),
    ("alert-id", None, Flag::AlertId),
    ("config-id", None, Flag::ConfigId),
    ("config-uid", None, Flag::ConfigUid),
    ("subscription-id", None, Flag::SubscriptionId),
    ("upload", None, Flag::Upload),
    ("dropbox", None, Flag::Dropbox),
    ("no-guardrails", None, Flag::NoGuardrails),
    ("clone", None, Flag::Clone),
    ("clone-by-name", None, Flag::CloneByName),
    ("clone-for-bugreport", None, Flag::CloneForBugreport),
    ("save-for-bugreport", None, WITHOUT_VALUE),
    ("save-all-for-bugreport", None, WITHOUT_VALUE),
    ("detach", None, WITH_VALUE),
    ("attach", None, WITH_VALUE),
    ("stop", None, WITHOUT_VALUE),
    ("is_detached", None, WITH_VALUE),
];

/// The usage text.
pub(super) const USAGE: &str = "\
Usage: perfetto [OPTIONS] -c CONFIG -o FILE
       perfetto [OPTIONS] -t TIME -o FILE [GROUP/EVENT | CATEGORY]...
       perfetto --query

  -c, --config FILE        the trace config; - is standard input,
                           :test a built-in one of two seconds
  -o, --out FILE           where the trace goes; - is standard output
      --no-clobber         fail if that file exists
      --txt                the config is in text form
      --txt-lossy          the same, leaving out what is unknown
      --add-attribute K=V  note K=V in the trace; can be repeated
  -d, --background         go on in the background, print the process id
  -D, --background-wait    the same, after all data sources have started
      --notify-fd FD       write one byte to FD when they have started
      --clone ID           copy what the session of this number holds, into -o
      --clone-by-name NAME the same for the session of this name
      --clone-for-bugreport  with either: do not apply its filter
      --query              show the state of the tracing service
      --long               with --query: do not shorten the last column
      --query-raw          write that state to standard output in binary
      --version            show the version

Without a config:
  -t, --time N{ms,s,m,h}   how long (default 10s)
  -b, --buffer N{kb,mb,gb} size of the buffer (default 32mb)
  -s, --size N{kb,mb,gb}   stream into the file, up to this size
  -a, --app NAME           trace this Android app
  GROUP/EVENT              kernel events, for example sched/sched_switch
  CATEGORY                 atrace categories, for example sched, freq
";

/// A configuration as it came: still encoded, or the built-in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Config {
    File { name: String, bytes: Vec<u8> },
    Test,
}

/// How the config file is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Encoding {
    #[default]
    Binary,
    Text,
    LossyText,
}

/// Where the process goes once it is set up.
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

/// Values copied into `statsd_metadata`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) alert: Option<i64>,
    pub(super) config: Option<i64>,
    pub(super) config_uid: Option<i64>,
    pub(super) subscription: Option<i64>,
}

/// A recording to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) config: Option<Config>,
    pub(super) encoding: Encoding,
    pub(super) light: Light,
    pub(super) out: Option<PathBuf>,
    pub(super) no_clobber: bool,
    pub(super) background: Background,
    pub(super) notify_fd: Option<i32>,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) ids: Ids,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Record(Box<Options>),
    Clone(CloneOptions),
    Query { long: bool },
    QueryRaw,
    Version,
    ResetGuardrails,
}

/// Why a command line is refused. All of them end with exit code 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The usage text, alone or behind a reason.
    Usage(Option<String>),
    Message(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(None) => f.write_str(USAGE),
            Self::Usage(Some(reason)) => write!(f, "{reason}\n{USAGE}"),
            Self::Message(message) => f.write_str(message),
        }
    }
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
    clone_name: Option<String>,
    clone_for_bugreport: bool,
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
        let arg = parser
            .next()
            .map_err(|error| Refusal::Usage(Some(error.to_string())))?;
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
            Flag::Unsupported { .. } => {
                return refuse(format!(
                    "--{name} is not supported by this version of Ferretto"
                ));
            }
            flag => parsed.set(name, flag, &mut parser, &read)?,
        }
    }
    parsed.check()
}

fn by_short(short: char) -> Result<(&'static str, Flag), Refusal> {
    let found = FLAGS.iter().find(|(_, name, _)| *name == Some(short));
    found
        .map(|(long, _, flag)| (*long, *flag))
        .ok_or_else(|| Refusal::Usage(Some(format!("unknown option -{short}"))))
}

/// Long options may be shortened as long as they stay unambiguous.
fn by_long(long: &str) -> Result<(&'static str, Flag), Refusal> {
    if let Some((name, _, flag)) = FLAGS.iter().find(|(name, ..)| *name == long) {
        return Ok((name, *flag));
    }
    let mut candidates = FLAGS.iter().filter(|(name, ..)| name.starts_with(long));
    match (candidates.next(), candidates.next()) {
        (Some((name, _, flag)), None) => Ok((name, *flag)),
        (Some(_), Some(_)) => Err(Refusal::Usage(Some(format!(
            "option --{long} is ambiguous"
        )))),
        _ => Err(Refusal::Usage(Some(format!("unknown option --{long}")))),
    }
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
        let mut value = || {
            parser
                .value()
                .map_err(|error| Refusal::Usage(Some(error.to_string())))
        };
        match flag {
            Flag::Config => options.config = Some(read_config(&value()?, read)?),
            Flag::Out => options.out = Some(value()?.into()),
            Flag::NoClobber => options.no_clobber = true,
            Flag::Txt => self.txt = true,
            Flag::TxtLossy => self.lossy = true,
            Flag::Background => options.background = Background::Yes,
            Flag::BackgroundWait => options.background = Background::Wait,
            Flag::NotifyFd => options.notify_fd = Some(number(name, &lossy(value()?))? as i32),
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
            Flag::CloneByName => self.clone_name = Some(lossy(value()?)),
            Flag::CloneForBugreport => self.clone_for_bugreport = true,
            Flag::Help | Flag::Version | Flag::ResetGuardrails | Flag::Unsupported { .. } => {}
        }
        Ok(())
    }

    /// The clone asked for, if one is.
    fn check_clone(&mut self) -> Result<Option<CloneOptions>, Refusal> {
        let source = match (self.clone_id, self.clone_name.take()) {
            (Some(_), Some(_)) => {
                return refuse("--clone and --clone-by-name are mutually exclusive");
            }
            (Some(id), None) => Source::Id(id),
            (None, Some(name)) => Source::Name(name),
            (None, None) if self.clone_for_bugreport => {
                return refuse("--clone-for-bugreport requires --clone or --clone-by-name");
            }
            (None, None) => return Ok(None),
        };
        if self.options.background != Background::No || self.options.notify_fd.is_some() {
            return refuse(
                "--clone in the background is not supported by this version of Ferretto",
            );
        }
        let Some(out) = self.options.out.take() else {
            return refuse("Either --out or --upload is required");
        };
        Ok(Some(CloneOptions {
            source,
            for_bugreport: self.clone_for_bugreport,
            out,
            no_clobber: self.options.no_clobber,
        }))
    }

    /// The checks that need all options, in upstream's order.
    fn check(mut self) -> Result<Action, Refusal> {
        let is_query = self.query || self.query_raw;
        if is_query && self.options.background != Background::No {
            return refuse("--query cannot be combined with any other argument");
        }
        if self.long && !self.query {
            return refuse("--long can only be used with --query");
        }
        if self.txt && self.lossy {
            return refuse("--txt and --txt-lossy are mutually exclusive");
        }
        if is_query && self.options.config.is_some() {
            return refuse("Cannot specify a trace config with this option");
        }
        let given = match &self.options.config {
            Some(Config::File { bytes, .. }) => !bytes.is_empty(),
            Some(Config::Test) => true,
            None => false,
        };
        if given && self.options.light.is_given() {
            return refuse(
                "Cannot specify both -c/--config and any of --time, --size, --buffer, --app, \
                 ATRACE_CAT, FTRACE_EVENT",
            );
        }
        if is_query {
            if self.options.out.is_some() {
                return refuse("Can't pass an --out file (or --upload) with this option");
            }
            return Ok(match self.query_raw {
                true => Action::QueryRaw,
                false => Action::Query { long: self.long },
            });
        }
        if let Some(options) = self.check_clone()? {
            return Ok(Action::Clone(options));
        }
        if !given && !self.options.light.is_given() {
            return refuse("The TraceConfig is empty");
        }
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
    let shown = match name == "-" {
        true => "stdin".to_owned(),
        false => name.to_string_lossy().into_owned(),
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

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Action, Refusal> {
        let read = |name: &OsStr| match name.to_str() {
            Some("cfg") => Ok(b"buffers {}".to_vec()),
            Some("empty" | "-") => Ok(Vec::new()),
            _ => Err(std::io::Error::from_raw_os_error(2)),
        };
        super::parse(args.iter().map(Into::into).collect(), read)
    }

    fn options(args: &[&str]) -> Options {
        match parse(args) {
            Ok(Action::Record(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    fn message(args: &[&str]) -> String {
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn cli_001_no_arguments_help_and_unknown_flags_give_the_usage() {
        for args in [&[][..], &["--help"], &["-h"], &["--no-such-flag"], &["-Z"]] {
            assert!(message(args).contains("Usage: perfetto"), "{args:?}");
        }
        assert_eq!(parse(&["--version"]), Ok(Action::Version));
        assert!(matches!(
            parse(&["--bad", "--version"]),
            Err(Refusal::Usage(_))
        ));
    }

    #[test]
    fn cli_002_each_conflict_has_its_message() {
        for (args, expected) in [
            (
                &["--query", "-d"][..],
                "--query cannot be combined with any other argument",
            ),
            (
                &["--long", "-c", "cfg"],
                "--long can only be used with --query",
            ),
            (
                &["--txt", "--txt-lossy"],
                "--txt and --txt-lossy are mutually exclusive",
            ),
            (
                &["--query", "-c", "cfg"],
                "Cannot specify a trace config with this option",
            ),
            (
                &["-c", "cfg", "-t", "1s"],
                "Cannot specify both -c/--config and any of --time",
            ),
            (&["-c", "cfg", "sched"], "Cannot specify both -c/--config"),
            (&["-o", "x"], "The TraceConfig is empty"),
            (
                &["--query", "-o", "x"],
                "Can't pass an --out file (or --upload) with this option",
            ),
            (
                &["--upload", "-c", "cfg"],
                "--upload is only supported on Android",
            ),
            (&["--attach", "key"], "--attach is not supported"),
            (&["--clone", "3"], "Either --out or --upload is required"),
            (
                &["--clone", "3", "--clone-by-name", "s"],
                "--clone and --clone-by-name are mutually exclusive",
            ),
            (
                &["--clone-for-bugreport"],
                "--clone-for-bugreport requires --clone or --clone-by-name",
            ),
        ] {
            assert!(
                message(args).contains(expected),
                "{args:?}: {}",
                message(args)
            );
        }
    }

    #[test]
    fn cli_003_a_missing_config_is_named() {
        assert!(message(&["-c", "missing"]).starts_with("Could not open missing"));
    }

    #[test]
    fn cli_005_empty_configs_are_refused() {
        assert_eq!(
            message(&["-c", "empty", "-o", "x"]),
            "The TraceConfig is empty"
        );
        assert_eq!(message(&["-c", "-", "-o", "x"]), "The TraceConfig is empty");
        // But an empty one does not stand in the way of light options.
        assert_eq!(options(&["-c", "-", "-t", "1s", "-o", "x"]).config, None);
    }

    #[test]
    fn cli_006_attributes_split_at_the_first_equals_sign() {
        let attributes =
            options(&["-c", "cfg", "--add-attribute", "a=b=c", "--add-attribute=x"]).attributes;
        assert_eq!(
            attributes,
            [("a".into(), "b=c".into()), ("x".into(), String::new())]
        );
        for wrong in ["=x", ""] {
            assert_eq!(
                message(&["-c", "cfg", "--add-attribute", wrong]),
                "add-attribute: key must be non-empty"
            );
        }
    }

    #[test]
    fn options_may_be_shortened_and_stand_anywhere() {
        let options = options(&[
            "sched/sched_switch",
            "--tim=5s",
            "-oout",
            "freq",
            "--buff",
            "4mb",
        ]);
        assert_eq!(options.light.events, ["sched/sched_switch", "freq"]);
        assert_eq!(options.light.time.as_deref(), Some("5s"));
        assert_eq!(options.light.buffer.as_deref(), Some("4mb"));
        assert_eq!(options.out.as_deref(), Some("out".as_ref()));
        assert!(message(&["--no", "-c", "cfg"]).contains("ambiguous"));
    }
}
