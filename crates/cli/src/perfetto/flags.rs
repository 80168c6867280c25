//! The options of `perfetto`: their names and the usage text.

use std::fmt;

use crate::usage::{self, Row};

/// The meaning of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
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
    SaveForBugreport,
    SaveAllForBugreport,
    Detach,
    Attach,
    Stop,
    IsDetached,
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
            Self::Usage(None) => f.write_str(&usage()),
            Self::Usage(Some(reason)) => write!(f, "{reason}\n{}", usage()),
            Self::Message(message) => f.write_str(message),
        }
    }
}

/// One option.
struct Entry {
    long: &'static str,
    short: Option<char>,
    flag: Flag,
    /// The placeholder of its value, if it takes one, and the options that go with it.
    value: &'static str,
    /// Empty for those that are only taken for the sake of scripts.
    meaning: &'static str,
}

const fn entry(
    long: &'static str,
    short: Option<char>,
    flag: Flag,
    value: &'static str,
    meaning: &'static str,
) -> Entry {
    Entry {
        long,
        short,
        flag,
        value,
        meaning,
    }
}

/// Options that go together in the usage text.
struct Section {
    heading: &'static str,
    entries: &'static [Entry],
    /// The arguments without the name of an option.
    operands: &'static [Row<'static>],
}

const SECTIONS: &[Section] = &[
    Section {
        heading: "",
        entries: &[
            entry(
                "config",
                Some('c'),
                Flag::Config,
                "FILE",
                "the trace config; - is standard input,\n:test a built-in one of two seconds",
            ),
            entry(
                "out",
                Some('o'),
                Flag::Out,
                "FILE",
                "where the trace goes; - is standard output",
            ),
            entry(
                "no-clobber",
                None,
                Flag::NoClobber,
                "",
                "fail if that file exists",
            ),
            entry("txt", None, Flag::Txt, "", "the config is in text form"),
            entry(
                "txt-lossy",
                None,
                Flag::TxtLossy,
                "",
                "the same, leaving out what is unknown",
            ),
            entry(
                "add-attribute",
                None,
                Flag::AddAttribute,
                "K=V",
                "note K=V in the trace; can be repeated",
            ),
            entry(
                "background",
                Some('d'),
                Flag::Background,
                "",
                "go on in the background, print the process id",
            ),
            entry(
                "background-wait",
                Some('D'),
                Flag::BackgroundWait,
                "",
                "the same, after all data sources have started",
            ),
            entry(
                "notify-fd",
                None,
                Flag::NotifyFd,
                "FD",
                "stay, but write a byte to FD when they have: 0, or 1 for\na recording that failed before",
            ),
            entry(
                "query",
                None,
                Flag::Query,
                "",
                "show the state of the tracing service",
            ),
            entry(
                "long",
                None,
                Flag::QueryLong,
                "",
                "with --query: do not shorten the last column",
            ),
            entry(
                "query-raw",
                None,
                Flag::QueryRaw,
                "",
                "write that state to standard output in binary",
            ),
            entry("version", None, Flag::Version, "", "show the version"),
            entry("help", Some('h'), Flag::Help, "", ""),
            entry("reset-guardrails", None, Flag::ResetGuardrails, "", ""),
            entry("alert-id", None, Flag::AlertId, "N", ""),
            entry("config-id", None, Flag::ConfigId, "N", ""),
            entry("config-uid", None, Flag::ConfigUid, "N", ""),
            entry("subscription-id", None, Flag::SubscriptionId, "N", ""),
            entry("upload", None, Flag::Upload, "", ""),
            entry("dropbox", None, Flag::Dropbox, "", ""),
            entry("no-guardrails", None, Flag::NoGuardrails, "", ""),
        ],
        operands: &[],
    },
    Section {
        heading: "Without a config:",
        entries: &[
            entry(
                "time",
                Some('t'),
                Flag::Time,
                "N{ms,s,m,h}",
                "how long (default 10s)",
            ),
            entry(
                "buffer",
                Some('b'),
                Flag::Buffer,
                "N{kb,mb,gb}",
                "size of the buffer (default 32mb)",
            ),
            entry(
                "size",
                Some('s'),
                Flag::Size,
                "N{kb,mb,gb}",
                "stream into the file, up to this size",
            ),
            entry(
                "app",
                Some('a'),
                Flag::App,
                "NAME",
                "trace this Android app",
            ),
        ],
        operands: &[
            Row {
                typed: "GROUP/EVENT",
                meaning: "kernel events, for example sched/sched_switch",
            },
            Row {
                typed: "CATEGORY",
                meaning: "atrace categories, for example sched, freq",
            },
        ],
    },
    Section {
        heading: "Copies of sessions that run:",
        entries: &[
            entry(
                "clone",
                None,
                Flag::Clone,
                "ID",
                "write what the session of this number holds into -o",
            ),
            entry(
                "clone-by-name",
                None,
                Flag::CloneByName,
                "NAME",
                "the same for the session of this name",
            ),
            entry(
                "clone-for-bugreport",
                None,
                Flag::CloneForBugreport,
                "",
                "with either: do not apply its filter",
            ),
            entry(
                "save-for-bugreport",
                None,
                Flag::SaveForBugreport,
                "",
                "clone the one with the highest bugreport_score, into -o or\nsystrace.pftrace in the folder for temporary files",
            ),
            entry(
                "save-all-for-bugreport",
                None,
                Flag::SaveAllForBugreport,
                "",
                "clone each with a bugreport_score, into files there",
            ),
        ],
        operands: &[],
    },
    Section {
        heading: "Sessions that go on without this process (they write into their file):",
        entries: &[
            entry(
                "detach",
                None,
                Flag::Detach,
                "KEY",
                "start one and leave it under this key",
            ),
            entry(
                "is_detached",
                None,
                Flag::IsDetached,
                "KEY",
                "return 0 if there is one, 2 if not, 1 after an error",
            ),
            entry(
                "attach",
                None,
                Flag::Attach,
                "KEY [--stop]",
                "wait for its end, or end it; 2 if there is none",
            ),
            entry("stop", None, Flag::Stop, "", ""),
        ],
        operands: &[],
    },
];

