//! Compiles programs and symbolizes their functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferretto_elf::{Elf, open_regular};
use ferretto_symbols::{Module, Options, Outcome, Symbolizer};
use tempfile::TempDir;

/// The folder of a test.
pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a source file");
        path
    }

    /// Runs a program in the folder.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    }

    /// Compiles `source` (C) into a program `name`.
    pub(crate) fn compile(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.write("program.c", source);
        let fixed = ["program.c", "-o", name, "-Wl,--build-id=sha1"];
        self.run("cc", &[&fixed, flags].concat());
        self.path(name)
    }
}

pub(crate) fn elf(path: &Path) -> Elf {
    Elf::open(open_regular(path).expect("a file"), 0).expect("an ELF file")
}

/// Returns address and size of a function by its symbol.
pub(crate) fn function(program: &Elf, name: &str) -> (u64, u64) {
    let mut all = program.symbols().iter();
    let found = all.find(|(_, _, symbol)| *symbol == name);
    let (address, size, _) = found.unwrap_or_else(|| panic!("no function {name}"));
    (address, size)
}

/// Returns the module of `program` as a recording has it.
pub(crate) fn module(program: &Path, rel_pcs: &[u64]) -> Module {
    let elf = elf(program);
    Module {
        path: program.to_str().expect("a path").to_owned(),
        build_id: elf.build_id().unwrap_or_default().to_vec(),
        load_bias: elf.load_bias(),
        offset: None,
        rel_pcs: rel_pcs.to_vec(),
    }
}

pub(crate) fn system() -> Options {
    Options {
        system: true,
        ..Options::default()
    }
}

pub(crate) fn symbolize(options: Options, module: &Module) -> Outcome {
    Symbolizer::new(options).symbolize_module(module)
}

/// Returns the functions of the first address, innermost first.
pub(crate) fn functions(outcome: &Outcome) -> Vec<&str> {
    let first = outcome.names.first();
    let frames = first
        .map(|named| named.frames.as_slice())
        .unwrap_or_default();
    frames.iter().map(|frame| &*frame.function).collect()
}
