//! The search for files.

use std::fs;
use std::os::unix::fs::symlink;

use ferretto_symbols::user::{Mode, Reason};
use ferretto_symbols::{Options, Symbolizer};

use crate::support::{World, elf, function, functions, module, symbolize, system};

const SOURCE: &str = "\
__attribute__((noinline)) int inner(int x) { return x * 3; }
static __attribute__((noinline)) int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { (void)argv; return outer(argc); }
";

#[test]
fn functions_are_named_by_the_symbol_table() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let (outer, size) = function(&elf(&program), "outer");
    let outcome = symbolize(system(), &module(&program, &[outer + size - 1, outer, 1]));
    let named: Vec<u64> = outcome.names.iter().map(|named| named.rel_pc).collect();
    assert_eq!(named, [outer, outer + size - 1]);
    assert_eq!(functions(&outcome), ["outer"]);
    assert_eq!(outcome.used, [program]);
}

#[test]
fn a_file_with_another_build_id_is_never_used() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let (outer, _) = function(&elf(&program), "outer");
    let recorded = module(&program, &[outer]);
    // The program was recompiled after the recording.
    world.compile(&SOURCE.replace("* 3", "* 5"), "program", &["-O0"]);
    let outcome = symbolize(system(), &recorded);
    assert_eq!(outcome.names, []);
    let other: Box<[u8]> = elf(&program).build_id().expect("a build id").into();
    assert!(
        outcome
            .skipped
            .contains(&(program, Reason::OtherBuildId(other)))
    );
}

#[test]
fn a_file_without_a_build_id_is_used_only_if_paths_are_trusted() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1", "-Wl,--build-id=none"]);
    let (outer, _) = function(&elf(&program), "outer");
    let recorded = module(&program, &[outer]);
    assert!(recorded.build_id.is_empty());
    let outcome = symbolize(system(), &recorded);
    assert_eq!(outcome.names, []);
    assert_eq!(outcome.skipped, [(program.clone(), Reason::NoBuildId)]);
    let trusting = Options {
        trust_paths: true,
        ..system()
    };
    assert_eq!(
        functions(&symbolize(trusting.clone(), &recorded)),
        ["outer"]
    );
    // A file with a build id is not used even then.
    world.compile(SOURCE, "program", &["-O1"]);
    assert_eq!(symbolize(trusting, &recorded).names, []);
}

#[test]
fn a_debug_file_next_to_a_stripped_program_is_used() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1", "-g"]);
    let (outer, _) = function(&elf(&program), "outer");
    world.run(
        "objcopy",
        &["--only-keep-debug", "program", "program.debug"],
    );
    world.run(
        "objcopy",
        &[
            "--strip-all",
            "--add-gnu-debuglink=program.debug",
            "program",
        ],
    );
    let recorded = module(&program, &[outer]);
    assert_eq!(functions(&symbolize(system(), &recorded)), ["outer"]);
    // In a folder of debug files.
    fs::create_dir(world.path(".debug")).expect("a folder");
    let beside = world.path("program.debug");
    fs::rename(&beside, world.path(".debug/program.debug")).expect("moved");
    assert_eq!(functions(&symbolize(system(), &recorded)), ["outer"]);
    // In the system's folder of debug files.
    let debug = world.path("debug");
    let folder = debug.join(
        program
            .parent()
            .expect("a folder")
            .strip_prefix("/")
            .expect("absolute"),
    );
    fs::create_dir_all(&folder).expect("folders");
    fs::rename(
        world.path(".debug/program.debug"),
        folder.join("program.debug"),
    )
    .expect("moved");
    let elsewhere = Options {
        debug_folder: Some(debug),
        ..system()
    };
    assert_eq!(
        functions(&symbolize(elsewhere.clone(), &recorded)),
        ["outer"]
    );
    // A changed debug file is not used.
    let debug = folder.join("program.debug");
    let mut bytes = fs::read(&debug).expect("the debug file");
    bytes.push(0);
    fs::write(&debug, bytes).expect("the debug file");
    let outcome = symbolize(elsewhere, &recorded);
    assert_eq!(outcome.names, []);
    assert!(
        outcome.skipped.contains(&(debug, Reason::OtherChecksum)),
        "{outcome:?}"
    );
}

