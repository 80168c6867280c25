//! The options of `perfetto`: their names and the usage text.

use super::args::Refusal;

/// What one option is.
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
    ("save-for-bugreport", None, Flag::SaveForBugreport),
    ("save-all-for-bugreport", None, Flag::SaveAllForBugreport),
    ("detach", None, Flag::Detach),
    ("attach", None, Flag::Attach),
    ("stop", None, Flag::Stop),
    ("is_detached", None, Flag::IsDetached),
];

/// The usage text.
pub(super) const USAGE: &str = "\
Usage: perfetto [OPTIONS] -c CONFIG -o FILE
       perfetto [OPTIONS] -t TIME -o FILE [GROUP/EVENT | CATEGORY]...
       perfetto --clone ID -o FILE
       perfetto --attach KEY [--stop]
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
      --notify-fd FD       stay, but write a byte to FD when they have: 0, or 1 for
                           a recording that failed before
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

Copies of sessions that run:
      --clone ID           write what the session of this number holds into -o
      --clone-by-name NAME the same for the session of this name
      --clone-for-bugreport  with either: do not apply its filter
      --save-for-bugreport clone the one with the highest bugreport_score, into -o or
                           systrace.pftrace in the folder for temporary files
      --save-all-for-bugreport  clone each with a bugreport_score, into files there

Sessions that go on without this process (they write into their file):
      --detach KEY         start one and leave it under this key
      --is_detached KEY    return 0 if there is one, 2 if not, 1 after an error
      --attach KEY [--stop]  wait for its end, or end it; 2 if there is none

Exit codes:
  0  done. Also for what the service refuses: look for \"Service error\"
  1  wrong options, no connection, a file that cannot be written
  2  --attach and --is_detached: no such session; -D: not all have started in time

Environment:
  PERFETTO_CONSUMER_SOCK_NAME   where the tracing service listens
  FERRETTO_STRICT_EXIT=1        return 1 for what the service refuses, too
";

pub(super) fn by_short(short: char) -> Result<(&'static str, Flag), Refusal> {
    let found = FLAGS.iter().find(|(_, name, _)| *name == Some(short));
    found
        .map(|(long, _, flag)| (*long, *flag))
        .ok_or_else(|| Refusal::Usage(Some(format!("unknown option -{short}"))))
}

/// Long options may be shortened as long as they stay unambiguous.
pub(super) fn by_long(long: &str) -> Result<(&'static str, Flag), Refusal> {
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
