//! `cargo xtask language`: checks the width of comments, the first words of doc comments, that
//! sentences name their subjects, and the words of names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The folders with code. Generated code is left out.
const FOLDERS: [&str; 8] = [
    "bench", "crates", "fuzz", "interop", "fleet", "query", "tls", "xtask",
];
/// The largest width of a comment.
const WIDTH: usize = 100;
/// First words of a question instead of a description.
const QUESTIONS: [&str; 7] = ["How", "What", "Where", "Whether", "Which", "Who", "Whose"];
/// First words of a sentence that does not name its subject.
const PRONOUNS: [&str; 5] = ["What", "Whatever", "Who", "Whoever", "Whose"];

/// Words that hide what a name stands for: an index, a slot, an offset, a path, a free size, …
const RIDDLES: [&str; 8] = [
    "crew", "place", "placed", "places", "room", "rooms", "settle", "settled",
];
/// The folders whose code may match field numbers: tests and benchmarks, which do not rely on the
/// names that they check.
const NUMBERED: [&str; 4] = ["/tests/", "bench/", "crates/testing/", "interop/"];

/// Wraps the comments that are too wide.
pub(crate) fn write() -> Result<()> {
    for file in files()? {
        let wrapped = wrap(&file.text);
        if wrapped != file.text {
            fs::write(root().join(&file.name), wrapped)
                .with_context(|| format!("writing {}", file.name))?;
        }
    }
    Ok(())
}

/// Fails if comments are too wide, start with a question word, or do not name their subject, or if
/// code has names or forms that hide their meaning.
pub(crate) fn check() -> Result<()> {
    let found: Vec<String> = files()?.iter().flat_map(findings).collect();
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

/// A file of the repository.
struct File {
    /// Its path from the root of the repository.
    name: String,
    text: String,
}

/// Describes all mistakes in a file.
fn findings(file: &File) -> Vec<String> {
    let name = &file.name;
    let mut found = Vec::new();
    for (number, line) in questions(name, &file.text) {
        let line = line.trim();
        found.push(format!(
            "{name}:{number}: begin with a verb or a noun phrase: {line}"
        ));
    }
    if name.ends_with(".rs") {
        for (number, line) in unnamed(&file.text) {
            let line = line.trim();
            found.push(format!("{name}:{number}: name the subject: {line}"));
        }
    }
    if name.ends_with(".rs") {
        for (number, word) in riddles(&file.text) {
            found.push(format!(
                "{name}:{number}: say what it is (index, offset, path, …) instead of \"{word}\""
            ));
        }
        for number in flags(&file.text) {
            found.push(format!(
                "{name}:{number}: use if instead of match for a flag"
            ));
        }
    }
    if name.ends_with(".rs") && !NUMBERED.iter().any(|part| name.contains(part)) {
        for number in numbered_fields(&file.text) {
            found.push(format!(
                "{name}:{number}: name the field instead of its number, or use a view"
            ));
        }
    }
    if name.ends_with(".rs") && wrap(&file.text) != file.text {
        found.push(format!(
            "{name}: comments wider than {WIDTH} columns; `cargo xtask language` wraps them"
        ));
    }
    found
}

/// Finds the lines that start a doc comment or an entry of the changelog with a question word.
fn questions<'a>(name: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let asks = |text: &str| QUESTIONS.contains(&first_word(text));
    let mut found = Vec::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        if name.ends_with(".md") {
            if line.strip_prefix("- ").is_some_and(asks) {
                found.push((index + 1, line));
            }
            continue;
        }
        let doc = Comment::parse(line).filter(|comment| comment.marker != "//");
        if let Some(doc) = &doc
            && before != Some(doc.marker)
            && asks(doc.text)
        {
            found.push((index + 1, line));
        }
        before = doc.map(|doc| doc.marker);
    }
    found
}

/// Finds the lines of comments in which a sentence starts with a pronoun: "What is left is freed"
/// does not say that pages are meant.
fn unnamed(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // The marker of the line before, and true if a sentence ended there.
    let mut before: Option<(&str, bool)> = None;
    for (index, line) in text.lines().enumerate() {
        let comment = Comment::parse(line);
        if let Some(comment) = comment {
            let continues = before == Some((comment.marker, false)) && !comment.is_item();
            let body = comment.text.trim_start_matches(['-', '*', ' ']);
            let mut sentences = body.split(". ");
            let first = sentences.next().filter(|_| !continues);
            if first
                .into_iter()
                .chain(sentences)
                .any(|sentence| PRONOUNS.contains(&first_word(sentence)))
            {
                found.push((index + 1, line));
            }
        }
        before = comment.map(|comment| {
            let text = comment.text.trim_end();
            (
                comment.marker,
                text.is_empty() || text.ends_with(['.', ':']),
            )
        });
    }
    found
}

