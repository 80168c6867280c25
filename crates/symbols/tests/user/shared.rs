//! Debug information with parts in a supplementary file.

use std::fs;

use ferretto_symbols::user::Reason;

use crate::support::{World, elf, function, functions, module, symbolize, system};

/// A function `code` whose name is in the shared file, with an inlined function that is entirely in
/// the shared file.
const PROGRAM: &str = r#"
.text
.globl code
.type code, @function
code: .skip 64, 0x90
.size code, .-code
.section .debug_abbrev,"",@progbits
abbreviations:
.uleb128 1, 0x11
.byte 1
.uleb128 0x11, 1, 0x12, 7, 0, 0
.uleb128 2, 0x2e
.byte 1
.uleb128 0x03, 0x1f21, 0x11, 1, 0x12, 7, 0, 0
.uleb128 3, 0x1d
.byte 0
.uleb128 0x31, 0x1f20, 0x11, 1, 0x12, 7, 0, 0
.byte 0
.section .debug_info,"",@progbits
.long .Lend - .Lversion
.Lversion: .short 4
.long abbreviations
.byte 8
.uleb128 1
.quad code, 64
.uleb128 2
.long 1
.quad code, 64
.uleb128 3
.long 12
.quad code + 4, 8
.byte 0, 0
.Lend:
.section .gnu_debugaltlink,"",@progbits
.asciz "shared.debug"
.byte 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99
"#;

/// The inlined function is the entry at 12.
const SHARED: &str = r#"
.section .debug_str,"",@progbits
.asciz ""
.asciz "named_elsewhere"
.section .debug_abbrev,"",@progbits
abbreviations:
.uleb128 1, 0x3c
.byte 1
.uleb128 0, 0
.uleb128 2, 0x2e
.byte 0
.uleb128 0x03, 8, 0, 0
.byte 0
.section .debug_info,"",@progbits
.long .Lend - .Lversion
.Lversion: .short 4
.long abbreviations
.byte 8
.uleb128 1
.uleb128 2
.asciz "inlined_elsewhere"
.byte 0
.Lend:
"#;

#[test]
fn names_in_a_supplementary_file_are_found() {
    let world = World::new();
    world.write("program.s", PROGRAM);
    world.write("shared.s", SHARED);
    let library = ["-shared", "-nostdlib"];
    let program = ["program.s", "-o", "program", "-Wl,--build-id=sha1"];
    world.run("cc", &[&library[..], &program].concat());
    let shared = ["shared.s", "-o", "shared.debug"];
    let id = ["-Wl,--build-id=0x00112233445566778899"];
    world.run("cc", &[&library[..], &shared, &id].concat());
    let path = world.path("program");
    let (code, _) = function(&elf(&path), "code");
    let recorded = module(&path, &[code + 5]);
    let outcome = symbolize(system(), &recorded);
    assert_eq!(outcome.remarks, [""; 0]);
    assert_eq!(
        functions(&outcome),
        ["inlined_elsewhere", "named_elsewhere"]
    );

    // Another file at its path is not used.
    let other = ["-Wl,--build-id=0x00112233445566778890"];
    world.run("cc", &[&library[..], &shared, &other].concat());
    let outcome = symbolize(system(), &recorded);
    assert_eq!(functions(&outcome), ["code"]);
    let other = world.path("shared.debug");
    let found = outcome.skipped.iter().find(|(path, _)| *path == other);
    assert!(
        matches!(found, Some((_, Reason::OtherBuildId(_)))),
        "{outcome:?}"
    );
    fs::remove_file(other).expect("removed");
    assert_eq!(functions(&symbolize(system(), &recorded)), ["code"]);
}
