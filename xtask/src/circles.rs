//! `cargo xtask circles`: counts groups of files that import each other.
//!
//! A file and the files of its submodules count as one unit here: a parent may use its parts, and
//! they may use what their parent declares.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The circles that are accepted, by one of their files, with the reason.
const ACCEPTED: [(&str, &str); 6] = [
    (
        "crates/capi/src/writer.rs",
        "the layouts of C structures contain each other",
    ),
    (
        "crates/capi/src/thread.rs",
        "a thread owns the instances of its data sources, which find their thread",
    ),
    (
        "crates/heap/src/client/session.rs",
        "one lock guards heaps, mappings and the session on the path of each allocation",
    ),
    (
        "crates/proto/src/runtime/message.rs",
        "messages contain fields, which are messages",
    ),
    (
        "crates/tables/src/store.rs",
        "rows of the log have arguments, and arguments are rows",
    ),
    (
        "fleet/src/fleet/table.rs",
        "a table of traces is planned as an operator, whose plan contains such tables",
    ),
];

/// Fails if there are other circles than the accepted ones.
pub(crate) fn check() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let circles = circles(&root)?;
    let mut known = BTreeSet::new();
    let mut others = Vec::new();
    for circle in &circles {
        match ACCEPTED.iter().find(|(file, _)| circle.contains(*file)) {
            Some((file, reason)) => {
                known.insert(*file);
                println!("{} files around {file}: {reason}", circle.len());
            }
            None => others.push(circle.iter().map(String::as_str).collect::<Vec<_>>()),
        }
    }
    println!("{} circles", circles.len());
    for circle in &others {
        eprintln!("these files import each other: {}", circle.join(", "));
    }
    let gone = ACCEPTED.iter().map(|(file, _)| *file);
    let gone: Vec<_> = gone.filter(|file| !known.contains(file)).collect();
    if !gone.is_empty() {
        eprintln!("these circles are gone; remove them from the list: {gone:?}");
    }
    if !(others.is_empty() && gone.is_empty()) {
        bail!("move what several files need to a file that imports none of them");
    }
    Ok(())
}

/// Returns the groups of files that import each other, as paths from the root.
fn circles(root: &Path) -> Result<Vec<BTreeSet<String>>> {
    let mut all = Vec::new();
    for crate_root in crate_roots(root)? {
        let mut modules = Modules::default();
        modules.load(&crate_root, None, &[])?;
        all.extend(groups(&modules.imports()));
    }
    all.extend(groups(&pages(&root.join("viewer/src"))?));
    let name = |file: &PathBuf| {
        let file = file.strip_prefix(root).unwrap_or(file);
        file.display().to_string()
    };
    Ok(all
        .iter()
        .map(|group| group.iter().map(name).collect())
        .collect())
}

/// Returns the first files of all crates.
fn crate_roots(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = ["bench", "fleet", "fuzz", "interop", "query", "tls", "xtask"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path());
    }
    folders.sort();
    let files = folders
        .iter()
        .flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|name| folder.join(name)));
    Ok(files.filter(|file| file.exists()).collect())
}

/// A reference to other items: the segments of a path.
type Reference = Vec<String>;

#[derive(Debug)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    /// Imports by their local name.
    uses: HashMap<String, Reference>,
    globs: Vec<Reference>,
    references: Vec<Reference>,
}

/// The modules of a crate; the first one is its root.
#[derive(Debug, Default)]
struct Modules(Vec<Module>);

