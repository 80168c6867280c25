//! Files of `perf record`, built here, and recorded by `perf` if it is installed.

use std::io::Cursor;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use ferretto_foreign::{Options, import};
use ferretto_proto::fields::trace_packet;
use ferretto_tables::Trace;
use ferretto_wire::Fields;

use super::{imported, tables};

/// Fields of samples: identifier, address, task, time, CPU, period, callchain.
const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 2 | 4 | 1 << 7 | 1 << 8 | 1 << 5;
const SAMPLE_ID_ALL: u64 = 1 << 18;

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = (8 + body.len()) as u16;
    [
        &kind.to_ne_bytes()[..],
        &misc.to_ne_bytes(),
        &size.to_ne_bytes(),
        body,
    ]
    .concat()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize((text.len() / 8 + 1) * 8, 0);
    bytes
}

/// The fields at the end of records other than samples: task, time, CPU, identifier.
fn end(pid: u32, tid: u32, time: u64) -> Vec<u8> {
    words(&[pair(pid, tid), time, 0, 1])
}

fn comm(pid: u32, tid: u32, time: u64, name: &str) -> Vec<u8> {
    let body = [words(&[pair(pid, tid)]), text(name), end(pid, tid, time)];
    record(3, 0, &body.concat())
}

fn mapping(pid: u32, time: u64, (start, length): (u64, u64), path: &str) -> Vec<u8> {
    let range = words(&[pair(pid, pid), start, length, 0x1000, 0, 0, 0, 0]);
    record(10, 2, &[range, text(path), end(pid, pid, time)].concat())
}

fn sample(id: u64, (pid, tid): (u32, u32), time: u64, chain: &[u64]) -> Vec<u8> {
    let address = chain.last().copied().unwrap_or(0);
    let head = [id, address, pair(pid, tid), time, 1, 10, chain.len() as u64];
    record(9, 2, &[words(&head), words(chain)].concat())
}

/// Returns the records of the file. As with several CPUs, samples come before their mappings.
fn records() -> Vec<u8> {
    let user = -512i64 as u64;
    [
        comm(7, 7, 1000, "server"),
        mapping(7, 1001, (0x40_0000, 0x1000), "/usr/bin/nowhere-server"),
        sample(1, (7, 7), 5000, &[user, 0x40_0010, 0x40_0020]),
        sample(2, (8, 8), 9000, &[user, 0x40_0030]),
        // A forked process, which then executes another program.
        record(
            7,
            0,
            &[words(&[pair(8, 7), pair(8, 7), 6000]), end(7, 7, 6000)].concat(),
        ),
        sample(1, (8, 8), 7000, &[user, 0x40_0010]),
        record(2, 0, &[words(&[1, 5]), end(7, 7, 7500)].concat()),
        record(
            3,
            1 << 13,
            &[words(&[pair(8, 8)]), text("child"), end(8, 8, 8000)].concat(),
        ),
        record(14, 0, &end(8, 8, 8500)),
    ]
    .concat()
}

fn attr(config: u64) -> Vec<u8> {
    let flags = SAMPLE_ID_ALL | 1 << 10;
    let size_of_attr = 64u32;
    words(&[
        pair(1, size_of_attr),
        config,
        99,
        SAMPLE_TYPE,
        0,
        flags,
        0,
        0,
    ])
}

