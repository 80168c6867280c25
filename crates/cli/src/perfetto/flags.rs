//! The options of `perfetto`: their names and the usage text.

use std::fmt;

use crate::usage::{self, Row};

/// The reason for refusing a command line. The exit code is always 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The usage text, alone or after a reason.
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

/// A section of the usage text.
struct Section {
    heading: &'static str,
    options: &'static [(Flag, &'static str, &'static str)],
    /// The positional arguments.
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

// Each option as it is typed, with a placeholder for its value, and its meaning. Options without a
// meaning are not shown: they are accepted for scripts, or refused, as by upstream.
flags! {
    "" {
        Config "-c, --config FILE" "the trace config; - is standard input,\n:test a built-in one of two seconds"
        Out "-o, --out FILE" "the file for the trace; - is standard output"
        NoClobber "    --no-clobber" "fail if that file exists"
        Txt "    --txt" "the config is in text format"
        TxtLossy "    --txt-lossy" "the same, ignoring unknown fields"
        AddAttribute "    --add-attribute K=V" "add K=V to the trace; can be repeated"
        Background "-d, --background" "continue in the background, print the process id"
        BackgroundWait "-D, --background-wait" "the same, after all data sources have started"
        NotifyFd "    --notify-fd FD" "stay in the foreground, and write a byte to FD after their\nstart: 0, or 1 if the recording has failed"
        Query "    --query" "show the state of the tracing service"
        QueryLong "    --long" "with --query: do not shorten the last column"
        QueryRaw "    --query-raw" "write the state to standard output in binary"
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
        Time "-t, --time N{ms,s,m,h}" "the duration (default 10s)"
        Buffer "-b, --buffer N{kb,mb,gb}" "size of the buffer (default 32mb)"
        Size "-s, --size N{kb,mb,gb}" "stream into the file, up to this size"
        App "-a, --app NAME" "trace this Android app"
        ;
        "GROUP/EVENT" "kernel events, for example sched/sched_switch"
        "CATEGORY" "atrace categories, for example sched, freq"
    }
    "Clones of running sessions:" {
        Clone "    --clone ID" "write a clone of the session with this id into -o"
        CloneByName "    --clone-by-name NAME" "the same for the session with this name"
        CloneForBugreport "    --clone-for-bugreport" "with either: do not apply the session's filter"
        SaveForBugreport "    --save-for-bugreport" "clone the session with the highest bugreport_score, into -o\nor systrace.pftrace in the folder for temporary files"
        SaveAllForBugreport "    --save-all-for-bugreport" "clone each session with a bugreport_score, into that folder"
    }
    "Sessions that continue without this process (with write_into_file):" {
        Detach "    --detach KEY" "start a session and detach it under this key"
        IsDetached "    --is_detached KEY" "return 0 if there is such a session, 2 if not, 1 on errors"
        Attach "    --attach KEY [--stop]" "wait for its end, or end it; return 2 if there is none"
        Stop "    --stop" ""
    }
}

/// The column of the meanings.
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
  0  success, also if the service refuses the request: look for \"Service error\"
  1  wrong options, no connection, or a file that cannot be written
  2  --attach and --is_detached: no such session; -D: data sources did not start in time

Environment:
  PERFETTO_CONSUMER_SOCK_NAME   the address of the tracing service
  FERRETTO_STRICT_EXIT=1        return 1 also if the service refuses the request
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

/// Finds a long option. Unambiguous prefixes are allowed.
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