impl Modules {
    /// Reads the module in a file, and its submodules. Returns its index.
    fn load(&mut self, file: &Path, parent: Option<usize>, path: &[String]) -> Result<usize> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.file_name().unwrap_or_default();
        let own_folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let folder = match name.to_str() {
            Some("lib.rs" | "main.rs" | "mod.rs") => own_folder,
            _ => own_folder.join(file.file_stem().unwrap_or_default()),
        };
        self.parse(&tokens(&text), file, &folder, parent, path)
    }

    fn parse(
        &mut self,
        tokens: &[String],
        file: &Path,
        folder: &Path,
        parent: Option<usize>,
        path: &[String],
    ) -> Result<usize> {
        let own = self.0.len();
        self.0.push(Module {
            file: file.to_owned(),
            parent,
            children: HashMap::new(),
            items: HashSet::new(),
            uses: HashMap::new(),
            globs: Vec::new(),
            references: Vec::new(),
        });
        let at = |index: usize| tokens.get(index).map_or("", String::as_str);
        let mut index = 0;
        while index < tokens.len() {
            match at(index) {
                "#" if at(index + 1) == "[" || at(index + 2) == "[" => {
                    let open = index + 1 + usize::from(at(index + 1) != "[");
                    let end = closing(tokens, open);
                    let inside = tokens.get(open..end).unwrap_or_default();
                    let has = |word: &str| inside.iter().any(|token| token == word);
                    index = end + 1;
                    let is_without_tests = inside
                        .windows(3)
                        .any(|part| part[0] == "not" && part[1] == "(" && part[2] == "test");
                    if has("cfg") && has("test") && !is_without_tests {
                        index = end_of_item(tokens, index);
                    }
                }
                "mod" if at(index + 2) == "{" => {
                    let (name, end) = (at(index + 1).to_owned(), closing(tokens, index + 2));
                    let inner = tokens.get(index + 3..end).unwrap_or_default().to_vec();
                    let path = [path, std::slice::from_ref(&name)].concat();
                    let folder = folder.join(&name);
                    let child = self.parse(&inner, file, &folder, Some(own), &path)?;
                    self.0[own].children.insert(name, child);
                    index = end + 1;
                }
                "mod" if at(index + 2) == ";" => {
                    let name = at(index + 1).to_owned();
                    let candidates = [format!("{name}.rs"), format!("{name}/mod.rs")];
                    let found = candidates.iter().map(|name| folder.join(name));
                    let found = found.into_iter().find(|file| file.exists());
                    if let Some(found) = found.filter(|_| name != "generated") {
                        let path = [path, std::slice::from_ref(&name)].concat();
                        let child = self.load(&found, Some(own), &path)?;
                        self.0[own].children.insert(name, child);
                    }
                    index += 3;
                }
                "use" => {
                    let end = (index..tokens.len()).find(|index| at(*index) == ";");
                    let end = end.unwrap_or(tokens.len());
                    self.import(own, tokens.get(index + 1..end).unwrap_or_default(), &[]);
                    index = end + 1;
                }
                "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static"
                | "macro_rules" => {
                    let next = (index + 1..index + 3).find(|index| is_name(at(*index)));
                    if let Some(name) = next {
                        self.0[own].items.insert(at(name).to_owned());
                    }
                    index += 1;
                }
                first if is_name(first) && at(index + 1) == "::" => {
                    let mut reference = vec![first.to_owned()];
                    while at(index + 1) == "::" && is_name(at(index + 2)) {
                        reference.push(at(index + 2).to_owned());
                        index += 2;
                    }
                    let is_type = first.starts_with(|c: char| c.is_uppercase());
                    let follows = index >= 2 * reference.len()
                        && at(index - 2 * (reference.len() - 1) - 1) == "::";
                    if !is_type && !follows && reference.len() > 1 {
                        self.0[own].references.push(reference);
                    }
                    index += 1;
                }
                _ => index += 1,
            }
        }
        Ok(own)
    }

    /// Reads the tree of a `use`.
    fn import(&mut self, own: usize, tree: &[String], before: &[String]) {
        let mut path = before.to_vec();
        let mut index = 0;
        while let Some(token) = tree.get(index) {
            match token.as_str() {
                "::" => index += 1,
                "{" => {
                    let end = closing(tree, index);
                    let (mut start, mut depth) = (index + 1, 0);
                    for at in index + 1..=end.min(tree.len() - 1) {
                        match tree[at].as_str() {
                            "{" => depth += 1,
                            "}" if at < end => depth -= 1,
                            "," | "}" if depth == 0 => {
                                if start < at {
                                    self.import(own, &tree[start..at], &path);
                                }
                                start = at + 1;
                            }
                            _ => {}
                        }
                    }
                    return;
                }
                "*" => {
                    self.0[own].globs.push(path.clone());
                    return;
                }
                "as" => {
                    let name = tree.get(index + 1).cloned().unwrap_or_default();
                    return self.import_as(own, path, name);
                }
                name => {
                    path.push(name.to_owned());
                    index += 1;
                }
            }
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = path.last().cloned().unwrap_or_default();
        self.import_as(own, path, name);
    }

    fn import_as(&mut self, own: usize, path: Reference, name: String) {
        let module = &mut self.0[own];
        module.references.push(path.clone());
        if path.first() != Some(&name) {
            module.uses.insert(name, path);
        }
    }

    /// Returns the file with the item that a path names in a module; `None` if it is a module
    /// itself or of another crate.
    fn resolve(&self, from: usize, path: &[String], left: usize) -> Option<&Path> {
        let (first, rest) = path.split_first()?;
        let left = left.checked_sub(1)?;
        let module = self.0.get(from)?;
        match first.as_str() {
            "crate" => self.find(0, rest, left),
            "self" => self.find(from, rest, left),
            "super" => match rest.first().map(String::as_str) {
                Some("super") => self.resolve(module.parent?, rest, left),
                _ => self.find(module.parent?, rest, left),
            },
            name if module.children.contains_key(name) || module.uses.contains_key(name) => {
                self.find(from, path, left)
            }
            _ => None,
        }
    }

    /// Returns the file with the item of this path inside of a module.
    fn find(&self, from: usize, path: &[String], left: usize) -> Option<&Path> {
        let (first, rest) = path.split_first()?;
        let left = left.checked_sub(1)?;
        let module = self.0.get(from)?;
        if first == "super" {
            return self.find(module.parent?, rest, left);
        }
        if let Some(child) = module.children.get(first) {
            return self.find(*child, rest, left);
        }
        if module.items.contains(first) {
            return Some(&module.file);
        }
        if let Some(used) = module.uses.get(first) {
            let path = [used, rest].concat();
            return self.resolve(from, &path, left);
        }
        let mut globs = module.globs.iter();
        globs.find_map(|glob| self.resolve(from, &[glob, path].concat(), left))
    }

    /// Returns the files that each file imports, without its relatives.
    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (index, module) in self.0.iter().enumerate() {
            for reference in &module.references {
                if let Some(file) = self.resolve(index, reference, 24)
                    && !are_relatives(&module.file, file)
                {
                    let of_file = imports.entry(module.file.clone()).or_default();
                    of_file.insert(file.to_owned());
                }
            }
        }
        imports
    }
}

