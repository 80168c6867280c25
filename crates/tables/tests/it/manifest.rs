//! Manifests of archives: the machines and clocks of the other members.

use crate::common::{encode, import_bytes, rows};
use ferretto_tables::{ImportError, Options, Trace};

const JSON: &[u8] = br#"[{"ph":"X","ts":2000,"dur":1,"name":"of_json","pid":3,"tid":3}]"#;

/// Returns a trace with boot time and real time, a slice of machine 0 and one of machine 7.
fn machines() -> Vec<u8> {
    encode(
        r#"packet { trusted_packet_sequence_id: 1 clock_snapshot { primary_trace_clock: BUILTIN_CLOCK_BOOTTIME
             clocks { clock_id: 6 timestamp: 100 } clocks { clock_id: 1 timestamp: 1700 } } }
           packet { trusted_packet_sequence_id: 1 timestamp: 1100 track_event { type: TYPE_INSTANT name: "of_0" } }
           packet { trusted_packet_sequence_id: 2 machine_id: 7 timestamp: 1200
             track_event { type: TYPE_INSTANT name: "of_7" } }"#,
    )
}

/// Returns an uncompressed archive in the format of `tar`.
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in members {
        let mut head = [0_u8; 512];
        head[..name.len()].copy_from_slice(name.as_bytes());
        head[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
        head[156] = b'0';
        head[257..265].copy_from_slice(b"ustar\x0000");
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(head);
        archive.extend(*bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

fn with(manifest: &str, members: &[(&str, &[u8])]) -> Vec<u8> {
    let manifest = format!(r#"{{"perfetto_manifest": {manifest}}}"#);
    let mut all = members.to_vec();
    all.push(("manifest.json", manifest.as_bytes()));
    tar(&all)
}

fn error(manifest: &str) -> String {
    let archive = with(manifest, &[("a.pb", &machines()), ("b.json", JSON)]);
    match Trace::read(&archive[..], &Options::default()) {
        Err(ImportError::Parse { reason, .. }) => reason,
        other => panic!("{manifest}: {other:?}"),
    }
}

#[test]
fn files_have_machines_with_names() {
    let manifest = r#"{"version": 1, "files": [
        {"path": "a.pb", "machines": [{"id": 0, "name": "phone"}, {"id": 7, "name": "watch"}]},
        {"path": "b.json", "machine": {"name": "watch"},
         "clocks": {"sync_to": {"file": "a.pb", "machine": "phone", "clock": "BOOTTIME"}, "offset_ns": 5}}],
        "attributes": {"run": 3, "of": "me"}}"#;
    let trace = import_bytes(&with(manifest, &[("b.json", JSON), ("a.pb", &machines())]));
    assert_eq!(
        rows(&trace, "machine", "raw_id name"),
        ["4294967296 phone", "4294967297 watch"]
    );
    let tracks = rows(&trace, "track", "machine_id");
    let slices = rows(&trace, "slice", "name ts track_id");
    let of = |line: &String| {
        let (slice, track) = line.rsplit_once(' ').expect("a track");
        format!(
            "{slice} {}",
            tracks[track.parse::<usize>().expect("a number")]
        )
    };
    assert_eq!(
        slices.iter().map(of).collect::<Vec<_>>(),
        ["of_0 1100 0", "of_7 1200 1", "of_json 2000005 1"]
    );
    let facts = rows(&trace, "metadata", "name int_value str_value");
    assert!(facts.contains(&"manifest_attribute.run 3 NULL".to_owned()));
    assert!(facts.contains(&"manifest_attribute.of NULL me".to_owned()));
    let files = rows(&trace, "trace_file", "name trace_type processing_order");
    assert_eq!(
        files[1..],
        [
            "b.json json 3",
            "a.pb proto 2",
            "manifest.json perfetto_manifest 1"
        ]
    );
}

#[test]
fn the_manifest_can_name_the_clock_of_all_times() {
    let manifest = r#"{"version": 1, "trace_time": {"clock": "REALTIME"}}"#;
    let trace = import_bytes(&with(manifest, &[("a.pb", &machines())]));
    assert_eq!(rows(&trace, "slice", "name ts")[0], "of_0 2700");
}

#[test]
fn a_manifest_that_breaks_a_rule_is_refused() {
    let cases = [
        ("{}", "missing required field: version"),
        (r#"{"version": 2}"#, "unsupported version: 2"),
        (
            r#"{"version": 1, "trace_time": {"clock": "WALL"}}"#,
            "unknown clock name: WALL",
        ),
        (
            r#"{"version": 1, "files": [{"path": "a.pb", "machine": {"name": "x"}}]}"#,
            "Replace `machine` with a `machines` block",
        ),
        (
            r#"{"version": 1, "files": [{"path": "a.pb", "machines": [{"id": 0, "name": "x"}]}]}"#,
            "undeclared machine id 7",
        ),
        (
            r#"{"version": 1, "files": [{"path": "a.pb",
                "clocks": {"sync_to": {"file": "c.pb"}}}]}"#,
            "sync_to.file names unknown file 'c.pb'",
        ),
        (
            r#"{"version": 1, "files": [{"path": "a.pb"}, {"path": "b.json",
                "clocks": {"sync_to": {"file": "a.pb", "machine": "x"}}}]}"#,
            "'x' is not a machine declared by file 'a.pb'",
        ),
        (
            r#"{"version": 1, "files": [{"path": "b.json"}, {"path": "a.pb",
                "clocks": {"sync_to": {"file": "b.json"}}}]}"#,
            "clock overrides require the trace to use a single clock",
        ),
    ];
    for (manifest, expected) in cases {
        let error = error(manifest);
        assert!(error.contains(expected), "{manifest}: {error}");
    }
}
