//! Usage texts, generated from the tables of options.

/// A row: an option, and its description, which may have several lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) typed: &'a str,
    pub(crate) meaning: &'a str,
}

/// Adds rows whose descriptions start at a column. The description of a longer row follows the
/// option; a description that starts with a line break is on the next line.
pub(crate) fn add<'a>(text: &mut String, column: usize, rows: impl IntoIterator<Item = Row<'a>>) {
    for Row { typed, meaning } in rows {
        let typed = format!("  {typed}");
        let gap = if meaning.starts_with('\n') {
            0
        } else {
            column
                .checked_sub(typed.len())
                .filter(|gap| *gap > 0)
                .unwrap_or(2)
        };
        let indent = format!("\n{:column$}", "");
        let meaning = meaning.replace('\n', &indent);
        *text += &format!("{typed}{:gap$}{meaning}\n", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_start_at_one_column_or_after_long_options() {
        let row = |typed, meaning| Row { typed, meaning };
        let mut text = String::new();
        let rows = [
            row("-a", "one\ntwo"),
            row("--long", "three"),
            row("--longer", "\nfour"),
        ];
        add(&mut text, 8, rows);
        assert_eq!(
            text,
            "  -a    one\n        two\n  --long  three\n  --longer\n        four\n"
        );
    }
}