/// Returns the code of a line without comments and texts.
fn code(line: &str) -> String {
    let mut code = String::new();
    // Raw texts contain quotes.
    let parts = line.split("r#\"").enumerate();
    let line: String = parts
        .map(|(index, part)| match part.split_once("\"#") {
            Some((_, after)) if index > 0 => after,
            _ => part,
        })
        .collect();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => break,
            '"' => {
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => _ = chars.next(),
                        '"' => break,
                        _ => {}
                    }
                }
                code.push(' ');
            }
            c => code.push(c),
        }
    }
    code
}

/// Finds the names in code with a word of [`RIDDLES`]. `in_place` is a term of its own.
fn riddles(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = code(line);
        let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in names.filter(|name| !name.starts_with(|c: char| c.is_ascii_digit())) {
            let words = words(name);
            let mut before = "";
            for word in &words {
                if RIDDLES.contains(&word.as_str()) && before != "in" && before != "for" {
                    found.push((index + 1, name.to_owned()));
                    break;
                }
                before = word;
            }
        }
    }
    found
}

/// Splits a name, such as `snake_case` or `CamelCase`, into its words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_lower = false;
    for c in name.chars() {
        if c == '_' || words.is_empty() || (c.is_uppercase() && is_lower) {
            words.push(String::new());
        }
        is_lower = c.is_lowercase();
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Finds the arms of a `match` for a flag alone.
fn flags(text: &str) -> Vec<usize> {
    let is_arm = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("true => ") || line.starts_with("false => ")) && !line.ends_with(';')
    };
    let arms = text.lines().enumerate().filter(|(_, line)| is_arm(line));
    arms.map(|(index, _)| index + 1).collect()
}

/// Finds the arms with numbers of a `match` over the number of a field.
fn numbered_fields(text: &str) -> Vec<usize> {
    let indent_of = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    // The indents of the open matches.
    let mut matches = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (indent, line) = (indent_of(line), line.trim());
        if line.is_empty() {
            continue;
        }
        while matches.last().is_some_and(|open| *open >= indent) {
            matches.pop();
        }
        let is_in_match = matches.last().is_some_and(|open| open + 4 == indent);
        let arm = line.trim_start_matches(['|', ' ', '(']);
        if is_in_match && arm.starts_with(|first: char| ('1'..='9').contains(&first)) {
            found.push(index + 1);
        }
        if line.contains("match ") && line.contains(".number") && line.ends_with('{') {
            matches.push(indent);
        }
    }
    found
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// A line that is a comment.
#[derive(Clone, Copy, PartialEq)]
struct Comment<'a> {
    indent: usize,
    /// `//`, `///` or `//!`.
    marker: &'a str,
    text: &'a str,
}

impl<'a> Comment<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let comment = line.trim_start();
        let marker = ["///", "//!", "//"]
            .into_iter()
            .find(|&marker| comment.starts_with(marker))?;
        let text = &comment[marker.len()..];
        let text = text.strip_prefix(' ').or(text.is_empty().then_some(""))?;
        Some(Self {
            indent: line.len() - comment.len(),
            marker,
            text,
        })
    }

    /// Returns the indentation of continuation lines, if this line may be joined with others.
    fn hanging(&self) -> Option<usize> {
        let text = self.text;
        let body = text.trim_start();
        let item = body.starts_with("- ")
            || body.starts_with("* ")
            || body
                .split_once(". ")
                .is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        let indent = text.len() - body.len();
        if item {
            return Some(indent + body.find(' ').unwrap_or(0) + 1);
        }
        let prose = body.starts_with(|c: char| c.is_alphanumeric() || "`'\"([<*_$…".contains(c));
        let link = body.starts_with('[') && body.contains("]: ");
        (prose && indent < 4 && !link && !body.contains("  ")).then_some(indent)
    }

    fn is_item(&self) -> bool {
        self.hanging() != Some(self.text.len() - self.text.trim_start().len())
    }
}

/// Wraps each paragraph of comments with a line wider than [`WIDTH`]. Keeps code, tables and
/// drawings.
fn wrap(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    let mut code = false;
    while let Some(line) = lines.next() {
        let comment = Comment::parse(line);
        let fence = comment.is_some_and(|comment| comment.text.trim_start().starts_with("```"));
        code = comment.is_some() && code != fence;
        let first = comment.filter(|_| !code && !fence);
        let Some((first, hanging)) = first.and_then(|first| Some((first, first.hanging()?))) else {
            wrapped.push_str(line);
            wrapped.push('\n');
            continue;
        };
        let mut paragraph = vec![line];
        while let Some(next) = lines.peek()
            && let Some(comment) = Comment::parse(next)
            && (comment.indent, comment.marker) == (first.indent, first.marker)
            && !comment.is_item()
            && comment.hanging() == Some(hanging)
        {
            paragraph.extend(lines.next());
        }
        if paragraph.iter().any(|line| line.chars().count() > WIDTH) {
            fill(&mut wrapped, first, hanging, &paragraph);
        } else {
            paragraph
                .iter()
                .for_each(|line| wrapped.extend([*line, "\n"]));
        }
    }
    wrapped
}

