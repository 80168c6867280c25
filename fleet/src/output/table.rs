//! Results as aligned columns.

use std::io::Write;

use futures::StreamExt;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::{Cell, Column, columns};
use crate::engine::Rows;
use crate::error::SqlError;

/// The number of rows that determine the widths of columns.
const SAMPLE: usize = 10_000;

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::Real(value) => value.to_string(),
        Cell::Text(text) => text.replace(|c: char| c.is_control(), " "),
        Cell::Blob(bytes) => format!("<{} bytes>", bytes.len()),
    }
}

fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        out.push(c);
        used += w;
    }
    out.push('…');
    out
}

/// Narrows the widest columns until all fit.
fn fit(widths: &mut [usize], total: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > total {
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if *widest <= 6 {
            return;
        }
        *widest -= 1;
    }
}

pub(super) async fn write(
    rows: Rows,
    width: Option<usize>,
    out: &mut (dyn Write + Send),
) -> Result<u64, SqlError> {
    let names = rows.names.clone();
    let mut stream = rows.stream;
    let mut sample: Vec<Vec<String>> = Vec::new();
    let mut numeric = vec![true; names.len()];
    let mut widths: Option<Vec<usize>> = None;
    let mut count = 0u64;
    let print = |line: &[String], widths: &[usize], numeric: &[bool]| {
        let mut parts = Vec::new();
        for ((text, width), right) in line.iter().zip(widths).zip(numeric) {
            let text = truncate(text, *width);
            let fill = " ".repeat(width.saturating_sub(text.width()));
            parts.push(if *right {
                format!("{fill}{text}")
            } else {
                format!("{text}{fill}")
            });
        }
        parts.join("  ").trim_end().to_owned()
    };
    let failed = |error| SqlError::new(format!("cannot write the result: {error}"));
    let measure = |sample: &[Vec<String>]| {
        let mut widths: Vec<usize> = names.iter().map(|n| n.width()).collect();
        for line in sample {
            for (width, text) in widths.iter_mut().zip(line) {
                *width = (*width).max(text.width());
            }
        }
        if let Some(total) = width {
            fit(&mut widths, total);
        }
        widths
    };
    loop {
        let next = stream.next().await.transpose()?;
        let over = next.is_none();
        if let Some(batch) = next {
            let columns = columns(&batch)?;
            for (flag, column) in numeric.iter_mut().zip(&columns) {
                *flag &= matches!(column, Column::Int(_) | Column::Real(_) | Column::Null);
            }
            for row in 0..batch.num_rows() {
                sample.push(columns.iter().map(|c| text(c.cell(row))).collect());
            }
            count += batch.num_rows() as u64;
        }
        if widths.is_none() && (over || sample.len() >= SAMPLE) {
            let found = measure(&sample);
            writeln!(out, "{}", print(&names, &found, &numeric)).map_err(failed)?;
            let rule: Vec<String> = found.iter().map(|w| "─".repeat(*w)).collect();
            writeln!(out, "{}", rule.join("  ")).map_err(failed)?;
            widths = Some(found);
        }
        if let Some(widths) = &widths {
            for line in sample.drain(..) {
                writeln!(out, "{}", print(&line, widths, &numeric)).map_err(failed)?;
            }
        }
        if over {
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{fit, truncate};

    #[test]
    fn columns_are_narrowed_to_the_width_of_the_terminal() {
        assert_eq!(truncate("abcdef", 4), "abc…");
        assert_eq!(truncate("abc", 4), "abc");
        let mut widths = vec![100, 10, 4];
        fit(&mut widths, 50);
        assert_eq!(widths, [32, 10, 4]);
    }
}
