//! Splits a byte stream into lines.

/// The largest number of bytes of a line. The rest of a longer line is cut off.
const MAX_LINE: usize = 1 << 20;

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Adds bytes, and calls `each` with the lines that they complete.
    ///
    /// # Errors
    ///
    /// Returns the error of `each`.
    pub fn push<E>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.append(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.bytes);
            each(&String::from_utf8_lossy(&line))?;
        }
        self.append(bytes);
        Ok(())
    }

    /// Calls `each` with the last line if it has no line break.
    ///
    /// # Errors
    ///
    /// Returns the error of `each`.
    pub fn finish<E>(&mut self, mut each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.bytes);
        if line.is_empty() {
            return Ok(());
        }
        each(&String::from_utf8_lossy(&line))
    }

    fn append(&mut self, bytes: &[u8]) {
        let left = MAX_LINE.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(left)]);
    }
}
