//! `cargo xtask licences`: checks that `deny.toml` allows every dependency's licence.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Checks the licence of each package in `Cargo.lock`.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask is below the root")?;
    let deny = fs::read_to_string(root.join("deny.toml")).context("reading deny.toml")?;
    let allowed = allowed(&deny);
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--workspace",
            "--edges=all",
            "--target=all",
        ])
        .args(["--prefix=none", "--format={p}\t{l}"])
        .current_dir(root)
        .output()
        .context("running cargo tree")?;
    if !tree.status.success() {
        bail!(
            "cargo tree failed:\n{}",
            String::from_utf8_lossy(&tree.stderr)
        );
    }
    let tree = String::from_utf8(tree.stdout)?;
    let mut packages: Vec<(&str, &str)> = tree
        .lines()
        .filter_map(|l| l.trim_end_matches(" (*)").split_once('\t'))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let bad: Vec<String> = packages
        .iter()
        .filter(|(package, licence)| {
            let excepted = exceptions(&deny, package);
            !permits(licence, &[&allowed[..], &excepted].concat())
        })
        .map(|(package, licence)| format!("{package}: {licence:?}"))
        .collect();
    if !bad.is_empty() {
        bail!(
            "licences not on the list in deny.toml:\n  {}",
            bad.join("\n  ")
        );
    }
    println!("{} packages, all under listed licences", packages.len());
    Ok(())
}

/// The quoted names of the `allow` list.
fn allowed(deny: &str) -> Vec<&str> {
    let list = deny
        .split("allow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    list.unwrap_or_default()
        .split('"')
        .skip(1)
        .step_by(2)
        .collect()
}

/// Returns the additional licences of a package in the `exceptions` list. The package is named as
/// by `cargo tree`.
fn exceptions<'a>(deny: &'a str, package: &str) -> Vec<&'a str> {
    let name = package.split(' ').next().unwrap_or_default();
    let start = format!("{{ name = \"{name}\", ");
    let entry = deny
        .split_once(&start)
        .and_then(|(_, rest)| rest.split_once('}'));
    entry.map_or(Vec::new(), |(entry, _)| allowed(entry))
}

/// Returns true if the allowed licences satisfy an SPDX expression.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = either(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = term(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= term(words, allowed);
    }
    met
}

fn term(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let Some(name) = words.next() else {
        return false;
    };
    if name == "(" {
        let met = either(words, allowed);
        return words.next() == Some(")") && met;
    }
    let Some(_) = words.next_if_eq(&"WITH") else {
        return allowed.contains(&name);
    };
    let exception = words.next().unwrap_or_default();
    allowed.contains(&format!("{name} WITH {exception}").as_str())
}

#[cfg(test)]
mod tests {
    use super::{exceptions, permits};

    #[test]
    fn exceptions_apply_to_one_package() {
        let deny = r#"exceptions = [{ name = "one", allow = ["CDDL-1.0"] }, { name = "two", allow = [] }]"#;
        assert_eq!(exceptions(deny, "one v1.0.0"), ["CDDL-1.0"]);
        assert_eq!(exceptions(deny, "two v1.0.0"), [""; 0]);
        assert_eq!(exceptions(deny, "on v1.0.0"), [""; 0]);
    }

    #[test]
    fn or_needs_one_side_and_and_needs_both() {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        assert!(permits("MIT OR GPL-3.0", &allowed));
        assert!(permits("GPL-2.0/MIT", &allowed));
        assert!(permits("MIT AND Unicode-3.0", &allowed));
        assert!(permits("Apache-2.0 WITH LLVM-exception", &allowed));
        assert!(!permits("MIT AND GPL-3.0", &allowed));
        assert!(permits("(MIT OR GPL-3.0) AND Unicode-3.0", &allowed));
        assert!(!permits("(MIT OR Apache-2.0) AND GPL-3.0", &allowed));
        assert!(!permits("MIT GPL-3.0", &allowed));
        assert!(!permits("", &allowed));
    }
}
