//! A tree of callstacks.

use rustc_hash::FxHashMap;

use crate::frame::{Frame, Texts};

/// The parent of all roots.
pub(super) const ROOT: u32 = u32::MAX;
/// The maximum number of rows of a tree.
const MAX_ROWS: usize = 100_000;

/// A function in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    name: u32,
    file: u32,
}

#[derive(Debug)]
struct Row {
    parent: u32,
    key: Key,
    own: f64,
}

/// A tree of callstacks. Parents come before their children.
#[derive(Debug, Default)]
pub(super) struct Tree {
    rows: Vec<Row>,
    children: FxHashMap<(u32, Key), u32>,
    texts: Vec<String>,
    by_text: FxHashMap<String, u32>,
}

impl Tree {
    fn text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.by_text.insert(text.to_owned(), number);
        number
    }

    pub(super) fn key(&mut self, name: &str, file: &str) -> Key {
        Key {
            name: self.text(name),
            file: self.text(file),
        }
    }

    pub(super) fn name(&self, key: Key) -> &str {
        &self.texts[key.name as usize]
    }

    /// Returns the row of a function called by another.
    pub(super) fn child(&mut self, parent: u32, key: Key) -> u32 {
        let rows = &mut self.rows;
        *self.children.entry((parent, key)).or_insert_with(|| {
            rows.push(Row {
                parent,
                key,
                own: 0.0,
            });
            rows.len() as u32 - 1
        })
    }

    pub(super) fn add(&mut self, row: u32, weight: f64) {
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.own += weight;
        }
    }

    pub(super) fn frame(&self, unit: &str) -> Vec<u8> {
        let mut own: Vec<f64> = self.rows.iter().map(|row| row.own).collect();
        let mut total = own.clone();
        for row in (0..self.rows.len()).rev() {
            let parent = self.rows[row].parent as usize;
            if parent < total.len() {
                total[parent] += total[row];
            }
        }
        let kept = self.kept(&total);
        for row in (0..self.rows.len()).rev().filter(|row| !kept[*row]) {
            let parent = self.rows[row].parent as usize;
            if parent < own.len() {
                own[parent] += own[row];
            }
        }
        let mut written = vec![-1_i32; self.rows.len()];
        let mut texts = Texts::default();
        let (mut parent, mut name, mut file) = (Vec::new(), Vec::new(), Vec::new());
        let (mut totals, mut selves) = (Vec::new(), Vec::new());
        for (index, row) in self
            .rows
            .iter()
            .enumerate()
            .filter(|(index, _)| kept[*index])
        {
            written[index] = parent.len() as i32;
            parent.push(written.get(row.parent as usize).copied().unwrap_or(-1));
            name.push(texts.number(&self.texts[row.key.name as usize]));
            file.push(texts.number(&self.texts[row.key.file as usize]));
            totals.push(total[index]);
            selves.push(own[index]);
        }
        let mut frame = Frame::new("tree");
        frame.field("unit", unit);
        frame.texts(texts);
        frame.i32s("parent", &parent);
        frame.u32s("name", &name);
        frame.u32s("file", &file);
        frame.f64s("total", &totals);
        frame.f64s("self", &selves);
        frame.finish()
    }

    /// Returns for each row if it is written: the largest rows and their ancestors are.
    fn kept(&self, total: &[f64]) -> Vec<bool> {
        if self.rows.len() <= MAX_ROWS {
            return vec![true; self.rows.len()];
        }
        let mut order: Vec<usize> = (0..total.len()).collect();
        // A parent is at least as large as its children and has a smaller index.
        order.sort_by(|a, b| total[*b].abs().total_cmp(&total[*a].abs()).then(a.cmp(b)));
        let mut kept = vec![false; total.len()];
        let mut count = 0;
        for row in order {
            let parent = self.rows[row].parent as usize;
            if count < MAX_ROWS && kept.get(parent).copied().unwrap_or(true) {
                kept[row] = true;
                count += 1;
            }
        }
        kept
    }
}
