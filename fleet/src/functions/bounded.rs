//! Results of functions that can be much longer than their arguments.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringBuilder};
use datafusion::common::{Result, exec_err};

/// The largest number of bytes of the texts that a function returns for a batch of rows: the
/// engine's memory limit does not count them.
const MOST: usize = 64 << 20;

/// The texts that a function returns for a batch of rows.
pub(super) struct BoundedTexts {
    function: &'static str,
    texts: StringBuilder,
    bytes: usize,
}

impl BoundedTexts {
    pub(super) fn new(function: &'static str) -> Self {
        Self {
            function,
            texts: StringBuilder::new(),
            bytes: 0,
        }
    }

    /// Fails if the texts would be too long with a text of this length.
    pub(super) fn check(&self, length: usize) -> Result<()> {
        if self.bytes.saturating_add(length) > MOST {
            return exec_err!(
                "{}: the texts of some rows have more than {MOST} bytes, the most that a function \
                 returns.",
                self.function
            );
        }
        Ok(())
    }

    pub(super) fn push(&mut self, text: Option<&str>) -> Result<()> {
        let length = text.map_or(0, str::len);
        self.check(length)?;
        self.bytes += length;
        self.texts.append_option(text);
        Ok(())
    }

    pub(super) fn finish(mut self) -> ArrayRef {
        Arc::new(self.texts.finish())
    }
}
