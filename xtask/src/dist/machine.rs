//! The machines that packages are for.

use std::env;
use std::path::Path;
use std::process::Command;

/// A kind of machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// The name of its architecture in targets and archives.
    pub(super) name: &'static str,
    /// The name of its architecture in Debian.
    pub(super) debian: &'static str,
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "x86_64",
        debian: "amd64",
    },
    Machine {
        name: "aarch64",
        debian: "arm64",
    },
];

impl Machine {
    /// Returns this machine; `None` if there are no packages for its kind.
    pub(super) fn this() -> Option<&'static Self> {
        MACHINES.iter().find(|machine| machine.is_this())
    }

    /// Returns the other machines.
    pub(super) fn others() -> impl Iterator<Item = &'static Self> {
        MACHINES.iter().filter(|machine| !machine.is_this())
    }

    pub(super) fn is_this(&self) -> bool {
        self.name == env::consts::ARCH
    }

    /// Returns the target of the compiler.
    pub(super) fn target(&self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }

    /// Returns cargo's variable for the linker, and the linker.
    pub(super) fn linker(&self) -> (String, String) {
        let target = self.target().to_uppercase().replace('-', "_");
        let variable = format!("CARGO_TARGET_{target}_LINKER");
        let linker = env::var(&variable).unwrap_or_else(|_| format!("{}-linux-gnu-gcc", self.name));
        (variable, linker)
    }

    /// Returns what is needed to build for another machine and is not installed; `None` if all is
    /// there.
    pub(super) fn missing(&self) -> Option<String> {
        let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let asked = Command::new(compiler)
            .args(["--print", "target-libdir", "--target", &self.target()])
            .output();
        let folder = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if !folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir()) {
            return Some(format!("the standard library of {}", self.target()));
        }
        let (variable, linker) = self.linker();
        let is_there = Command::new(&linker).arg("--version").output().is_ok();
        (!is_there).then(|| format!("the C compiler {linker}, which {variable} can name"))
    }
}