/// Returns a file with two events, `cpu-clock` and `page-faults`.
pub(crate) fn file() -> Vec<u8> {
    let header_size = 104u64;
    let ids = words(&[1, 2]);
    let attrs_at = header_size + ids.len() as u64;
    let attrs = [
        attr(0),
        words(&[header_size, 8]),
        attr(2),
        words(&[header_size + 8, 8]),
    ]
    .concat();
    let records = records();
    let data_at = attrs_at + attrs.len() as u64;
    let header = words(&[
        header_size,
        80,
        attrs_at,
        attrs.len() as u64,
        data_at,
        records.len() as u64,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    [b"PERFILE2".to_vec(), header, ids, attrs, records].concat()
}

/// Returns a recording in the format of pipes.
fn piped(records: Vec<u8>) -> Vec<u8> {
    let attr = |config, id| record(64, 0, &[attr(config), words(&[id])].concat());
    let head = [b"PERFILE2".to_vec(), words(&[16])].concat();
    [head, attr(0, 1), attr(2, 2), records].concat()
}

#[test]
fn tasks_from_before_the_recording_have_no_time() {
    let user = -512i64 as u64;
    let records = [
        comm(7, 7, 0, "server"),
        record(
            7,
            0,
            &[words(&[pair(7, 1), pair(7, 1), 0]), end(7, 7, 0)].concat(),
        ),
        sample(1, (7, 7), 5000, &[user, 0x40_0010]),
    ];
    let (trace, _) = imported(&piped(records.concat()), &Options::default());
    let packets = Fields::new(&trace).filter_map(|packet| packet.unwrap().as_bytes());
    let times =
        packets.filter_map(|packet| Fields::find(trace_packet::TIMESTAMP, packet)?.as_u64());
    assert_eq!(times.min(), Some(5000));
    let trace = tables(&trace);
    let (threads, strings) = (&trace.tables().thread, trace.strings());
    let mut names = (0..threads.len()).map(|row| strings.text(threads.name().get(row)));
    assert!(names.any(|name| name == "server"));
}

#[test]
fn samples_are_resolved_by_the_mappings_of_their_time() {
    let (trace, report) = imported(&file(), &Options::default());
    assert_eq!(report.samples, 3);
    let left: Vec<_> = report.losses.iter().collect();
    assert_eq!(
        left,
        [
            ("context switches", 1),
            ("frames at addresses without a known mapping", 1),
            (
                "records that the kernel lost, marked as lost in the trace",
                5
            ),
        ]
    );
    let trace = tables(&trace);
    let (tables, strings) = (trace.tables(), trace.strings());
    let samples = &tables.profiler_sample;
    let with_stack = (0..samples.len()).filter(|row| samples.callsite_id().get(*row).is_some());
    assert_eq!(with_stack.count(), 3);
    let frames = &tables.stack_profile_frame;
    let mut offsets: Vec<_> = (0..frames.len())
        .map(|row| {
            let mapping = frames.mapping().get(row);
            let name = tables.stack_profile_mapping.name().get(mapping);
            (strings.text(name), frames.rel_pc().get(row))
        })
        .collect();
    offsets.sort_unstable();
    // Each process has rows of its own.
    offsets.dedup();
    assert_eq!(
        offsets,
        [
            ("", 0x40_0030),
            ("/usr/bin/nowhere-server", 0x1010),
            ("/usr/bin/nowhere-server", 0x1020),
        ]
    );
    let threads = &tables.thread;
    let name = |tid| {
        let row = (0..threads.len()).find(|row| threads.tid().get(*row) == tid);
        strings.text(threads.name().get(row.unwrap())).to_owned()
    };
    assert_eq!(
        (name(7), name(8)),
        ("server".to_owned(), "child".to_owned())
    );
    assert_eq!(tables.profiler_session.len(), 2);
}

/// Functions of this program, which are in the samples of
/// [`copied_stacks_are_unwound_by_the_files_of_this_machine`].
mod functions {
    use std::hint::black_box;

    #[inline(never)]
    pub(super) extern "C" fn inner(number: u64) -> u64 {
        black_box(number) + 1
    }

    #[inline(never)]
    pub(super) extern "C" fn middle(number: u64) -> u64 {
        black_box(number) + 2
    }

    #[inline(never)]
    pub(super) extern "C" fn outer(number: u64) -> u64 {
        black_box(number) + 3
    }
}

/// Returns start, length and file offset of this program's code, from its maps.
fn own_code(path: &str) -> (u64, u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let code = maps
        .lines()
        .find(|line| line.ends_with(path) && line.contains(" r-xp "));
    let mut fields = code.unwrap().split_whitespace();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = fields.next().unwrap().split_once('-').unwrap();
    let offset = hexadecimal(fields.nth(1).unwrap());
    let start = hexadecimal(start);
    (start, hexadecimal(end) - start, offset)
}

#[test]
fn copied_stacks_are_unwound_by_the_files_of_this_machine() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the registers are those of x86-64");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let path = program.to_str().unwrap();
    let (start, length, offset) = own_code(path);
    // Registers and a copy of the stack; a callchain of the kernel alone.
    let (mask, sample_type) = (0xff_0fff, SAMPLE_TYPE | 1 << 12 | 1 << 13);
    let flags = SAMPLE_ID_ALL | 1 << 10;
    let mut attr = vec![
        pair(1, 128),
        0,
        99,
        sample_type,
        0,
        flags,
        0,
        0,
        0,
        0,
        mask,
        64,
    ];
    attr.resize(16, 0);
    // Each function has just been entered: the address it returns to is on top of the stack.
    let addresses = [functions::inner, functions::middle, functions::outer]
        .map(|function| function as *const () as u64);
    let mut registers = [0; 20];
    // The frame pointer is a number like any other here.
    registers[6..9].copy_from_slice(&[99, 0x7fff_0000_0000, addresses[0]]);
    let stack = [addresses[1] + 1, addresses[2] + 1, 0, 0, 0, 0, 0, 0];
    let sample_of = |inode: u64| {
        let map = [pair(7, 7), start, length, offset, 0, inode, 0, pair(5, 2)];
        let head = [1, addresses[0], pair(7, 7), 5000, 1, 10, 0];
        let user = [&[2][..], &registers, &[64], &stack, &[64]].concat();
        [
            b"PERFILE2".to_vec(),
            words(&[16]),
            record(64, 0, &words(&[&attr[..], &[1]].concat())),
            record(10, 2, &[words(&map), text(path), end(7, 7, 1000)].concat()),
            record(9, 2, &words(&[&head[..], &user].concat())),
        ]
        .concat()
    };
    let offsets_in = |file: &[u8], options: &Options| {
        let (trace, report) = imported(file, options);
        let trace = tables(&trace);
        let frames = &trace.tables().stack_profile_frame;
        let mut offsets: Vec<_> = (0..frames.len())
            .filter(|row| {
                let mapping = frames.mapping().get(*row);
                let name = trace.tables().stack_profile_mapping.name().get(mapping);
                trace.strings().text(name) == path
            })
            .map(|row| frames.rel_pc().get(row))
            .collect();
        offsets.sort_unstable();
        (offsets, report)
    };
    let inode = std::fs::metadata(&program).unwrap().ino();
    let bias = ferretto_elf::Elf::open(std::fs::File::open(&program).unwrap(), 0)
        .unwrap()
        .load_bias();
    let mut expected = addresses.map(|pc| (pc - start + offset + bias) as i64);
    expected.sort_unstable();
    let (found, _) = offsets_in(&sample_of(inode), &Options::default());
    assert_eq!(found, expected);
    // The tables of another file at the same path are not used.
    let (found, report) = offsets_in(&sample_of(inode + 1), &Options::default());
    assert!(found.len() < 3, "{found:?}");
    let left: Vec<_> = report.losses.iter().map(|(what, _)| what).collect();
    assert!(left[0].contains("a file is not there any more"), "{left:?}");
    let elsewhere = Options {
        reads_files: false,
        ..Options::default()
    };
    let (found, report) = offsets_in(&sample_of(inode), &elsewhere);
    assert_eq!(found.len(), 1);
    let left: Vec<_> = report.losses.iter().map(|(what, _)| what).collect();
    assert!(left[0].contains("without --no-system"), "{left:?}");
}

#[test]
fn a_recording_through_a_pipe_gives_the_same_trace() {
    let (whole, piped) = (
        imported(&file(), &Options::default()),
        imported(&piped(records()), &Options::default()),
    );
    assert_eq!(whole, piped);
}

#[test]
fn damaged_files_are_read_up_to_the_damage() {
    let file = file();
    let (_, report) = imported(&file[..file.len() - 10], &Options::default());
    assert_eq!(report.samples, 3);
    let mut damaged = file.clone();
    let at = file.len() - 40;
    damaged[at + 6..at + 8].copy_from_slice(&[1, 0]);
    let (_, report) = imported(&damaged, &Options::default());
    assert!(report.is_damaged && report.samples > 0);
    let sentence = format!("damaged record at byte {at};");
    assert!(
        report
            .losses
            .iter()
            .any(|(what, _)| what.contains(&sentence))
    );
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_records_and_says_so() {
    let piped = piped(records());
    let (_, whole) = imported(&piped, &Options::default());
    assert!(!whole.is_damaged);
    let mut samples = 0;
    for length in 16..piped.len() {
        let mut out = Vec::new();
        let cut = Cursor::new(&piped[..length]);
        let Ok(report) = import(cut, &Options::default(), &mut out) else {
            assert_eq!(samples, 0, "{length}");
            continue;
        };
        assert!(report.samples >= samples && report.samples <= whole.samples);
        samples = report.samples;
    }
    let mut followed = piped.clone();
    followed.extend(b"[ perf record: Woken up 1 times to write data ]\n");
    let (_, report) = imported(&followed, &Options::default());
    assert_eq!((report.samples, report.is_damaged), (whole.samples, true));
}

/// Runs `perf` and returns its output; prints why the test is skipped and returns `None` if it
/// cannot run.
fn perf(args: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("perf");
    let output = command.args(args).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => {
            println!("skipped: perf: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            println!("skipped: perf is not installed: {error}");
            None
        }
    }
}

#[test]
fn imported_samples_are_those_that_perf_script_prints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let path = path.to_str().unwrap();
    let load = [
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; ls / > /dev/null",
    ];
    let variants: [&[&str]; 6] = [
        &["-g", "-e", "cpu-clock"],
        &["-e", "cpu-clock"],
        &["-g", "-e", "cpu-clock,page-faults"],
        &["-z", "-g", "-e", "cpu-clock"],
        &["-g", "-e", "page-faults", "-c", "1"],
        &["--call-graph", "dwarf", "-e", "cpu-clock"],
    ];
    for variant in variants {
        let mut args = vec!["record", "-q", "-o", path];
        args.extend(variant);
        args.extend(load);
        if perf(&args).is_none() {
            continue;
        }
        let Some(printed) = perf(&["script", "-i", path, "-F", "+pid"]) else {
            continue;
        };
        let bytes = std::fs::read(path).unwrap();
        let (trace, report) = imported(&bytes, &Options::default());
        let (of_text, text) = imported(&printed, &Options::default());
        assert!(report.samples > 0, "{variant:?}");
        assert_eq!(report.samples, text.samples, "{variant:?}: {report:?}");
        // perf prints times in microseconds.
        let times = |bytes: &[u8]| {
            let trace = tables(bytes);
            let samples = &trace.tables().profiler_sample;
            let times = (0..samples.len()).map(|row| samples.ts().get(row) / 1000);
            times.collect::<Vec<_>>()
        };
        assert_eq!(times(&trace), times(&of_text), "{variant:?}");
    }
}

#[test]
fn files_of_perf_record_open_as_tables_with_the_samples_of_their_conversion() {
    let file = file();
    let (packets, report) = imported(&file, &Options::default());
    let (converted, direct) = (tables(&packets), tables(&file));
    assert_eq!(samples_of(&direct), samples_of(&converted));
    assert_eq!(samples_of(&direct).len(), report.samples as usize);
}

/// Returns the time and the number of frames of each sample.
fn samples_of(trace: &Trace) -> Vec<(i64, u32)> {
    let tables = trace.tables();
    let (samples, callsites) = (&tables.profiler_sample, &tables.stack_profile_callsite);
    (0..samples.len())
        .map(|row| {
            let callsite = samples.callsite_id().get(row);
            let depth = callsite.map_or(0, |callsite| callsites.depth().get(callsite) + 1);
            (samples.ts().get(row), depth)
        })
        .collect()
}

/// Returns the samples of a file that may be cut; 0 if it is refused.
fn samples_in(bytes: &[u8]) -> (u64, bool) {
    let options = Options {
        reads_files: false,
        ..Options::default()
    };
    match import(Cursor::new(bytes), &options, &mut Vec::new()) {
        Ok(report) => (report.samples, report.is_damaged),
        Err(_) => (0, true),
    }
}

/// Returns true if a record of a pipe file ends at this offset.
fn ends_with_a_record(file: &[u8], offset: usize) -> bool {
    let mut at = 16;
    while at < offset {
        let size = u16::from_ne_bytes(file[at + 6..at + 8].try_into().unwrap());
        at += usize::from(size);
    }
    at == offset
}

/// Returns a pipe file whose compressed records are in the format of later kernels: the size of
/// the data is before it, and the records are padded.
fn with_sizes(file: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (file[..16].to_vec(), 16);
    while let Some(header) = file.get(at..at + 8) {
        let kind = u32::from_ne_bytes(header[..4].try_into().unwrap());
        let size = usize::from(u16::from_ne_bytes(header[6..8].try_into().unwrap()));
        let body = &file[at + 8..at + size];
        let padded = (body.len() + 16).next_multiple_of(8);
        if kind == 81 && padded <= usize::from(u16::MAX) {
            let mut padding = body.to_vec();
            padding.resize(padded - 16, 0);
            let sized = [words(&[body.len() as u64]), padding].concat();
            out.extend(record(83, 0, &sized));
        } else {
            out.extend(&file[at..at + size]);
        }
        at += size;
    }
    out
}

/// Returns a file of which the middle of the first compressed record is overwritten.
fn with_damage(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    // The start of a zstd frame follows the header of the record.
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let frame = file.windows(4).position(|bytes| bytes == magic);
    let header = frame.expect("a compressed record") - 8;
    let size = usize::from(u16::from_ne_bytes([file[header + 6], file[header + 7]]));
    file[header + size / 2..header + size].fill(0xff);
    file
}

#[test]
fn compressed_and_piped_recordings_are_read_up_to_any_cut() {
    let load = [
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let path = path.to_str().unwrap();
    for (variant, is_piped) in [
        (&["-z"][..], false),
        (&["-z", "-g"], false),
        (&["-g"], true),
        (&["-z", "-g"], true),
    ] {
        let output = if is_piped { "-" } else { path };
        let mut args = vec![
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            "5000",
            "-o",
            output,
        ];
        args.extend(variant);
        args.extend(load);
        let Some(piped) = perf(&args) else { continue };
        let file = if is_piped {
            std::fs::write(path, &piped).unwrap();
            piped
        } else {
            std::fs::read(path).unwrap()
        };
        let Some(printed) = perf(&["script", "-i", path, "-F", "comm,tid,time,event"]) else {
            continue;
        };
        // Each sample has a line, and its callstack may follow.
        let printed = printed
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty() && !line.starts_with(b"\t"));
        let whole = samples_in(&file);
        assert_eq!(
            whole,
            (printed.count() as u64, false),
            "{variant:?} {output}"
        );
        assert!(whole.0 > 0);
        let mut before = 0;
        let step = (file.len() / 97).max(1);
        for length in (0..file.len()).step_by(step) {
            let (samples, is_damaged) = samples_in(&file[..length]);
            // A cut behind the samples, or between records of a pipe, shows no damage.
            let is_between = is_piped && ends_with_a_record(&file, length);
            assert!(
                is_damaged || samples == whole.0 || is_between,
                "{variant:?} {output} at {length}"
            );
            assert!(samples <= whole.0);
            if is_piped {
                assert!(
                    samples >= before,
                    "{variant:?} at {length}: {samples} < {before}"
                );
                before = samples;
            }
        }
        if variant.contains(&"-z") {
            let (samples, is_damaged) = samples_in(&with_damage(&file));
            assert!(is_damaged && samples < whole.0, "{variant:?} {output}");
        }
        if is_piped {
            let sized = with_sizes(&file);
            assert_eq!(samples_in(&sized), whole, "{variant:?} with sizes");
        }
    }
}