type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns true if one file is that of a parent of the other's module.
fn are_relatives(one: &Path, other: &Path) -> bool {
    let folder = |file: &Path| match file.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "main.rs" | "mod.rs") => file.parent().unwrap_or(file).to_owned(),
        _ => file.with_extension(""),
    };
    let (one, other) = (folder(one), folder(other));
    one.starts_with(&other) || other.starts_with(&one)
}

/// Returns the imports of the viewer's page.
fn pages(folder: &Path) -> Result<Imports> {
    let mut imports = Imports::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_none_or(|end| end != "ts") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let targets = text.split("from \"./").skip(1);
        let names = targets.filter_map(|rest| rest.split_once('"'));
        let targets = names.map(|(name, _)| folder.join(name).with_extension("ts"));
        imports.insert(file, targets.collect());
    }
    Ok(imports)
}

/// Returns the groups in which each file reaches each other.
fn groups(imports: &Imports) -> Vec<BTreeSet<PathBuf>> {
    let reached = |from: &PathBuf| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(next) = waiting.pop() {
            for file in imports.get(next).into_iter().flatten() {
                if seen.insert(file.clone()) {
                    waiting.push(file);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        imports.keys().map(|file| (file, reached(file))).collect();
    let mut done = BTreeSet::new();
    let mut groups = Vec::new();
    for (file, reached) in &reach {
        if !reached.contains(*file) || done.contains(*file) {
            continue;
        }
        let back = |other: &&PathBuf| reach.get(other).is_some_and(|all| all.contains(*file));
        let group: BTreeSet<PathBuf> = reached.iter().filter(back).cloned().collect();
        done.extend(group.iter().cloned());
        if group.len() > 1 {
            groups.push(group);
        }
    }
    groups
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns the index of the bracket that closes the one at `open`.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the index after the item at `from`, which may have attributes.
fn end_of_item(tokens: &[String], from: usize) -> usize {
    let mut index = from;
    let mut is_use = false;
    while let Some(token) = tokens.get(index) {
        match token.as_str() {
            "use" => is_use = true,
            "(" | "[" => index = closing(tokens, index),
            "{" if is_use => index = closing(tokens, index),
            "{" => return closing(tokens, index) + 1,
            ";" => return index + 1,
            _ => {}
        }
        index += 1;
    }
    index
}

/// Splits code into names, `::` and other characters. Comments, texts and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let find = |from: usize, pattern: &str| {
        let pattern: Vec<char> = pattern.chars().collect();
        let rest = chars.get(from..).unwrap_or_default();
        let found = rest.windows(pattern.len()).position(|part| part == pattern);
        found.map_or(chars.len(), |found| from + found + pattern.len())
    };
    let mut tokens = Vec::new();
    let mut index = 0;
    while index < chars.len() {
        let c = chars[index];
        let raw = index + usize::from(c == 'b');
        let hashes = (raw + 1..).take_while(|index| at(*index) == '#').count();
        if c == '/' && at(index + 1) == '/' {
            index = find(index, "\n");
        } else if c == '/' && at(index + 1) == '*' {
            index = find(index + 2, "*/");
        } else if at(raw) == 'r' && at(raw + 1 + hashes) == '"' {
            index = find(raw + 2 + hashes, &format!("\"{}", "#".repeat(hashes)));
        } else if c == '"' {
            index += 1;
            while index < chars.len() && chars[index] != '"' {
                index += 1 + usize::from(chars[index] == '\\');
            }
            index += 1;
        } else if c == '\'' {
            if at(index + 1) == '\\' {
                index = find(index + 3, "'");
            } else if at(index + 2) == '\'' {
                index += 3;
            } else {
                // A lifetime.
                index += 1;
                while at(index).is_alphanumeric() || at(index) == '_' {
                    index += 1;
                }
            }
        } else if c.is_alphanumeric() || c == '_' {
            let rest = chars[index..].iter();
            let name: String = rest
                .take_while(|c| c.is_alphanumeric() || **c == '_')
                .collect();
            index += name.chars().count();
            tokens.push(name);
        } else if c == ':' && at(index + 1) == ':' {
            tokens.push("::".to_owned());
            index += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            index += 1;
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the circles of a crate with these files in its folder `src`.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = std::env::temp_dir().join(format!("ferretto-circles-{}", std::process::id()));
        let name = files.iter().map(|file| file.1.len()).sum::<usize>();
        let folder = folder.join(name.to_string());
        for (file, text) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let mut modules = Modules::default();
        modules.load(&folder.join("lib.rs"), None, &[]).unwrap();
        let groups = groups(&modules.imports());
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
        let name = |file: PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
        groups
            .into_iter()
            .map(|group| group.into_iter().map(name).collect())
            .collect()
    }

    #[test]
    fn files_that_import_each_other_are_found_and_tests_and_parents_do_not_count() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; pub use b::B; struct Root; // use d::D;",
            ),
            (
                "a.rs",
                "use crate::{B, Root}; pub struct A; const T: &str = \"crate::c::C\";",
            ),
            (
                "b.rs",
                "pub struct B(crate::a::A); #[cfg(test)] mod tests { use crate::c::C; }",
            ),
            ("c.rs", "mod part; pub struct C(crate::b::B, part::Part);"),
            ("c/part.rs", "use super::C; pub struct Part<'a>(&'a C);"),
        ];
        assert_eq!(circles_of(&files), [["a.rs", "b.rs"]]);
    }
}
