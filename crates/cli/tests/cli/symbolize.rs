//! Names for the addresses in a trace.

use std::fs;
use std::process::Command;

use ferretto_wire::{Encoder, encode};

use crate::world::World;

const SOURCE: &str = "\
static inline __attribute__((always_inline)) int inner(int x) {
    __asm__ volatile(\"nop\\n.globl mark\\nmark: nop\");
    return x * 3;
}
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc); }
";

/// Compiles the program, and returns a trace with a sample in it.
fn trace(world: &World) -> Vec<u8> {
    world.write("program.c", SOURCE);
    let program = world.path("program");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let output = command
            .args(arguments)
            .current_dir(world.path("."))
            .output();
        let output = output.expect("a program that can be run");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    run(
        "cc",
        &[
            "-O2",
            "-g",
            "-Wl,--build-id=sha1",
            "program.c",
            "-o",
            "program",
        ],
    );
    let symbols = run("nm", &["program"]);
    let mark = symbols.lines().find(|line| line.ends_with(" mark"));
    let address = mark
        .and_then(|line| line.split(' ').next())
        .expect("a symbol");
    let address = u64::from_str_radix(address, 16).expect("an address");
    let notes = run("readelf", &["-n", "program"]);
    let id = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    let id = id.expect("a build id");
    let build_id: Vec<u8> = (0..id.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&id[at..at + 2], 16).expect("digits"))
        .collect();
    sample(program.to_str().expect("a path"), &build_id, address)
}

/// Returns a trace with one sample at `address` of the file `path`.
pub(crate) fn sample(path: &str, build_id: &[u8], address: u64) -> Vec<u8> {
    type Message<'a> = Encoder<'a, Vec<u8>>;
    fn text(data: &mut Message<'_>, table: u32, iid: u64, text: &[u8]) {
        data.nested(table, |entry| {
            entry.varint(1, iid);
            entry.bytes(2, text);
        });
    }
    let on_sequence = |packet: &mut Message<'_>, flags: u64| {
        packet.varint(10, 7);
        packet.varint(13, flags);
    };
    encode(|trace| {
        trace.nested(1, |packet| {
            on_sequence(packet, 1);
            packet.varint(8, 5000);
            packet.nested(59, |defaults| {
                defaults.varint(58, 6);
                defaults.nested(12, |perf| {
                    perf.nested(1, |timebase| timebase.varint(2, 100))
                });
            });
        });
        trace.nested(1, |packet| {
            on_sequence(packet, 2);
            packet.nested(12, |data| {
                text(data, 5, 1, b"");
                text(data, 16, 1, build_id);
                let parts = path.trim_start_matches('/').split('/');
                let parts: Vec<(u64, &str)> = (1..).zip(parts).collect();
                for (iid, part) in &parts {
                    text(data, 17, *iid, part.as_bytes());
                }
                data.nested(19, |mapping| {
                    mapping.varint(1, 1);
                    mapping.varint(2, 1);
                    mapping.varint(4, 0x40_0000);
                    mapping.varint(5, 0x50_0000);
                    parts.iter().for_each(|(iid, _)| mapping.varint(7, *iid));
                });
                data.nested(6, |frame| {
                    frame.varint(1, 1);
                    frame.varint(2, 1);
                    frame.varint(3, 1);
                    frame.varint(4, address);
                });
                data.nested(7, |stack| {
                    stack.varint(1, 1);
                    stack.varint(2, 1);
                });
            });
        });
        trace.nested(1, |packet| {
            on_sequence(packet, 2);
            packet.varint(8, 6000);
            packet.nested(66, |sample| {
                sample.varint(1, 0);
                sample.varint(2, 100);
                sample.varint(3, 100);
                sample.varint(4, 1);
            });
        });
    })
}

#[test]
fn names_are_appended_to_the_trace() {
    let world = World::new();
    let unnamed = trace(&world);
    let file = world.write("t.pftrace", &unnamed);
    let file = file.to_str().expect("a path");
    if let Ok(copy) = std::env::var("FERRETTO_KEEP") {
        fs::write(format!("{copy}.before"), &unnamed).expect("kept");
    }
    let done = world.run("ferretto", &["symbolize", file]).returned(0);
    let program = world.path("program");
    done.complained("1 of 1 addresses have names now")
        .complained(program.to_str().expect("a path"));
    let named = world.read("t.pftrace");
    assert!(named.starts_with(&unnamed));
    if let Ok(copy) = std::env::var("FERRETTO_KEEP") {
        fs::write(copy, &named).expect("kept");
    }
    let folded = world.run("ferretto", &["folded", file]).returned(0);
    assert!(folded.text().contains("outer;inner"), "{}", folded.text());
    // Names are not added twice.
    let again = world.run("ferretto", &["symbolize", file]).returned(0);
    again.complained("no address in the trace needs a name");
    assert_eq!(world.read("t.pftrace"), named);
}

#[test]
fn names_may_be_written_into_another_file() {
    let world = World::new();
    let unnamed = trace(&world);
    world.write("t", &unnamed);
    let moved = world.path("symbols");
    fs::create_dir(&moved).expect("a folder");
    fs::rename(world.path("program"), moved.join("renamed")).expect("moved");
    let missing = world
        .run("ferretto", &["symbolize", "t", "-o", "missing"])
        .returned(0);
    missing
        .complained("0 of 1 addresses")
        .complained("no such file");
    assert_eq!(world.read("missing"), unnamed);
    let arguments = ["symbolize", "t", "--symbols", "symbols", "--no-system"];
    let to = |output: &'static str| [&arguments[..], &["-o", output]].concat();
    world.run("ferretto", &to("whole")).returned(0);
    let only = [&to("names")[..], &["--only-names"]].concat();
    world.run("ferretto", &only).returned(0);
    assert_eq!(world.read("t"), unnamed);
    assert_eq!(world.read("whole"), [unnamed, world.read("names")].concat());
}

#[test]
fn names_are_not_appended_to_a_damaged_trace() {
    let world = World::new();
    let whole = trace(&world);
    let cut = [&whole[..], &[0x0a, 0x7f, 1, 2]].concat();
    world.write("cut", &cut);
    let refused = world.run("ferretto", &["symbolize", "cut"]).returned(1);
    refused.complained("--output");
    assert_eq!(world.read("cut"), cut);
    world
        .run("ferretto", &["symbolize", "cut", "-o", "good"])
        .returned(3);
    assert!(world.read("good").starts_with(&whole));
    assert_ne!(world.read("good")[whole.len()..][..4], cut[whole.len()..]);
    let same = world
        .run("ferretto", &["symbolize", "cut", "-o", "./cut"])
        .returned(1);
    same.complained("the same file");
    let usage = world.run("ferretto", &["symbolize", "cut", "--only-names"]);
    assert_eq!(usage.code, 2);
    let none = world
        .run("ferretto", &["symbolize", "cut", "--symbols", "nowhere"])
        .returned(1);
    none.complained("nowhere");
}
