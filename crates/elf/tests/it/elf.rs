//! Real files of the C compiler, built with various options.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ferretto_elf::{Class, DebugLink, Elf, ElfError, open_regular};
use tempfile::TempDir;

const SOURCE: &str = "
int data = 3;
__attribute__((noinline)) static int inner(int x) { return x * data; }
__attribute__((noinline, weak)) int weak_one(int x) { return inner(x) + 1; }
int outer(int x) { return weak_one(x) + inner(x); }
extern int outer_alias(int x) __attribute__((weak, alias(\"outer\")));
";

struct Built {
    folder: TempDir,
}

impl Built {
    fn file(&self) -> PathBuf {
        self.folder.path().join("out.so")
    }

    fn elf(&self) -> Elf {
        Elf::open(open_regular(self.file()).unwrap(), 0).unwrap()
    }
}

/// Compiles the source without libraries, so that every target of the compiler works.
fn build(flags: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.c"), SOURCE).unwrap();
    let out = Command::new("cc")
        .current_dir(folder.path())
        .args(["-O1", "-nostdlib", "-o", "out.so", "in.c"])
        .args(flags)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    Built { folder }
}

const SHARED: [&str; 3] = ["-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    SHARED.iter().chain(more).copied().collect()
}

fn address_of(elf: &Elf, name: &str) -> u64 {
    elf.symbols()
        .iter()
        .find(|(_, _, found)| *found == name)
        .unwrap_or_else(|| {
            panic!(
                "no {name} in {:?}",
                elf.symbols().iter().collect::<Vec<_>>()
            )
        })
        .0
}

/// Returns the expected result of a lookup at an offset in a function.
fn within(name: &str, offset: u64) -> Option<(String, u64)> {
    Some((name.to_owned(), offset))
}

fn binutils(program: &str, args: &[&str], folder: &Path) {
    let status = Command::new(program)
        .args(args)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn build_id_and_soname_are_read() {
    let built = build(&with(&["-Wl,-soname,libthis.so.1"]));
    let elf = built.elf();
    assert_eq!(
        elf.build_id(),
        Some(&0x0123_4567_89ab_cdef_u64.to_be_bytes()[..])
    );
    assert_eq!(elf.soname().as_deref(), Some("libthis.so.1"));
    assert_eq!(elf.load_bias(), 0);
    assert_eq!(
        build(&["-shared", "-fPIC", "-Wl,--build-id=none"])
            .elf()
            .build_id(),
        None
    );
}

#[test]
fn the_build_id_is_found_in_sections_without_segments() {
    let built = build(&["-c", "-Wa,-Ibuild"]);
    assert_eq!(built.elf().build_id(), None);
    let linked = build(&["-r", "-Wl,--build-id=0x42"]);
    assert!(linked.elf().segments().is_empty());
    assert_eq!(linked.elf().build_id(), Some(&[0x42][..]));
}

#[test]
fn the_load_bias_is_that_of_the_first_executable_segment() {
    let built = build(&["-no-pie", "-Wl,-e,outer", "-Wl,-Ttext-segment=0x7400000"]);
    assert_eq!(built.elf().load_bias(), 0x740_0000);
}

#[test]
fn functions_extend_to_their_size() {
    let elf = build(&SHARED).elf();
    let (start, size, _) = elf
        .symbols()
        .iter()
        .find(|(_, _, name)| *name == "inner")
        .unwrap();
    assert!(size > 0);
    assert_eq!(elf.symbols().lookup(start), within("inner", 0));
    assert_eq!(
        elf.symbols().lookup(start + size - 1),
        within("inner", size - 1)
    );
    assert_ne!(
        elf.symbols().lookup(start + size).map(|found| found.0),
        Some("inner".to_owned())
    );
    assert_eq!(elf.symbols().lookup(u64::MAX), None);
    assert_eq!(elf.symbols().lookup(0), None);
}

#[test]
fn the_global_name_of_an_address_is_preferred() {
    let elf = build(&SHARED).elf();
    let outer = address_of(&elf, "outer");
    assert_eq!(elf.symbols().lookup(outer), within("outer", 0));
}

#[test]
fn the_dynamic_symbol_table_suffices() {
    let built = build(&with(&["-s"]));
    let elf = built.elf();
    assert!(elf.section_header(".symtab").is_none());
    let outer = address_of(&elf, "outer");
    assert_eq!(elf.symbols().lookup(outer + 1), within("outer", 1));
    // Only functions have names there.
    assert!(
        elf.symbols()
            .iter()
            .all(|(_, _, name)| name != "data" && name != "inner")
    );
}

#[test]
fn labels_of_assembly_extend_to_the_next_function() {
    let folder = tempfile::tempdir().unwrap();
    let source = ".text\nfirst:\nnop\nnop\nnop\n.globl second\nsecond:\nnop\nnop\n.Lown:\nret\n";
    fs::write(folder.path().join("in.s"), source).unwrap();
    let args = ["-shared", "-nostdlib", "-o", "out.so", "in.s"];
    binutils("cc", &args, folder.path());
    let elf = Elf::open(open_regular(folder.path().join("out.so")).unwrap(), 0).unwrap();
    let first = address_of(&elf, "first");
    assert_eq!(elf.symbols().lookup(first + 2), within("first", 2));
    assert_eq!(elf.symbols().lookup(first + 3), within("second", 0));
    assert_eq!(elf.symbols().lookup(first + 5), within("second", 2));
    assert_eq!(
        elf.symbols().lookup(first + 6),
        None,
        "the section ends there"
    );
}

#[test]
fn files_of_32_bits_are_read() {
    let elf = build(&with(&["-m32", "-Wl,-soname,small.so"])).elf();
    assert_eq!(elf.class(), Class::Bits32);
    assert_eq!(
        elf.build_id(),
        Some(&0x0123_4567_89ab_cdef_u64.to_be_bytes()[..])
    );
    assert_eq!(elf.soname().as_deref(), Some("small.so"));
    let outer = address_of(&elf, "outer");
    assert_eq!(elf.symbols().lookup(outer), within("outer", 0));
    assert!(
        elf.section(".eh_frame")
            .is_some_and(|bytes| bytes.len() > 20)
    );
}

/// Returns the file with its `.debug_str` replaced by `packed`, which decompresses to `size` bytes.
fn with_packed_strings(built: &Built, kind: u32, size: u64, packed: &[u8]) -> Elf {
    let elf = built.elf();
    let strings = elf.section_header(".debug_str");
    let index = elf
        .sections()
        .iter()
        .position(|section| Some(section) == strings);
    let mut bytes = fs::read(built.file()).unwrap();
    let header =
        u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize + index.unwrap() * 64;
    let offset = bytes.len() as u64;
    bytes[header + 8..header + 16].copy_from_slice(&0x800_u64.to_le_bytes());
    bytes[header + 24..header + 32].copy_from_slice(&offset.to_le_bytes());
    bytes[header + 32..header + 40].copy_from_slice(&(24 + packed.len() as u64).to_le_bytes());
    bytes.extend(u64::from(kind).to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(packed);
    Elf::open(bytes, 0).unwrap()
}

#[test]
fn compressed_sections_are_decompressed() {
    let plain = build(&with(&["-g", "-gz=none"]));
    let strings = plain.elf().section(".debug_str").unwrap();
    let mut packed =
        flate2::read::ZlibEncoder::new(strings.as_slice(), flate2::Compression::best());
    let mut bytes = Vec::new();
    packed.read_to_end(&mut bytes).unwrap();
    let elf = with_packed_strings(&plain, 1, strings.len() as u64, &bytes);
    assert_eq!(elf.section(".debug_str").as_ref(), Some(&strings));
    let header = elf.section_header(".debug_str").unwrap();
    assert!(header.is_compressed());
    assert!(matches!(
        elf.section_data(header, 16),
        Err(ElfError::TooLarge { .. })
    ));

    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(strings.as_slice(), level);
    let size = strings.len() as u64;
    let elf = with_packed_strings(&plain, 2, size, &packed);
    assert_eq!(elf.section(".debug_str").as_ref(), Some(&strings));

    // A wrong size, damaged data, an unknown method, and truncated data.
    assert_eq!(
        with_packed_strings(&plain, 2, size + 1, &packed).section(".debug_str"),
        None
    );
    assert_eq!(
        with_packed_strings(&plain, 1, size, &packed).section(".debug_str"),
        None
    );
    assert_eq!(
        with_packed_strings(&plain, 3, size, &packed).section(".debug_str"),
        None
    );
    assert_eq!(
        with_packed_strings(&plain, 2, u64::MAX, &packed).section(".debug_str"),
        None
    );
}

#[test]
fn debug_links_name_a_file_without_folders() {
    let built = build(&with(&["-g"]));
    let folder = built.folder.path();
    binutils(
        "objcopy",
        &["--only-keep-debug", "out.so", "out.debug"],
        folder,
    );
    binutils(
        "objcopy",
        &["--strip-debug", "--add-gnu-debuglink=out.debug", "out.so"],
        folder,
    );
    let DebugLink { file, crc } = built.elf().debug_link().unwrap();
    assert_eq!(file, "out.debug");
    assert_ne!(crc, 0);
    assert_eq!(build(&SHARED).elf().debug_link(), None);

    let mut bytes = fs::read(built.file()).unwrap();
    let at = bytes
        .windows(9)
        .position(|part| part == b"out.debug")
        .unwrap();
    bytes[at..at + 9].copy_from_slice(b"../xdebug");
    assert_eq!(
        Elf::open(bytes, 0).unwrap().debug_link(),
        None,
        "the name leads out of the folder"
    );
}

#[test]
fn a_file_within_a_file_is_read_at_its_offset() {
    let built = build(&SHARED);
    let inner = fs::read(built.file()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    fs::write(&path, [vec![7; 8192], inner].concat()).unwrap();
    let file = Arc::new(open_regular(&path).unwrap());
    assert!(matches!(Elf::open(file.clone(), 0), Err(ElfError::NotElf)));
    let elf = Elf::open(file, 8192).unwrap();
    assert_eq!(elf.build_id(), built.elf().build_id());
    let outer = address_of(&elf, "outer");
    assert_eq!(elf.symbols().lookup(outer), within("outer", 0));
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // Opening a FIFO without a writer would block for ever.
    let (send, receive) = std::sync::mpsc::channel();
    let folder_path = folder.path().to_owned();
    std::thread::spawn(move || {
        for path in [fifo, "/dev/zero".into(), folder_path] {
            let _ = send.send(open_regular(path).unwrap_err().kind());
        }
    });
    for _ in 0..3 {
        let kind = receive.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(kind, std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_file_truncated_while_open_is_an_error() {
    let built = build(&SHARED);
    let elf = built.elf();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(built.file())
        .unwrap();
    file.set_len(128).unwrap();
    assert_eq!(elf.section(".eh_frame"), None);
    assert!(elf.symbols().is_empty());
}

#[test]
fn false_sizes_are_errors() {
    let built = build(&SHARED);
    let elf = built.elf();
    let bytes = fs::read(built.file()).unwrap();
    let sections_at = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let index = elf
        .sections()
        .iter()
        .position(|section| Some(section) == elf.section_header(".symtab"))
        .unwrap();
    // A sparse file can have any length.
    let file = fs::OpenOptions::new()
        .write(true)
        .open(built.file())
        .unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(
        &(1_u64 << 39).to_le_bytes(),
        (sections_at + index * 64 + 32) as u64,
    )
    .unwrap();
    let elf = built.elf();
    assert!(matches!(
        elf.section_data(elf.section_header(".symtab").unwrap(), 1 << 20),
        Err(ElfError::TooLarge { size, .. }) if size == 1 << 39
    ));
    assert_eq!(elf.section(".symtab"), None);
    assert!(
        elf.symbols().iter().any(|(_, _, name)| name == "outer"),
        "of .dynsym"
    );
}

#[test]
fn damaged_headers_never_panic() {
    let bytes = fs::read(build(&with(&["-Wl,-soname,x"])).file()).unwrap();
    let elf = Elf::open(bytes.clone(), 0).unwrap();
    let tables = 64 + elf.segments().len() * 56;
    let sections_at = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    for at in (0..tables).chain(sections_at..bytes.len()) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            if let Ok(elf) = Elf::open(bytes, 0) {
                let _ = (
                    elf.soname(),
                    elf.load_bias(),
                    elf.build_id(),
                    elf.debug_link(),
                );
                let _ = elf.section(".eh_frame");
                let _ = elf.symbols().lookup(0x1001);
            }
        }
    }
    for end in 0..bytes.len() {
        let _ = Elf::open(bytes[..end].to_vec(), 0);
    }
}
