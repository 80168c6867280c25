//! The journal of systemd, read by a program that behaves like `journalctl`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::Packets;
use ferretto_probes::{DataSource, Journal};
use ferretto_proto::trace_packet::Data;
use ferretto_proto::{SystemdJournaldConfig, SystemdJournaldEvent};
use tempfile::TempDir;

/// A journal: a file of entries, and a program that reads it, as `journalctl` would.
struct TestJournal {
    folder: TempDir,
}

const PROGRAM: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
after=
follow=
for argument; do
  case $argument in
    --after-cursor=*) after=${argument#*=} ;;
    --follow) follow=1 ;;
  esac
done
if [ "$follow" ]; then
  printf '%s\n' "$@" > arguments
  [ -e broken ] && exit 1
  exec tail -n +1 -f journal
fi
[ -e slow ] && exec sleep 60
awk -v after="__CURSOR=$after" 'BEGIN { RS = ""; ORS = "\n\n" }
  found || after == "__CURSOR=" { print }
  index($0, after "\n") == 1 { found = 1 }' journal
"#;

impl TestJournal {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = Self { folder };
        fs::write(journal.file("journal"), "").unwrap();
        // Written under another name: nobody has it open for writing when it is run.
        fs::write(journal.file("new"), PROGRAM).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(journal.file("new"), mode).unwrap();
        let copy = std::process::Command::new("cp")
            .arg(journal.file("new"))
            .arg(journal.program())
            .status();
        assert!(copy.unwrap().success());
        journal
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self) -> PathBuf {
        self.file("journalctl")
    }

    fn say(&self, number: u64, fields: &str) {
        let mut file = OpenOptions::new().append(true).open(self.file("journal"));
        let entry = format!("__CURSOR=c{number}\n__MONOTONIC_TIMESTAMP={number}\n{fields}\n");
        let file = file.as_mut().unwrap();
        file.write_all(entry.as_bytes()).unwrap();
    }

    fn record(&self, config: &SystemdJournaldConfig) -> (Journal, Packets) {
        let packets = Packets::default();
        let sink = Box::new(packets.clone());
        let mut journal = Journal::with_program(&self.program(), config, sink).unwrap();
        journal.start();
        (journal, packets)
    }

    fn arguments(&self) -> Vec<String> {
        let arguments = until(|| {
            let arguments = fs::read_to_string(self.file("arguments")).ok()?;
            arguments.contains("--no-tail").then_some(arguments)
        });
        arguments.lines().map(str::to_owned).collect()
    }
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the events of the packets, with their times and clocks.
fn events(packets: &Packets) -> Vec<(u64, u32, SystemdJournaldEvent)> {
    let packets = packets.decoded();
    let events = packets.iter().map(|packet| {
        let Some(Data::JournaldEvent(event)) = &packet.data else {
            panic!("{packet:?}")
        };
        let clock = packet.timestamp_clock_id.unwrap();
        (packet.timestamp.unwrap(), clock, (**event).clone())
    });
    events.collect()
}

fn messages(packets: &Packets) -> Vec<String> {
    let messages = events(packets).into_iter();
    let messages = messages.filter_map(|(_, _, event)| event.message);
    messages
        .map(|message| String::from_utf8(message).unwrap())
        .collect()
}

#[test]
fn probes_067_each_entry_is_one_packet_and_each_flush_adds_one_of_statistics() {
    let journal = TestJournal::new();
    let (mut source, packets) = journal.record(&SystemdJournaldConfig::default());
    journal.say(
        5,
        "PRIORITY=3\n_PID=12\n_TID=13\n_UID=0\n_GID=x\nSYSLOG_IDENTIFIER=tag\nMESSAGE=hello\n_COMM=\n\
         _EXE=/bin/true\n_SYSTEMD_UNIT=a.service\n_HOSTNAME=box\n_TRANSPORT=stdout\n",
    );
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    until(|| {
        source.poll();
        (!events(&packets).is_empty()).then_some(())
    });
    let expected = SystemdJournaldEvent {
        pid: Some(12),
        tid: Some(13),
        uid: Some(0),
        prio: Some(3),
        tag: bytes("tag"),
        message: bytes("hello"),
        exe: bytes("/bin/true"),
        systemd_unit: bytes("a.service"),
        hostname: bytes("box"),
        transport: bytes("stdout"),
        ..Default::default()
    };
    assert_eq!(events(&packets), [(5000, 3, expected)]);
    // A flush finds all entries before it, and none appears twice.
    for number in 6..50 {
        journal.say(number, &format!("MESSAGE=message {number}\n"));
        if number % 3 == 0 {
            source.poll();
        }
        if number % 10 == 0 {
            source.flush();
            assert_eq!(messages(&packets).len() as u64, number - 4);
        }
    }
    source.flush();
    let seen = messages(&packets);
    assert_eq!(seen.len(), 45);
    assert!(
        seen[1..]
            .iter()
            .zip(6..)
            .all(|(text, n)| *text == format!("message {n}"))
    );
    // Polling finds entries without a flush, too.
    journal.say(50, "MESSAGE=last\n");
    until(|| {
        source.poll();
        (messages(&packets).len() > 45).then_some(())
    });
    assert_eq!(messages(&packets).last().unwrap(), "last");
    source.flush();
    let (_, clock, statistics) = events(&packets).pop().unwrap();
    assert_eq!(clock, 6);
    let expected = SystemdJournaldEvent {
        num_total: Some(46),
        num_failed: Some(0),
        ..Default::default()
    };
    assert_eq!(statistics, expected);
}