/// Writes the words of a paragraph in as few lines as possible.
fn fill(wrapped: &mut String, first: Comment<'_>, hanging: usize, paragraph: &[&str]) {
    let begin = |indent: usize| {
        let (outer, inner) = (" ".repeat(first.indent), " ".repeat(indent + 1));
        format!("{outer}{}{inner}", first.marker)
    };
    let mut line = begin(first.text.len() - first.text.trim_start().len());
    let mut empty = true;
    let texts = paragraph.iter().filter_map(|line| Comment::parse(line));
    for word in texts.flat_map(|comment| comment.text.split_whitespace()) {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            wrapped.extend([&*line, "\n"]);
            line = begin(hanging);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    wrapped.extend([&*line, "\n"]);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads the files to check, in order.
fn files() -> Result<Vec<File>> {
    let mut names = vec!["CHANGELOG.md".to_owned()];
    for folder in FOLDERS {
        visit(folder, &mut names)?;
    }
    names.sort();
    let read = |name: String| {
        let text =
            fs::read_to_string(root().join(&name)).with_context(|| format!("reading {name}"))?;
        Ok(File { name, text })
    };
    names.into_iter().map(read).collect()
}

/// Collects the names of Rust files below a folder.
fn visit(folder: &str, names: &mut Vec<String>) -> Result<()> {
    let entries = fs::read_dir(root().join(folder)).with_context(|| format!("reading {folder}"))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {folder}"))?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.ends_with("/generated") && !name.ends_with("/target") {
                visit(&name, names)?;
            }
        } else if name.ends_with(".rs") {
            names.push(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{flags, numbered_fields, questions, riddles, unnamed, wrap};

    #[test]
    fn names_say_what_they_stand_for() {
        let names = |text| -> Vec<String> {
            let found = riddles(text).into_iter();
            found.map(|(_, name)| name).collect()
        };
        assert_eq!(
            names("let place = has_room(MAX_ROOM, Place::At); // a place"),
            ["place", "has_room", "MAX_ROOM", "Place"]
        );
        assert!(names("replace(Placeholder, in_place, \"the place \\\" room\", roomy)").is_empty());
        assert_eq!(names("find(r#\"\"room\"\"#, place)"), ["place"]);
        let arms = "match is_new {\n    true => 1,\n    false => 2,\n}\n(true, false) => 3,\n";
        assert_eq!(flags(arms), [2, 3]);
    }

    #[test]
    fn fields_have_names() {
        let text = "match part.number {\n    1 => one(),\n    of::TWO => {\n        match n {\n            \
                    3 => 4,\n        }\n    }\n    | 5\n    | 6 => 7,\n}\nmatch n {\n    8 => 9,\n}\n";
        assert_eq!(numbered_fields(text), [2, 8, 9]);
    }

    #[test]
    fn only_the_first_line_of_a_description_is_checked_for_questions() {
        let text = "//! What it does.\n\n/// Returns\n/// What is there.\n\n// Why? What else.\n    /// How\n";
        let numbers = |name| -> Vec<usize> {
            questions(name, text)
                .into_iter()
                .map(|(number, _)| number)
                .collect()
        };
        assert_eq!(numbers("a.rs"), [1, 7]);
        assert_eq!(
            questions("a.md", "- How it is\n- However\n  Who\n").len(),
            1
        );
        assert!(questions("a.rs", "/// Whoever comes").is_empty());
    }

    #[test]
    fn each_sentence_of_a_comment_is_checked_for_its_subject() {
        let numbers = |text: &str| -> Vec<usize> {
            let found = unnamed(text).into_iter();
            found.map(|(number, _)| number).collect()
        };
        let lines = [
            "// Whoever comes",
            "// What follows.",
            "// Whose it is.",
            "let a; // Who",
            "/// Pages. What is left is freed.",
            "/// - What is in a list",
            "/// that",
            "/// Who reads",
        ];
        assert_eq!(numbers(&lines.join("\n")), [1, 3, 5, 6]);
        assert!(numbers("// However, it\n// tells who, and what. Nothing else.\n").is_empty());
    }

    #[test]
    fn only_too_wide_paragraphs_are_wrapped() {
        let narrow = "    // One line,\n    // and another.\n";
        assert_eq!(wrap(narrow), narrow);
        let word = "abcdefghi ".repeat(12);
        let wide = format!("/// {word}\n/// more.\n///\n/// - {word}\n///   more.\n/// - last\n");
        let line = "abcdefghi ".repeat(9);
        let (line, rest) = (line.trim_end(), "abcdefghi abcdefghi abcdefghi more.");
        assert_eq!(
            wrap(&wide),
            format!("/// {line}\n/// {rest}\n///\n/// - {line}\n///   {rest}\n/// - last\n")
        );
        let link = format!("/// {} ([`A`]: {word}\n", "abcdefghi ".repeat(8).trim_end());
        assert_ne!(wrap(&link), link);
        let kept = [
            format!("/// ```\n/// {word}\n/// ```\n"),
            format!("/// | {word}|\n"),
            format!("/// [a]: {word}\n"),
            format!("let a = \"{word}\";\n"),
        ];
        for kept in kept {
            assert_eq!(wrap(&kept), kept);
        }
    }
}
