//! Symbols in `.gnu_debugdata`, of real files and of damaged ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_elf::{Elf, open_regular};
use tempfile::TempDir;

const SOURCE: &str = "
static __attribute__((noinline)) int hidden(int x) { return x * 3; }
static __attribute__((noinline)) int buried(int x) { return x - hidden(x); }
int outer(int x) { return hidden(x) + buried(x); }
";

/// A program, and the file `symbols` with its symbols.
struct Built(TempDir);

impl Built {
    fn new(flags: &[&str]) -> Self {
        let built = Self(tempfile::tempdir().unwrap());
        fs::write(built.path("in.c"), SOURCE).unwrap();
        let shared = [
            "-O1",
            "-nostdlib",
            "-shared",
            "-fPIC",
            "-o",
            "whole.so",
            "in.c",
        ];
        built.run("cc", &[&shared, flags].concat());
        built.run("objcopy", &["--only-keep-debug", "whole.so", "symbols"]);
        built
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) {
        let status = Command::new(program)
            .args(args)
            .current_dir(&self.0)
            .status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    }

    /// Returns the stripped program with these bytes in the section.
    fn with(&self, packed: &[u8]) -> Elf {
        fs::write(self.path("packed"), packed).unwrap();
        let section = ["-S", "--add-section", ".gnu_debugdata=packed"];
        self.run(
            "objcopy",
            &[&section[..], &["whole.so", "stripped.so"]].concat(),
        );
        open(&self.path("stripped.so"))
    }

    fn symbols(&self) -> Vec<u8> {
        fs::read(self.path("symbols")).unwrap()
    }
}

fn open(path: &Path) -> Elf {
    Elf::open(open_regular(path).unwrap(), 0).unwrap()
}

fn functions(elf: &Elf) -> Vec<(u64, u64, String)> {
    elf.symbols().iter().collect()
}

/// Writes uncompressed xz streams.
struct Xz {
    /// The encoded dictionary size.
    dictionary: u8,
}

impl Xz {
    /// A dictionary of 1 MiB.
    const USUAL: Self = Self { dictionary: 16 };

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        let mut packed = b"\xfd7zXZ\0\0\x01".to_vec();
        packed.extend(crc(&[0, 1]));
        let header = [2, 0, 0x21, 1, self.dictionary, 0, 0, 0];
        let block = packed.len();
        packed.extend(header);
        packed.extend(crc(&header));
        for (index, part) in bytes.chunks(1 << 16).enumerate() {
            packed.push(if index == 0 { 1 } else { 2 });
            packed.extend(((part.len() - 1) as u16).to_be_bytes());
            packed.extend(part);
        }
        packed.push(0);
        let unpadded = packed.len() - block + 4;
        packed.resize(packed.len().next_multiple_of(4), 0);
        packed.extend(crc(bytes));
        let mut index = vec![0, 1];
        for mut number in [unpadded, bytes.len()] {
            while number >= 0x80 {
                index.push(number as u8 | 0x80);
                number >>= 7;
            }
            index.push(number as u8);
        }
        index.resize(index.len().next_multiple_of(4), 0);
        let index_crc = crc(&index);
        index.extend(index_crc);
        let footer = [&(index.len() as u32 / 4 - 1).to_le_bytes()[..], &[0, 1]].concat();
        packed.extend(index);
        packed.extend(crc(&footer));
        packed.extend(footer);
        packed.extend(b"YZ");
        packed
    }
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

#[test]
fn packed_symbols_equal_those_of_the_unstripped_file() {
    for flags in [&[][..], &["-m32"]] {
        let built = Built::new(flags);
        let whole = functions(&open(&built.path("whole.so")));
        assert!(whole.iter().any(|(.., name)| name == "buried"));
        let elf = built.with(&Xz::USUAL.pack(&built.symbols()));
        assert!(elf.section_header(".symtab").is_none());
        assert_eq!(functions(&elf), whole);
        for (address, _, name) in whole {
            assert_eq!(elf.symbols().lookup(address + 1), Some((name, 1)));
        }
        assert!(elf.symbols().memory() as u64 <= elf.symbols_size());
    }
}

#[test]
fn output_of_xz_is_decompressed() {
    let built = Built::new(&[]);
    if Command::new("xz").arg("--version").output().is_err() {
        println!("skipped: xz is not installed");
        return;
    }
    let whole = functions(&open(&built.path("whole.so")));
    for flags in [
        &["-9"][..],
        &["--check=crc32", "--block-size=4096"],
        &["--check=none", "--x86", "--lzma2"],
    ] {
        built.run("xz", &[&["-k", "-f"], flags, &["symbols"]].concat());
        let elf = built.with(&fs::read(built.path("symbols.xz")).unwrap());
        assert_eq!(functions(&elf), whole, "{flags:?}");
    }
    // Decompression of a huge file stops early.
    let mut bomb = built.symbols();
    bomb.resize(8 << 20, 0);
    fs::write(built.path("bomb"), &bomb).unwrap();
    built.run("xz", &["-0", "bomb"]);
    let elf = built.with(&fs::read(built.path("bomb.xz")).unwrap());
    assert!(elf.symbols_size() < 1 << 20);
    assert_exported_only(&elf);
}

/// Asserts that only the exported symbols are found.
fn assert_exported_only(elf: &Elf) {
    let names: Vec<_> = functions(elf).into_iter().map(|(.., name)| name).collect();
    assert_eq!(names, ["outer"]);
}

#[test]
fn damaged_packed_symbols_are_ignored() {
    let built = Built::new(&[]);
    let symbols = built.symbols();
    let packed = Xz::USUAL.pack(&symbols);
    for end in [1, 12, 20, packed.len() / 2, packed.len() - 40] {
        assert_exported_only(&built.with(&packed[..end]));
    }
    let mut changed = packed.clone();
    changed[packed.len() / 2] ^= 0x40;
    assert_exported_only(&built.with(&changed));
    assert_exported_only(&built.with(b"no xz at all"));
    assert_exported_only(&built.with(&Xz::USUAL.pack(b"no ELF file")));
    assert_exported_only(&built.with(&Xz::USUAL.pack(&symbols[..symbols.len() / 2])));
    // A dictionary larger than the memory of most machines.
    let greedy = Xz { dictionary: 40 };
    assert_exported_only(&built.with(&greedy.pack(&symbols)));
}

#[test]
fn nested_packed_symbols_are_ignored() {
    let built = Built::new(&[]);
    let inner = built.with(&Xz::USUAL.pack(&built.symbols()));
    assert!(inner.symbols().lookup(0).is_none());
    let inner = fs::read(built.path("stripped.so")).unwrap();
    assert_exported_only(&built.with(&Xz::USUAL.pack(&inner)));
}