#[test]
fn probes_067_conditions_of_one_field_are_alternatives_and_levels_end_at_seven() {
    let journal = TestJournal::new();
    let levels = |most: u32| (0..=most).map(|level| format!("PRIORITY={level}"));
    let asked = |config: &SystemdJournaldConfig| {
        let _ = fs::remove_file(journal.file("arguments"));
        let (_source, _) = journal.record(config);
        let arguments = journal.arguments();
        assert!(arguments.iter().any(|it| it.starts_with("--since=@")));
        let is_condition = |it: &String| !it.starts_with("--");
        arguments
            .into_iter()
            .filter(is_condition)
            .collect::<Vec<_>>()
    };
    assert!(
        asked(&SystemdJournaldConfig::default())
            .into_iter()
            .eq(levels(7))
    );
    for (min_prio, most) in [(0, 0), (4, 4), (u32::MAX, 7)] {
        let config = SystemdJournaldConfig {
            min_prio: Some(min_prio),
            ..Default::default()
        };
        assert!(asked(&config).into_iter().eq(levels(most)));
    }
    let config = SystemdJournaldConfig {
        min_prio: Some(0),
        filter_identifiers: vec![b"a".to_vec(), b"--rotate".to_vec()],
        filter_units: vec![b"x.service".to_vec()],
        ..Default::default()
    };
    let expected = [
        "PRIORITY=0",
        "SYSLOG_IDENTIFIER=a",
        "SYSLOG_IDENTIFIER=--rotate",
        "_SYSTEMD_UNIT=x.service",
    ];
    assert_eq!(asked(&config), expected);
}

#[test]
fn a_flush_does_not_wait_for_a_journal_that_does_not_answer() {
    let journal = TestJournal::new();
    fs::write(journal.file("slow"), "").unwrap();
    let (mut source, packets) = journal.record(&SystemdJournaldConfig::default());
    assert!(!source.begin_flush(), "the program sleeps");
    assert!(!source.begin_flush(), "nor does the next one");
    assert!(events(&packets).is_empty());
    until(|| source.is_flushed().then_some(()));
    let (_, _, statistics) = events(&packets).pop().unwrap();
    assert_eq!(statistics.num_total, Some(0));
}

#[test]
fn a_program_that_ends_or_never_answers_costs_no_more_than_what_it_did_not_say() {
    let journal = TestJournal::new();
    fs::write(journal.file("broken"), "").unwrap();
    fs::write(journal.file("slow"), "").unwrap();
    let (mut source, packets) = journal.record(&SystemdJournaldConfig::default());
    until(|| {
        source.poll();
        source.flush();
        let (_, _, statistics) = events(&packets).pop().unwrap();
        (statistics.num_failed == Some(1)).then_some(())
    });
    let none = Journal::with_program(
        &journal.file("none"),
        &SystemdJournaldConfig::default(),
        Box::new(packets.clone()),
    );
    let mut none = none.unwrap();
    none.start();
    none.poll();
    none.flush();
    let (_, _, statistics) = events(&packets).pop().unwrap();
    assert_eq!(statistics.num_failed, Some(1));
    for filter in [vec![0], vec![b'x'; 100_000]] {
        let config = SystemdJournaldConfig {
            filter_units: vec![filter],
            ..Default::default()
        };
        let sink = Box::new(Packets::default());
        assert!(Journal::with_program(&journal.program(), &config, sink).is_err());
    }
}
