//! Packages of split debug information, assembled by hand, since the tools do not support all forms
//! that compilers write.

use std::path::{Path, PathBuf};

use ferretto_symbols::Frame;

use crate::support::*;

const SOURCE: &str = "
volatile int sink;
static inline __attribute__((always_inline)) int inner(int x) { sink = x; return x * 3; }
__attribute__((noinline)) int outer(int x) { return inner(x) + inner(x + 1); }
int main(int argc, char **argv) { (void)argv; return outer(argc); }
";
const OTHER: &str = "int twice(int x) { return x + x; }";
const FLAGS: [&str; 4] = ["-O1", "-gdwarf-5", "-gsplit-dwarf", "-c"];

/// The sections with parts of units, and their numbers in a DWARF 5 index.
const SECTIONS: [(u32, &str); 4] = [
    (1, ".debug_info.dwo"),
    (3, ".debug_abbrev.dwo"),
    (6, ".debug_str_offsets.dwo"),
    (8, ".debug_rnglists.dwo"),
];

fn built() -> (World, PathBuf) {
    let world = World::new();
    for (name, source) in [("program.c", SOURCE), ("other.c", OTHER)] {
        world.write(name, source);
        world.run("cc", &[&FLAGS[..], &[name]].concat());
    }
    let link = [
        "program.o",
        "other.o",
        "-o",
        "program",
        "-Wl,--build-id=sha1",
    ];
    world.run("cc", &link);
    let program = world.path("program");
    (world, program)
}

fn section(dwo: &Path, name: &str) -> Vec<u8> {
    elf(dwo).section(name).unwrap_or_default()
}

/// Builds `program.dwp` from `other.dwo` and `program.dwo`. The offsets in the index are wrong by
/// `wrong`.
fn pack(world: &World, wrong: u32) {
    let (first, second) = (world.path("other.dwo"), world.path("program.dwo"));
    let id = section(&second, ".debug_info.dwo")[12..20].to_vec();
    let (mut offsets, mut sizes, mut columns) = (Vec::new(), Vec::new(), Vec::new());
    let mut arguments = Vec::new();
    for (number, name) in SECTIONS {
        let (before, own) = (section(&first, name), section(&second, name));
        if own.is_empty() {
            continue;
        }
        columns.extend(number.to_le_bytes());
        offsets.extend((before.len() as u32 + wrong).to_le_bytes());
        sizes.extend((own.len() as u32).to_le_bytes());
        let file = format!("part{number}");
        std::fs::write(world.path(&file), [before, own].concat()).expect("a part");
        arguments.extend(["--update-section".to_owned(), format!("{name}={file}")]);
    }
    let count = columns.len() as u32 / 4;
    let mut index: Vec<u8> = [5, count, 1, 2].map(u32::to_le_bytes).concat();
    // Two slots; the id selects the used one.
    let slot = usize::from(id[0] & 1);
    let (mut ids, mut rows) = ([0; 16], [0; 8]);
    ids[slot * 8..slot * 8 + 8].copy_from_slice(&id);
    rows[slot * 4] = 1;
    index.extend(ids);
    index.extend(rows);
    index.extend([columns, offsets, sizes].concat());
    std::fs::write(world.path("index"), index).expect("an index");
    arguments.extend(
        [
            "--add-section",
            ".debug_cu_index=index",
            "program.dwo",
            "program.dwp",
        ]
        .map(str::to_owned),
    );
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    world.run("objcopy", &arguments);
}

fn lines(program: &Path) -> Vec<(String, u32)> {
    let (outer, size) = function(&elf(program), "outer");
    let rel_pcs: Vec<u64> = (outer..outer + size).collect();
    let outcome = symbolize(system(), &module(program, &rel_pcs));
    let frames = outcome.names.iter().flat_map(|named| &named.frames);
    let mut lines: Vec<(String, u32)> = frames
        .map(|frame: &Frame| (frame.function.to_string(), frame.line))
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn a_package_gives_the_same_names_as_dwo_files() {
    let (world, program) = built();
    let split = lines(&program);
    assert!(split.contains(&("inner".to_owned(), 3)), "{split:?}");
    pack(&world, 0);
    std::fs::remove_file(world.path("program.dwo")).expect("removed");
    assert_eq!(lines(&program), split);
    // The package belongs to the debug file of a stripped program.
    world.run("cp", &["program", "program.debug"]);
    let debug = world.path("program.debug");
    assert_eq!(lines(&debug), split);
}

#[test]
fn an_unusable_package_is_ignored() {
    let (world, program) = built();
    let split = lines(&program);
    let hidden = world.path("hidden");
    pack(&world, 7);
    std::fs::rename(world.path("program.dwo"), &hidden).expect("moved");
    let nothing = [("outer".to_owned(), 0)];
    assert_eq!(lines(&program), nothing, "parts beyond the end");
    std::fs::remove_file(world.path("program.dwp")).expect("removed");
    // Without the unit in the package, its .dwo file is used.
    std::fs::rename(world.path("other.dwo"), world.path("program.dwp")).expect("moved");
    assert_eq!(lines(&program), nothing);
    std::fs::rename(&hidden, world.path("program.dwo")).expect("moved");
    assert_eq!(lines(&program), split);
}