#[test]
fn packed_symbols_of_a_stripped_program_are_used() {
    let world = World::new();
    if std::process::Command::new("xz")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: xz is not installed");
        return;
    }
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let (outer, _) = function(&elf(&program), "outer");
    let recorded = module(&program, &[outer]);
    world.run("objcopy", &["--only-keep-debug", "program", "packed"]);
    world.run("xz", &["packed"]);
    world.run("objcopy", &["--strip-all", "program"]);
    assert_eq!(functions(&symbolize(system(), &recorded)), [""; 0]);
    let packed = ["--add-section", ".gnu_debugdata=packed.xz", "program"];
    world.run("objcopy", &packed);
    assert_eq!(functions(&symbolize(system(), &recorded)), ["outer"]);
}

#[test]
fn debug_files_are_found_by_build_id() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1", "-g"]);
    let (outer, _) = function(&elf(&program), "outer");
    let recorded = module(&program, &[outer]);
    let id: String = recorded
        .build_id
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let folder = world.path("debug/.build-id").join(&id[..2]);
    fs::create_dir_all(&folder).expect("folders");
    let debug = folder.join(format!("{}.debug", &id[2..]));
    world.run(
        "objcopy",
        &[
            "--only-keep-debug",
            "program",
            debug.to_str().expect("a path"),
        ],
    );
    fs::remove_file(&program).expect("removed");
    let options = Options {
        debug_folder: Some(world.path("debug")),
        ..system()
    };
    let outcome = symbolize(options, &recorded);
    assert_eq!(functions(&outcome), ["outer"]);
    assert_eq!(outcome.used, [debug]);
}

#[test]
fn the_users_folders_are_searched_by_path_or_build_id() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let (outer, _) = function(&elf(&program), "outer");
    let mut recorded = module(&program, &[outer]);
    recorded.path = "/system/lib/base.apk!/libthing.so".to_owned();
    for relative in [
        "system/lib/base.apk!/libthing.so",
        "system/lib/libthing.so",
        "libthing.so",
    ] {
        let root = world.path("root");
        let path = root.join(relative);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::copy(&program, &path).expect("copied");
        for mode in [Mode::Find, Mode::Index] {
            let options = Options {
                roots: vec![root.clone()],
                mode,
                ..Options::default()
            };
            let outcome = symbolize(options, &recorded);
            // Without the folder of the archive, the library is found by its name only.
            if mode == Mode::Index || relative != "system/lib/libthing.so" {
                assert_eq!(outcome.used, std::slice::from_ref(&path), "{mode:?}");
            }
        }
        fs::remove_dir_all(root).expect("removed");
    }
    // Files with other names are found by build id only, also as single files.
    fs::copy(&program, world.path("other")).expect("copied");
    for (mode, found) in [(Mode::Find, 0), (Mode::Index, 1)] {
        let options = Options {
            roots: vec![world.path("other")],
            mode,
            ..Options::default()
        };
        assert_eq!(symbolize(options, &recorded).names.len(), found);
    }
}

#[test]
fn recorded_paths_do_not_lead_out_of_the_users_folders() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let (outer, _) = function(&elf(&program), "outer");
    let mut recorded = module(&program, &[outer]);
    recorded.path = "/../program".to_owned();
    fs::create_dir(world.path("root")).expect("a folder");
    symlink(world.path("."), world.path("root/circle")).expect("a link");
    for mode in [Mode::Find, Mode::Index] {
        let options = Options {
            roots: vec![world.path("root")],
            mode,
            ..Options::default()
        };
        assert_eq!(symbolize(options, &recorded).names, []);
    }
}

#[test]
fn special_files_do_not_block_the_search() {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &["-O1"]);
    let recorded = module(&program, &[0x1000]);
    fs::remove_file(&program).expect("removed");
    world.run("mkfifo", &["program"]);
    let outcome = symbolize(system(), &recorded);
    let [(path, Reason::Unusable(_)), ..] = &outcome.skipped[..] else {
        panic!("{outcome:?}")
    };
    assert_eq!(path, &program);
    for text in ["", "\x7fELF", "\x7fELF\x02\x01\x01garbage"] {
        fs::remove_file(&program).expect("removed");
        fs::write(&program, text).expect("a file");
        assert_eq!(symbolize(system(), &recorded).names, []);
    }
}

