//! Repository chores. The usage text below lists them.
#![forbid(unsafe_code)]

mod attacks;
mod circles;
mod codegen;
mod conformance;
mod counts;
mod dist;
mod docs;
mod install;
mod language;
mod licences;
mod links;
mod packages;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask circles --check
       cargo xtask codegen [--check]
       cargo xtask conformance [--check]
       cargo xtask language [--check]
       cargo xtask licences
       cargo xtask links
       cargo xtask attacks [--check] [SERVER]...
       cargo xtask packages [CRATE]...
       cargo xtask tree
       cargo xtask docs [FILE]...
       cargo xtask install-capi [--profile NAME] PREFIX
       cargo xtask dist [--profile NAME] FOLDER
       cargo xtask dist --profile NAME --programs

  circles --check  fail if files import each other, except for the accepted circles
  codegen          regenerate crates/proto from proto/
  codegen --check  change nothing; fail if what is checked in is not current
  conformance      write docs/conformance.md from the names of the tests, and the counts in
                   docs/testing.md; --check as above
  language         wrap comments that are too wide; --check fails on these, and on doc comments that
                   begin with a question word
  licences         fail if a dependency's licence is not on the list in deny.toml
  links            fail if a link between documents leads nowhere
  attacks          attack the servers, or these, and write the table in docs/testing.md; --check writes nothing
  packages         fail if what is published lacks something; with names, build these from their packages, too
  tree             fail if the library brings too many crates, or C code, into programs
  docs             try out every block of code in README.md and docs/, or in some of these
  install-capi     build the C interface and put it into PREFIX/lib, with files for pkg-config;
                   with optimizations unless another of cargo's profiles is named
  dist             make an archive and Debian packages with checksums, as above; also for arm64 or x86-64, if this
                   machine is the other and a compiler for it is installed; --programs only builds programs for it";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["circles", "--check"] => circles::check(),
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        ["conformance"] => conformance::write(),
        ["conformance", "--check"] => conformance::check(),
        ["language"] => language::write(),
        ["language", "--check"] => language::check(),
        ["licences"] => licences::check(),
        ["links"] => links::check(),
        ["attacks", "--check", names @ ..] => attacks::run(names, true),
        ["attacks", names @ ..] => attacks::run(names, false),
        ["packages", names @ ..] => packages::check(names),
        ["tree"] => tree::check(),
        ["docs", names @ ..] => docs::run(names),
        ["install-capi", prefix] => install::run(prefix, "release"),
        ["install-capi", "--profile", profile, prefix] => install::run(prefix, profile),
        ["dist", "--profile", profile, "--programs"] => dist::build_programs(profile),
        ["dist", into] => dist::run("dist", into),
        ["dist", "--profile", profile, into] => dist::run(profile, into),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
