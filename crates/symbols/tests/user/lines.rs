//! Inlined functions, source files and lines, from debug information.

use std::path::Path;
use std::process::Command;

use ferretto_symbols::{Frame, Outcome};

use crate::support::{World, elf, function, module, symbolize, system};

const SOURCE: &str = "\
extern int printf(const char *, ...);
static inline __attribute__((always_inline)) int innermost(int x) {
    __asm__ volatile(\"nop\\n.globl mark\\nmark: nop\");
    return x * 3;
}
static inline __attribute__((always_inline)) int middle(int x) {
    return innermost(x + 1) + 1;
}
__attribute__((noinline)) int outer(int x) {
    return middle(x) ^ 1;
}
int main(int argc, char **argv) {
    (void)argv;
    return printf(\"%d\", outer(argc));
}
";

/// Returns function, file name and line of each frame.
fn comparable(outcome: &Outcome) -> Vec<(String, String, u32)> {
    let frames = outcome.names.first().map_or(&[][..], |named| &named.frames);
    let file = |frame: &Frame| {
        let path = frame.file.as_deref().unwrap_or("?");
        let name = Path::new(path).file_name().expect("a name");
        name.to_str().expect("a name").to_owned()
    };
    frames
        .iter()
        .map(|frame| (frame.function.to_string(), file(frame), frame.line))
        .collect()
}

fn expected(frames: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
    let owned =
        |&(function, file, line): &(&str, &str, u32)| (function.to_owned(), file.to_owned(), line);
    frames.iter().map(owned).collect()
}

const INLINED: [(&str, &str, u32); 3] = [
    ("innermost", "program.c", 3),
    ("middle", "program.c", 7),
    ("outer", "program.c", 10),
];

#[track_caller]
fn assert_inlined(flags: &[&str]) {
    let world = World::new();
    let program = world.compile(SOURCE, "program", &[&["-O2"], flags].concat());
    let mark = mark(&program);
    let outcome = symbolize(system(), &module(&program, &[mark]));
    assert_eq!(outcome.remarks, [""; 0], "{flags:?}");
    assert_eq!(comparable(&outcome), expected(&INLINED), "{flags:?}");
    let path = outcome.names[0].frames[0].file.as_deref();
    let source = std::fs::canonicalize(world.path("program.c")).expect("a path");
    assert_eq!(path, source.to_str(), "{flags:?}");
}

#[test]
fn inlined_functions_are_listed_innermost_first_with_their_lines() {
    assert_inlined(&["-gdwarf-5"]);
    assert_inlined(&["-gdwarf-5", "-O0"]);
    assert_inlined(&["-g1"]);
}

#[test]
fn older_versions_of_dwarf_are_read() {
    assert_inlined(&["-gdwarf-4"]);
    assert_inlined(&["-gdwarf-3"]);
    assert_inlined(&["-gdwarf-2", "-gno-strict-dwarf"]);
}

#[test]
fn files_built_with_unusual_options_are_read() {
    assert_inlined(&["-gdwarf-5", "-gdwarf64"]);
    assert_inlined(&["-gdwarf-5", "-ffunction-sections", "-Wl,--gc-sections"]);
    assert_inlined(&["-gdwarf-5", "-gz=zlib"]);
    assert_inlined(&["-gdwarf-5", "-flto"]);
    assert_inlined(&["-gdwarf-5", "-freorder-blocks-and-partition", "-O3"]);
}

#[test]
fn split_debug_information_is_read() {
    assert_inlined(&["-gdwarf-5", "-gsplit-dwarf"]);
    let world = World::new();
    let flags = ["-O2", "-gdwarf-5", "-gsplit-dwarf"];
    let program = world.compile(SOURCE, "program", &flags);
    let recorded = module(&program, &[mark(&program)]);
    assert_eq!(
        comparable(&symbolize(system(), &recorded)),
        expected(&INLINED)
    );
    let is_split = |path: &Path| path.extension().is_some_and(|ending| ending == "dwo");
    let entries = std::fs::read_dir(world.path(".")).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let split = files
        .into_iter()
        .find(|path| is_split(path))
        .expect("a .dwo file");
    // The file of another build is not used. Lines alone would put inlined ones into the wrong
    // function.
    for damage in ["other", "none"] {
        if damage == "other" {
            let kept = split.with_extension("kept");
            std::fs::rename(&split, &kept).expect("moved");
            world.write("program.c", &SOURCE.replace("x * 3", "x * 7 + 1"));
            world.run(
                "cc",
                &[&["program.c", "-o", "program2"], &flags[..]].concat(),
            );
            let entries = std::fs::read_dir(world.path(".")).expect("a folder");
            let other = entries
                .map(|entry| entry.expect("an entry").path())
                .find(|path| is_split(path))
                .expect("a .dwo file");
            std::fs::rename(other, &split).expect("moved");
        } else {
            std::fs::remove_file(&split).expect("removed");
        }
        let outcome = symbolize(system(), &recorded);
        assert_eq!(
            comparable(&outcome),
            expected(&[("mark", "?", 0)]),
            "{damage}"
        );
        assert!(outcome.remarks[0].contains(".dwo"), "{:?}", outcome.remarks);
    }
}

#[test]
fn units_and_functions_in_several_ranges_are_read() {
    use std::fmt::Write as _;
    let mut source = SOURCE.to_owned();
    for number in 0..300 {
        let attributes = "__attribute__((noinline, used))";
        writeln!(
            source,
            "{attributes} int other{number}(int x) {{ return x * {number}; }}"
        )
        .unwrap();
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let world = World::new();
        let flags = ["-O2", "-ffunction-sections", version];
        let program = world.compile(&source, "program", &flags);
        let of = |name| function(&elf(&program), name).0;
        let wanted = [mark(&program), of("other299"), of("other0"), of("other150")];
        let outcome = symbolize(system(), &module(&program, &wanted));
        assert_eq!(outcome.names.len(), 4);
        for named in &outcome.names {
            let frame = named.frames.last().expect("a function");
            let number = frame
                .function
                .strip_prefix("other")
                .map(|it| it.parse::<u32>().unwrap());
            assert_eq!(
                frame.line,
                number.map_or(10, |number| 16 + number),
                "{frame:?}"
            );
        }
    }
}

#[test]
fn output_of_clang_is_read() {
    if Command::new("clang").arg("--version").output().is_err() {
        return println!("skipped: clang is not installed");
    }
    for flags in [
        &["-gdwarf-5"][..],
        &["-gdwarf-4"],
        &["-gline-tables-only"],
        &["-gdwarf-5", "-gdwarf-aranges"],
    ] {
        let world = World::new();
        world.write("program.c", SOURCE);
        let fixed = ["program.c", "-o", "program", "-O2", "-Wl,--build-id=sha1"];
        world.run("clang", &[&fixed, flags].concat());
        let program = world.path("program");
        let outcome = symbolize(system(), &module(&program, &[mark(&program)]));
        assert_eq!(comparable(&outcome), expected(&INLINED), "{flags:?}");
    }
}

/// Returns the address of the label in `innermost`.
fn mark(program: &Path) -> u64 {
    function(&elf(program), "mark").0
}

#[test]
fn debug_information_in_another_file_is_read() {
    for compress in ["none", "zlib", "zstd"] {
        let world = World::new();
        let program = world.compile(SOURCE, "program", &["-O2", "-g"]);
        let mark = mark(&program);
        let compress = format!("--compress-debug-sections={compress}");
        world.run(
            "objcopy",
            &["--only-keep-debug", &compress, "program", "program.debug"],
        );
        world.run(
            "objcopy",
            &[
                "--strip-debug",
                "--add-gnu-debuglink=program.debug",
                "program",
            ],
        );
        let outcome = symbolize(system(), &module(&program, &[mark]));
        assert_eq!(comparable(&outcome), expected(&INLINED), "{compress}");
        assert_eq!(outcome.used, [world.path("program.debug")]);
    }
}

#[test]
fn functions_of_rust_and_of_cxx_have_readable_names() {
    let world = World::new();
    world.write(
        "program.rs",
        "mod shapes {\n\
             pub trait Shape { fn area(&self) -> u64; }\n\
             pub struct Square(pub u64);\n\
             impl Shape for Square {\n\
                 #[inline(never)]\n\
                 fn area(&self) -> u64 {\n\
                     twice(self.0)\n\
                 }\n\
             }\n\
             #[inline(always)]\n\
             fn twice(x: u64) -> u64 {\n\
                 unsafe { std::arch::asm!(\"nop\", \".globl mark\", \"mark: nop\") };\n\
                 x * 2\n\
             }\n\
         }\n\
         fn main() { let square = shapes::Square(std::env::args().count() as u64);\n\
             std::process::exit(shapes::Shape::area(&square) as i32) }\n",
    );
    for mangling in ["legacy", "v0"] {
        let mangling = format!("-Csymbol-mangling-version={mangling}");
        // Older compilers support only one format.
        let flags = [
            "-O",
            "-g",
            "-Clink-arg=-Wl,--build-id=sha1",
            &mangling,
            "program.rs",
        ];
        let done = Command::new("rustc")
            .args(flags)
            .current_dir(world.path("."))
            .output();
        let Ok(done) = done else {
            return println!("skipped: rustc is not installed");
        };
        if !done.status.success() {
            println!("skipped: {}", String::from_utf8_lossy(&done.stderr));
            continue;
        }
        let program = world.path("program");
        let outcome = symbolize(system(), &module(&program, &[mark(&program)]));
        let names = [
            ("program::shapes::twice", "program.rs", 12),
            (
                "<program::shapes::Square as program::shapes::Shape>::area",
                "program.rs",
                7,
            ),
        ];
        assert_eq!(comparable(&outcome), expected(&names), "{mangling}");
    }
    world.write(
        "program.cc",
        "namespace shapes {\n\
         template <typename T> struct Square {\n\
             T side;\n\
             __attribute__((noinline)) T area() const {\n\
                 __asm__ volatile(\"nop\\n.globl mark\\nmark: nop\");\n\
                 return side * side; }\n\
         };\n\
         }\n\
         int main(int argc, char **) { return shapes::Square<int>{argc}.area(); }\n",
    );
    world.run(
        "c++",
        &[
            "-O2",
            "-g",
            "-Wl,--build-id=sha1",
            "program.cc",
            "-o",
            "program",
        ],
    );
    let program = world.path("program");
    let outcome = symbolize(system(), &module(&program, &[mark(&program)]));
    assert_eq!(
        comparable(&outcome),
        expected(&[("shapes::Square<int>::area", "program.cc", 5)])
    );
}
