//! Lines, taken out of bytes as they come.

/// Bytes of lines beyond this number are cut off.
const MAX_LINE: usize = 1 << 20;

/// Takes bytes apart into lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Hands out the lines that end in these bytes.
    ///
    /// # Errors
    ///
    /// As `each`.
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

    /// Hands out the last line, which may have no end.
    ///
    /// # Errors
    ///
    /// As `each`.
    pub fn finish<E>(&mut self, mut each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.bytes);
        if line.is_empty() {
            return Ok(());
        }
        each(&String::from_utf8_lossy(&line))
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
