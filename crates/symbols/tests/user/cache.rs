//! The cache of names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ferretto_symbols::{Module, Options, Outcome};

use crate::support::{World, elf, function, functions, module, symbolize, system};

const SOURCE: &str = "\
__attribute__((noinline)) int inner(int x) { return x * 3; }
__attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc); }
";

fn caching(world: &World) -> Options {
    Options {
        cache: Some(world.path("caches/symbols")),
        ..system()
    }
}

/// Returns the only file in the cache.
fn kept(world: &World) -> PathBuf {
    let entries = fs::read_dir(world.path("caches/symbols")).expect("a folder");
    let files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let [file] = &files[..] else {
        panic!("{files:?}")
    };
    file.clone()
}

/// Changes bytes of a file without changing its metadata.
fn change_silently(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let modified = fs::metadata(path)
        .and_then(|it| it.modified())
        .expect("a time");
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("a file");
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(modified).expect("a time");
}

fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let windows = bytes.windows(from.len()).enumerate();
    let at: Vec<usize> = windows
        .filter(|(_, it)| *it == from)
        .map(|(at, _)| at)
        .collect();
    assert!(!at.is_empty());
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

fn recorded(world: &World) -> (Module, u64) {
    let program = world.compile(SOURCE, "program", &["-O1", "-g"]);
    let (outer, _) = function(&elf(&program), "outer");
    let (inner, _) = function(&elf(&program), "inner");
    (module(&program, &[outer, 1]), inner)
}

fn named(outcome: &Outcome) -> Vec<(u64, &str)> {
    let names = outcome.names.iter();
    names
        .map(|named| (named.rel_pc, &*named.frames[0].function))
        .collect()
}

#[test]
fn cached_names_are_not_looked_up_again() {
    let world = World::new();
    let (mut recorded, inner) = recorded(&world);
    let outer = recorded.rel_pcs[0];
    let first = symbolize(caching(&world), &recorded);
    assert_eq!(functions(&first), ["outer"]);
    // If the file were read again, the name would differ.
    let program = world.path("program");
    change_silently(&program, |bytes| replace(bytes, b"outer\0", b"OUTER\0"));
    assert_eq!(symbolize(caching(&world), &recorded), first);
    assert_eq!(functions(&symbolize(system(), &recorded)), ["OUTER"]);
    // New addresses are looked up, and both are cached.
    recorded.rel_pcs.push(inner);
    let both = symbolize(caching(&world), &recorded);
    assert_eq!(named(&both), [(inner, "inner"), (outer, "outer")]);
    change_silently(&program, |bytes| replace(bytes, b"inner\0", b"INNER\0"));
    assert_eq!(symbolize(caching(&world), &recorded), both);
}

#[test]
fn changed_and_new_files_are_read_again() {
    let world = World::new();
    let (recorded, _) = recorded(&world);
    let program = world.path("program");
    world.run(
        "objcopy",
        &["--only-keep-debug", "program", "program.debug"],
    );
    world.run(
        "objcopy",
        &[
            "--strip-debug",
            "--add-gnu-debuglink=program.debug",
            "program",
        ],
    );
    let debug = world.path("program.debug");
    let away = world.path("away");
    fs::rename(&debug, &away).expect("moved");
    let line = |outcome: &Outcome| outcome.names[0].frames[0].line;
    assert_eq!(line(&symbolize(caching(&world), &recorded)), 0);
    fs::rename(&away, &debug).expect("moved");
    assert_eq!(line(&symbolize(caching(&world), &recorded)), 2);
    // The same file with other contents.
    fs::remove_file(&debug).expect("removed");
    change_silently(&program, |bytes| replace(bytes, b"outer\0", b"OUTER\0"));
    let later = SystemTime::now() + Duration::from_secs(9);
    let file = File::options().write(true).open(&program).expect("a file");
    file.set_modified(later).expect("a time");
    assert_eq!(functions(&symbolize(caching(&world), &recorded)), ["OUTER"]);
}

#[test]
fn damaged_cache_files_are_ignored_and_replaced() {
    let world = World::new();
    let (recorded, _) = recorded(&world);
    let first = symbolize(caching(&world), &recorded);
    let file = kept(&world);
    let whole = fs::read(&file).expect("a file");
    for length in (0..whole.len()).step_by(7) {
        fs::write(&file, &whole[..length]).expect("a file");
        assert_eq!(symbolize(caching(&world), &recorded), first);
        let mut changed = whole.clone();
        changed[length] ^= 0x41;
        fs::write(&file, &changed).expect("a file");
        assert_eq!(symbolize(caching(&world), &recorded), first);
    }
    // The damaged cache file was replaced.
    assert_eq!(fs::read(&file).expect("a file").len(), whole.len());
    fs::remove_file(&file).expect("removed");
    world.run("mkfifo", &[file.to_str().expect("a path")]);
    assert_eq!(symbolize(caching(&world), &recorded), first);
}

#[test]
fn an_unusable_cache_folder_does_not_change_the_result() {
    let world = World::new();
    let (recorded, _) = recorded(&world);
    world.write("caches", "no folder");
    assert_eq!(functions(&symbolize(caching(&world), &recorded)), ["outer"]);
    let none = Options {
        cache: None,
        ..system()
    };
    assert_eq!(functions(&symbolize(none, &recorded)), ["outer"]);
}

#[test]
fn concurrent_users_share_the_folder_and_its_size_is_bounded() {
    let world = World::new();
    let (recorded, _) = recorded(&world);
    let first = symbolize(system(), &recorded);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(symbolize(caching(&world), &recorded), first);
                }
            });
        }
    });
    let file = kept(&world);
    // The oldest cache files are removed; other files stay.
    let folder = file.parent().expect("a folder");
    let old = SystemTime::now() - Duration::from_secs(7200);
    for (name, size) in [
        ("00112233445566778899", 300 << 20),
        ("0011223344556677.1.2.tmp", 1),
        ("mine.txt", 1),
    ] {
        let file = File::create(folder.join(name)).expect("a file");
        file.set_len(size).expect("a size");
        file.set_modified(old).expect("a time");
    }
    fs::remove_file(&file).expect("removed");
    assert_eq!(symbolize(caching(&world), &recorded), first);
    let mut left: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    left.sort();
    let mut expected = [file.clone(), folder.join("mine.txt")];
    expected.sort();
    assert_eq!(left, expected);
}
