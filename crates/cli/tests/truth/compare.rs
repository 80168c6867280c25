//! Comparison of a program's own numbers with those of the readers.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// The numbers of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Topic {
    pub(crate) name: &'static str,
    /// The number of numbers that it compares, if the kernel has all that it needs.
    pub(crate) numbers: usize,
}

/// The comparisons of a topic. Fails the test at the end with all that differ.
#[derive(Debug)]
pub(crate) struct Comparison {
    topic: Topic,
    compared: usize,
    wrong: Vec<String>,
}

impl Topic {
    pub(crate) fn compare(self) -> Comparison {
        Comparison {
            topic: self,
            compared: 0,
            wrong: Vec::new(),
        }
    }
}

impl Comparison {
    /// Compares one number: each reader's value is in the range that the program knows, and all
    /// readers give the same. `None` is a reader that shows nothing.
    pub(crate) fn number(
        &mut self,
        name: &str,
        known: impl RangeBounds<i64> + Debug,
        readers: &[(&str, Option<i64>)],
    ) {
        self.compared += 1;
        println!("{}, {name}: {known:?}, {readers:?}", self.topic.name);
        let wrong = readers.iter().any(|(_, value)| match value {
            Some(value) => !known.contains(value),
            None => true,
        });
        let first = readers.first().and_then(|(_, value)| *value);
        if readers.iter().any(|(_, value)| *value != first) {
            let sentence = format!("{name}: the readers differ: {readers:?}");
            self.wrong.push(sentence);
        }
        if wrong {
            let sentence = format!("{name}: {known:?} is known, the readers say {readers:?}");
            self.wrong.push(sentence);
        }
    }

    /// Fails the test if a number was wrong, or fewer were compared than the topic promises.
    pub(crate) fn finish(self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        assert!(
            self.compared >= self.topic.numbers,
            "{} of {} numbers were compared",
            self.compared,
            self.topic.numbers
        );
    }
}

/// Returns the range within a share of a number: `about(100, 2)` is 98 to 102.
#[allow(dead_code)]
pub(crate) fn about(number: i64, percent: i64) -> (Bound<i64>, Bound<i64>) {
    let tolerance = number.abs() * percent / 100;
    (
        Bound::Included(number - tolerance),
        Bound::Included(number + tolerance),
    )
}

/// Returns the range of exactly one number.
pub(crate) fn exactly(number: i64) -> std::ops::RangeInclusive<i64> {
    number..=number
}