/// The column that meanings begin at.
const COLUMN: usize = 27;

const SYNOPSIS: &str = "\
Usage: perfetto [OPTIONS] -c CONFIG -o FILE
       perfetto [OPTIONS] -t TIME -o FILE [GROUP/EVENT | CATEGORY]...
       perfetto --clone ID -o FILE
       perfetto --attach KEY [--stop]
       perfetto --query
";

const ENDING: &str = "
Exit codes:
  0  done. Also for what the service refuses: look for \"Service error\"
  1  wrong options, no connection, a file that cannot be written
  2  --attach and --is_detached: no such session; -D: not all have started in time

Environment:
  PERFETTO_CONSUMER_SOCK_NAME   where the tracing service listens
  FERRETTO_STRICT_EXIT=1        return 1 for what the service refuses, too
";

/// Returns the usage text.
pub(super) fn usage() -> String {
    let mut text = SYNOPSIS.to_owned();
    for section in SECTIONS {
        text.push('\n');
        if !section.heading.is_empty() {
            text += section.heading;
            text.push('\n');
        }
        let shown = section
            .entries
            .iter()
            .filter(|entry| !entry.meaning.is_empty());
        let typed: Vec<(String, &str)> = shown
            .map(|entry| {
                let short = entry
                    .short
                    .map_or_else(|| "   ".to_owned(), |short| format!("-{short},"));
                (
                    format!("{short} {}", usage::long(entry.long, entry.value)),
                    entry.meaning,
                )
            })
            .collect();
        let rows = typed.iter().map(|(typed, meaning)| Row { typed, meaning });
        usage::add(&mut text, COLUMN, rows);
        usage::add(&mut text, COLUMN, section.operands.iter().copied());
    }
    text + ENDING
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.iter().flat_map(|section| section.entries)
}

pub(super) fn by_short(short: char) -> Result<(&'static str, Flag), Refusal> {
    entries()
        .find(|entry| entry.short == Some(short))
        .map(|entry| (entry.long, entry.flag))
        .ok_or_else(|| Refusal::Usage(Some(format!("unknown option -{short}"))))
}

/// Finds a long option. It may be shortened as long as it stays unambiguous.
pub(super) fn by_long(long: &str) -> Result<(&'static str, Flag), Refusal> {
    if let Some(entry) = entries().find(|entry| entry.long == long) {
        return Ok((entry.long, entry.flag));
    }
    let mut candidates = entries().filter(|entry| entry.long.starts_with(long));
    match (candidates.next(), candidates.next()) {
        (Some(entry), None) => Ok((entry.long, entry.flag)),
        (Some(_), Some(_)) => Err(Refusal::Usage(Some(format!(
            "option --{long} is ambiguous"
        )))),
        _ => Err(Refusal::Usage(Some(format!("unknown option --{long}")))),
    }
}
