//! Code blocks of Markdown, and directives in comments before them.

use anyhow::{Result, bail, ensure};

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its opening fence, counted from 1.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) text: String,
    pub(super) note: Note,
}

/// The directives in a hidden comment before a block: `<!-- docs: … -->`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// `skip: REASON`: the block is not run.
    pub(super) skip: Option<String>,
    /// `needs: PROGRAM`: the block is not run where this program is not installed.
    pub(super) needs: Option<String>,
    /// `file: PATH`: the block is the content of a file for later blocks.
    pub(super) file: Option<String>,
    /// `interrupt: SECONDS`: sends Ctrl-C after this time.
    pub(super) interrupt: Option<u32>,
    /// `code: N`: the exit code of the last command, if not 0.
    pub(super) code: i32,
    /// `setup:` and shell lines to run before the block, for files that the reader has.
    pub(super) setup: String,
    /// `within:` and lines around the line `BLOCK`, which stands for the block.
    pub(super) within: Option<String>,
}

const OPENING: &str = "<!-- docs:";
const CLOSING: &str = "-->";

/// Returns all blocks of a document in order.
pub(super) fn blocks(markdown: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut note = None;
    let mut is_after_blank = true;
    let mut lines = markdown.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        if line.starts_with(OPENING) {
            let mut comment = line.to_owned();
            while !comment.ends_with(CLOSING) {
                let Some((_, next)) = lines.next() else {
                    bail!("line {number}: this comment never ends");
                };
                comment = format!("{comment}\n{next}");
            }
            let comment = comment
                .trim_start_matches(OPENING)
                .trim_end_matches(CLOSING);
            parse_note(comment.trim(), note.get_or_insert_default())
                .map_err(|error| error.context(format!("line {number}")))?;
        } else if let Some(language) = line.strip_prefix("```") {
            let mut text = String::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some((_, line)) => {
                        text.push_str(line);
                        text.push('\n');
                    }
                    None => bail!("line {number}: this block never ends"),
                }
            }
            ensure!(
                !language.is_empty(),
                "line {number}: this block has no language"
            );
            blocks.push(Block {
                line: number,
                language: language.to_owned(),
                text,
                note: note.take().unwrap_or_default(),
            });
        } else {
            ensure!(
                !(line.starts_with("    ") && is_after_blank),
                "line {number}: code that is only indented has no language; put it between fences"
            );
            let is_blank = line.trim().is_empty();
            ensure!(
                is_blank || note.is_none(),
                "line {number}: a block of code should follow the comment before"
            );
            is_after_blank = is_blank;
            continue;
        }
        is_after_blank = true;
    }
    Ok(blocks)
}

fn parse_note(comment: &str, note: &mut Note) -> Result<()> {
    let Some((key, value)) = comment.split_once(':') else {
        bail!("\"{comment}\" is not KEY: VALUE");
    };
    let value = value.trim();
    match key {
        "skip" => {
            ensure!(!value.is_empty(), "skip: why?");
            note.skip = Some(value.replace('\n', " "));
        }
        "needs" => {
            ensure!(!value.is_empty(), "needs: which program?");
            note.needs = Some(value.to_owned());
        }
        "file" => note.file = Some(value.to_owned()),
        "interrupt" => note.interrupt = Some(value.parse()?),
        "code" => note.code = value.parse()?,
        "setup" => note.setup = value.to_owned(),
        "within" => {
            ensure!(
                value.lines().any(|line| line.trim() == "BLOCK"),
                "within: no line is BLOCK"
            );
            note.within = Some(value.to_owned());
        }
        _ => bail!("\"{key}\" is not one of skip, needs, file, interrupt, code, setup, within"),
    }
    Ok(())
}

impl Block {
    /// Returns the text with the surrounding lines.
    pub(super) fn whole(&self) -> String {
        let Some(within) = &self.note.within else {
            return self.text.clone();
        };
        let lines = within.lines();
        lines
            .map(|line| match line.trim() {
                "BLOCK" => self.text.clone(),
                _ => format!("{line}\n"),
            })
            .collect()
    }

    /// Returns the commands to run; of an example with output, the lines after a prompt.
    pub(super) fn commands(&self) -> String {
        if self.language != "console" {
            return self.text.clone();
        }
        let lines = self.text.lines();
        lines
            .filter_map(|line| Some(format!("{}\n", line.strip_prefix("$ ")?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_a_language_and_directives() {
        let text = "Text\n\n<!-- docs: skip: no\nroot -->\n<!-- docs: needs: jq -->\n<!-- docs: code: 2 -->\n\n```sh\na\n\nb\n```\n\
                    * a list\n    goes on\n\n```console\n$ a\nsaid\n$ b\n```\n";
        let blocks = blocks(text).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].line, blocks[0].text.as_str()), (8, "a\n\nb\n"));
        assert_eq!(blocks[0].note.skip.as_deref(), Some("no root"));
        assert_eq!(blocks[0].note.needs.as_deref(), Some("jq"));
        assert_eq!(blocks[0].note.code, 2);
        assert_eq!(blocks[1].commands(), "a\nb\n");
        assert_eq!(blocks[1].note, Note::default());
    }

    #[test]
    fn surrounding_lines_are_added_to_a_block() {
        let text = "<!-- docs: within:\nfn main() {\n  BLOCK\n}\n-->\n```rust\nf();\n```\n";
        assert_eq!(blocks(text).unwrap()[0].whole(), "fn main() {\nf();\n}\n");
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, expected) in [
            ("a\n\n    code\n", "line 3: code that is only indented"),
            ("```\ncode\n```\n", "line 1: this block has no language"),
            ("a\n```sh\n", "line 2: this block never ends"),
            ("<!-- docs: skip: x\n", "line 1: this comment never ends"),
            (
                "<!-- docs: skip: x -->\ntext\n",
                "line 2: a block of code should follow",
            ),
            ("<!-- docs: skip: -->\n", "line 1: skip: why?"),
            ("<!-- docs: needs: -->\n", "line 1: needs: which"),
            ("<!-- docs: jump: x -->\n", "line 1: \"jump\" is not one of"),
        ] {
            let error = format!("{:#}", blocks(text).unwrap_err());
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
