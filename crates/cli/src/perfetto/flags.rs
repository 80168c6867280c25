//! The options of `perfetto`: their names and the usage text.

use std::fmt;

use crate::usage::{self, Row};

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

/// The options that go together in the usage text.
struct Section {
    heading: &'static str,
    options: &'static [(Flag, &'static str, &'static str)],
    /// The arguments without the name of an option.
    operands: &'static [Row<'static>],
}

macro_rules! flags {
    ($($heading:literal {
        $($flag:ident $typed:literal $meaning:literal)*
        $(; $($operand:literal $of_operand:literal)*)?
    })*) => {
        /// An option.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Flag {
            $($($flag,)*)*
        }

        const SECTIONS: &[Section] = &[$(Section {
            heading: $heading,
            options: &[$((Flag::$flag, $typed, $meaning),)*],
            operands: &[$($(Row { typed: $operand, meaning: $of_operand },)*)?],
        },)*];
    };
}

// Each option as it is typed, with a placeholder of its value, and its meaning. Those without a
// meaning are not shown: they are taken for the sake of scripts, or to be refused, as by upstream.
flags! {
    "" {
        Config "-c, --config FILE" "the trace config; - is standard input,\n:test a built-in one of two seconds"
        Out "-o, --out FILE" "where the trace goes; - is standard output"
        NoClobber "    --no-clobber" "fail if that file exists"
        Txt "    --txt" "the config is in text form"
        TxtLossy "    --txt-lossy" "the same, leaving out what is unknown"
        AddAttribute "    --add-attribute K=V" "note K=V in the trace; can be repeated"
        Background "-d, --background" "go on in the background, print the process id"
        BackgroundWait "-D, --background-wait" "the same, after all data sources have started"
        NotifyFd "    --notify-fd FD" "stay, but write a byte to FD when they have: 0, or 1 for\na recording that failed before"
        Query "    --query" "show the state of the tracing service"
        QueryLong "    --long" "with --query: do not shorten the last column"
        QueryRaw "    --query-raw" "write that state to standard output in binary"
        Version "    --version" "show the version"
        Help "-h, --help" ""
        ResetGuardrails "    --reset-guardrails" ""
        AlertId "    --alert-id N" ""
        ConfigId "    --config-id N" ""
        ConfigUid "    --config-uid N" ""
        SubscriptionId "    --subscription-id N" ""
        Upload "    --upload" ""
        Dropbox "    --dropbox" ""
        NoGuardrails "    --no-guardrails" ""
    }
    "Without a config:" {
        Time "-t, --time N{ms,s,m,h}" "how long (default 10s)"
        Buffer "-b, --buffer N{kb,mb,gb}" "size of the buffer (default 32mb)"
        Size "-s, --size N{kb,mb,gb}" "stream into the file, up to this size"
        App "-a, --app NAME" "trace this Android app"
        ;
        "GROUP/EVENT" "kernel events, for example sched/sched_switch"
        "CATEGORY" "atrace categories, for example sched, freq"
    }
    "Copies of sessions that run:" {
        Clone "    --clone ID" "write what the session of this number holds into -o"
        CloneByName "    --clone-by-name NAME" "the same for the session of this name"
        CloneForBugreport "    --clone-for-bugreport" "with either: do not apply its filter"
        SaveForBugreport "    --save-for-bugreport" "clone the one with the highest bugreport_score, into -o or\nsystrace.pftrace in the folder for temporary files"
        SaveAllForBugreport "    --save-all-for-bugreport" "clone each with a bugreport_score, into files there"
    }
    "Sessions that go on without this process (they write into their file):" {
        Detach "    --detach KEY" "start one and leave it under this key"
        IsDetached "    --is_detached KEY" "return 0 if there is one, 2 if not, 1 after an error"
        Attach "    --attach KEY [--stop]" "wait for its end, or end it; 2 if there is none"
        Stop "    --stop" ""
    }
}

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
        let shown = section.options.iter();
        let shown = shown.filter(|(_, _, meaning)| !meaning.is_empty());
        let rows = shown.map(|&(_, typed, meaning)| Row { typed, meaning });
        usage::add(&mut text, COLUMN, rows);
        usage::add(&mut text, COLUMN, section.operands.iter().copied());
    }
    text + ENDING
}

/// Returns short name, long name and flag of all options.
fn all() -> impl Iterator<Item = (Option<char>, &'static str, Flag)> {
    let options = SECTIONS.iter().flat_map(|section| section.options);
    options.filter_map(|&(flag, typed, _)| {
        let (before, long) = typed.split_once("--")?;
        let short = before
            .strip_prefix('-')
            .and_then(|rest| rest.chars().next());
        Some((short, long.split(' ').next()?, flag))
    })
}

pub(super) fn by_short(short: char) -> Result<(&'static str, Flag), Refusal> {
    all()
        .find(|(name, ..)| *name == Some(short))
        .map(|(_, long, flag)| (long, flag))
        .ok_or_else(|| Refusal::Usage(Some(format!("unknown option -{short}"))))
}

/// Finds a long option. It may be shortened as long as it stays unambiguous.
pub(super) fn by_long(long: &str) -> Result<(&'static str, Flag), Refusal> {
    if let Some((_, name, flag)) = all().find(|(_, name, _)| *name == long) {
        return Ok((name, flag));
    }
    let mut candidates = all().filter(|(_, name, _)| name.starts_with(long));
    match (candidates.next(), candidates.next()) {
        (Some((_, name, flag)), None) => Ok((name, flag)),
        (Some(_), Some(_)) => Err(Refusal::Usage(Some(format!(
            "option --{long} is ambiguous"
        )))),
        _ => Err(Refusal::Usage(Some(format!("unknown option --{long}")))),
    }
}
