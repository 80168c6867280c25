//! Hostile files.

use std::fmt::Write as _;
use std::fs;

use ferretto_symbols::user::frames;

use crate::support::{World, elf, function};
use ferretto_testing::Random;

/// Returns debug information in assembly: abbreviation 1 is a unit, 2 a function, 3 an inlined
/// function with children. The unit has `entries`.
fn assembly(entries: &str) -> String {
    format!(
        ".text\n.globl code\n.type code, @function\ncode: .skip 64, 0x90\n.size code, .-code\n\
         .section .debug_abbrev,\"\",@progbits\nabbreviations:\n\
         .uleb128 1, 0x11\n.byte 1\n.uleb128 0x11, 1, 0x12, 7, 0, 0\n\
         .uleb128 2, 0x2e\n.byte 1\n.uleb128 0x03, 8, 0x11, 1, 0x12, 7, 0, 0\n\
         .uleb128 3, 0x1d\n.byte 1\n.uleb128 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0\n\
         .uleb128 4, 0x2e\n.byte 0\n.uleb128 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0\n\
         .byte 0\n\
         .section .debug_info,\"\",@progbits\n{entries}"
    )
}

/// Returns a unit with `entries` that covers all of `code`.
fn unit(number: usize, entries: &str) -> String {
    format!(
        ".Lunit{number}: .long .Lend{number} - .Lversion{number}\n\
         .Lversion{number}: .short 4\n.long abbreviations\n.byte 8\n\
         .uleb128 1\n.quad code\n.quad 64\n{entries}\n.byte 0\n.Lend{number}:\n"
    )
}

fn library(world: &World, entries: &str) -> std::path::PathBuf {
    world.write("bad.s", &assembly(entries));
    let flags = ["-shared", "-nostdlib", "bad.s", "-o", "bad.so"];
    world.run("cc", &flags);
    world.path("bad.so")
}

fn names(path: &std::path::Path) -> Vec<String> {
    let (code, _) = function(&elf(path), "code");
    let file = fs::File::open(path).expect("a file");
    let found = frames(file, &[code + 7]).expect("an ELF file");
    found[0]
        .iter()
        .map(|frame| frame.function.to_string())
        .collect()
}

#[test]
fn endlessly_nested_functions_are_cut_off() {
    let world = World::new();
    let mut entries = ".Lname: .uleb128 2\n.asciz \"named\"\n.quad code\n.quad 64\n".to_owned();
    entries += ".rept 300000\n.uleb128 3\n.long .Lname - .Lunit0\n.quad code\n.quad 64\n.endr\n";
    let path = library(&world, &unit(0, &entries));
    let names = names(&path);
    assert_eq!(names, vec!["named"; 64]);
}

#[test]
fn cyclic_references_of_names_end() {
    let world = World::new();
    let entry = |label: &str, to: &str| {
        format!("{label}: .uleb128 4\n.long {to} - .Lunit0\n.quad code\n.quad 64\n")
    };
    for entries in [
        entry(".La", ".La"),
        entry(".La", ".Lb") + &entry(".Lb", ".La"),
        entry(".La", ".Lend0"),
        entry(".La", ".Lunit0"),
    ] {
        let path = library(&world, &unit(0, &entries));
        // Only the name in the symbol table remains.
        assert_eq!(names(&path), ["code"]);
    }
}

#[test]
fn only_some_of_many_units_that_claim_an_address_are_read() {
    let world = World::new();
    let mut units = String::new();
    for number in 0..2000 {
        units += &unit(
            number,
            ".rept 500\n.uleb128 2\n.asciz \"\"\n.quad 0\n.quad 0\n.byte 0\n.endr",
        );
    }
    let path = library(&world, &units);
    assert_eq!(names(&path), ["code"]);
}

#[test]
fn units_with_false_sizes_end_the_search() {
    let world = World::new();
    for unit in [
        ".long 0xffffffef\n",
        ".long 0xffffffff\n.quad 0xfffffffffffffff0\n.short 5\n",
        ".long 0\n.long 0\n.long 0\n",
        ".long 11\n.short 4\n.long 0xffffffff\n.byte 8\n.long 1\n",
        ".long 11\n.short 9\n.long 0\n.byte 8\n.long 1\n",
    ] {
        let path = library(&world, unit);
        assert_eq!(names(&path), ["code"]);
    }
}

#[test]
fn damaged_files_never_panic() {
    let world = World::new();
    let source = "static inline __attribute__((always_inline)) int inner(int x) {\
                  __asm__ volatile(\"nop\"); return x * 3; }\n\
                  int outer(int x) { return inner(x) + 1; }\n";
    for flags in [
        ["-gdwarf-4", "-gz=none"],
        ["-gdwarf-5", "-gz=none"],
        ["-gdwarf-5", "-gz=zlib"],
    ] {
        let fixed = ["-O2", "-shared", "-fPIC", "-nostdlib"];
        let path = world.compile(source, "good.so", &[&fixed[..], &flags].concat());
        let (outer, size) = function(&elf(&path), "outer");
        let good = fs::read(&path).expect("a file");
        let addresses: Vec<u64> = (0..size)
            .map(|at| outer + at)
            .chain([0, u64::MAX])
            .collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..300 {
            let mut bad = good.clone();
            for _ in 0..=random.below(8) {
                let at = random.below(bad.len());
                bad[at] = [0, 1, 0x7f, 0x80, 0xff, bad[at] ^ 4][random.below(6)];
            }
            if random.below(8) == 0 {
                bad.truncate(random.below(bad.len()));
            }
            for frame in frames(bad, &addresses).into_iter().flatten().flatten() {
                let mut text = String::new();
                write!(text, "{frame:?}").expect("text");
                assert!(frame.function.len() <= 4096 * 3, "{text}");
            }
        }
    }
}