#[test]
fn the_vdso_is_named_if_it_is_the_recorded_one() {
    let mut recorded = ferretto_symbols::Module {
        path: "/[vdso]".to_owned(),
        rel_pcs: (0x100..0x4000).step_by(16).collect(),
        ..Default::default()
    };
    let outcome = symbolize(system(), &recorded);
    let named = outcome.names.iter().flat_map(|named| &named.frames);
    let named: Vec<_> = named.map(|frame| frame.function.to_string()).collect();
    if outcome.used.is_empty() {
        return println!("skipped: {:?}", outcome.skipped);
    }
    assert!(
        named.iter().any(|name| name.contains("gettime")),
        "{named:?}"
    );
    recorded.build_id = vec![1; 20];
    assert_eq!(symbolize(system(), &recorded).names, []);
}

#[test]
fn many_modules_are_named_in_their_order() {
    let world = World::new();
    let modules: Vec<_> = (0..5)
        .map(|number| {
            let source = SOURCE.replace("outer", &format!("outer{number}"));
            let program = world.compile(&source, &format!("program{number}"), &["-O1"]);
            let (outer, _) = function(&elf(&program), &format!("outer{number}"));
            module(&program, &[outer])
        })
        .collect();
    let outcomes = Symbolizer::new(system()).symbolize(&modules);
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(functions(outcome), [format!("outer{number}")]);
    }
}

#[test]
fn addresses_recorded_with_a_wrong_load_bias_are_corrected() {
    let world = World::new();
    // lld places addresses ahead of file offsets.
    let program = world.compile(
        SOURCE,
        "program",
        &["-O1", "-no-pie", "-Wl,-Ttext-segment=0x400000"],
    );
    let (outer, _) = function(&elf(&program), "outer");
    let file = elf(&program);
    let segment = file
        .segments()
        .iter()
        .find(|segment| segment.is_executable())
        .expect("code");
    let mut recorded = module(&program, &[outer]);
    recorded.offset = Some(segment.offset);
    assert_eq!(functions(&symbolize(system(), &recorded)), ["outer"]);
    // A profiler without the load bias recorded addresses without it.
    recorded.rel_pcs = vec![outer - recorded.load_bias];
    recorded.load_bias = 0;
    let assert_named = |recorded: &ferretto_symbols::Module| {
        let outcome = symbolize(system(), recorded);
        assert_eq!(functions(&outcome), ["outer"]);
        assert_eq!(outcome.names[0].rel_pc, recorded.rel_pcs[0]);
    };
    // A profiler with the load bias of another segment recorded addresses that are too large.
    let mut too_large = recorded.clone();
    too_large.rel_pcs = vec![outer + 0x1000];
    too_large.load_bias = segment.address - segment.offset + 0x1000;
    assert_named(&too_large);
    assert_named(&recorded);
    // A debug file has no file offsets of the program.
    world.run(
        "objcopy",
        &["--only-keep-debug", "program", "program.debug"],
    );
    world.run(
        "objcopy",
        &[
            "--strip-all",
            "--add-gnu-debuglink=program.debug",
            "program",
        ],
    );
    assert_named(&recorded);
}

#[test]
fn functions_of_stripped_programs_are_named_by_their_start() {
    let world = World::new();
    let flags = ["-O1", "-fasynchronous-unwind-tables"];
    let program = world.compile(SOURCE, "program", &flags);
    let (outer, size) = function(&elf(&program), "outer");
    world.run("strip", &["program"]);
    let end = outer + size - 1;
    let outcome = symbolize(system(), &module(&program, &[outer, end, 1]));
    assert_eq!(outcome.names, []);
    let starts: Vec<_> = outcome
        .starts
        .iter()
        .map(|named| (named.rel_pc, named.frames[0].function.to_string()))
        .collect();
    let name = format!("program+{outer:#x}");
    assert_eq!(starts, [(outer, name.clone()), (end, name)]);
}
