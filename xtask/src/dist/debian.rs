//! Debian packages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// The maintainer. Packages need an address; the project has none, so this uses the reserved domain
/// `.invalid`. Questions go to the project's issues.
const MAINTAINER: &str = "The Ferretto authors <noreply@ferretto.invalid>";

/// The description of a package.
pub(super) struct Package {
    name: &'static str,
    about: &'static str,
    more: &'static str,
    scripts: &'static [(&'static str, &'static str)],
}

/// The programs.
pub(super) const FERRETTO: Package = Package {
    name: "ferretto",
    about: "record what a machine and its programs do, as Perfetto traces",
    more: " The tracing service, the data sources of the system, profilers and the command line,\n \
           in one program that needs no library, and a program for SQL over a trace.\n",
    scripts: &[
        (
            "postinst",
            include_str!("../../../packaging/debian/postinst"),
        ),
        ("prerm", include_str!("../../../packaging/debian/prerm")),
        ("postrm", include_str!("../../../packaging/debian/postrm")),
    ],
};

/// The C library.
pub(super) const DEVELOPMENT: Package = Package {
    name: "ferretto-dev",
    about: "C interface of Perfetto's client library, by ferretto",
    more: " A library that programs are linked with, which write track events of their own.\n",
    scripts: &[],
};

/// Builds a package from the files in a folder.
pub(super) fn package(
    into: &Path,
    staged: &Path,
    architecture: &str,
    package: &Package,
) -> Result<()> {
    let control = staged.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "Package: {}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
         Section: devel\nPriority: optional\nDescription: {}\n{}",
        package.name, package.about, package.more
    );
    fs::write(control.join("control"), text)?;
    for (name, script) in package.scripts {
        let path = control.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let name = format!("{}_{version}_{architecture}.deb", package.name);
    super::call(
        Command::new("dpkg-deb")
            .args(["--build", "--root-owner-group", "-Zgzip"])
            .arg(staged)
            .arg(into.join(name))
            .stdout(std::process::Stdio::null()),
    )
    .context("building a Debian package")
}
