//! A builder of ring-buffer pages.

/// Returns an event format as a kernel prints it: the common fields, then these.
pub(crate) fn format(name: &str, id: u16, fields: &[(&str, u16, u16, u8)]) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let common = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
    ];
    for (declaration, offset, size, signed) in common.iter().chain(fields) {
        text +=
            &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    }
    text + "\nprint fmt: \"\"\n"
}

/// A page under construction.
#[derive(Debug, Clone)]
pub(crate) struct PageBuilder {
    timestamp: u64,
    payload: Vec<u8>,
    flags: u64,
    commit_size: usize,
}

impl PageBuilder {
    pub(crate) fn new(timestamp: u64) -> Self {
        Self {
            timestamp,
            payload: Vec::new(),
            flags: 0,
            commit_size: 8,
        }
    }

    /// Uses the layout of a 32-bit kernel.
    pub(crate) fn narrow(mut self) -> Self {
        self.commit_size = 4;
        self
    }

    /// Sets bits of the commit word.
    pub(crate) fn flags(mut self, flags: u64) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn words(mut self, words: &[u32]) -> Self {
        self.payload
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self
    }

    fn header(self, type_len: u32, delta: u32) -> Self {
        self.words(&[delta << 5 | type_len])
    }

    /// Appends a data record with its length in the leading word.
    pub(crate) fn record(self, delta: u32, data: &[u8]) -> Self {
        let words = data.len().div_ceil(4);
        let mut page = self.header(words as u32, delta);
        page.payload.extend_from_slice(data);
        page.payload
            .resize(page.payload.len() + words * 4 - data.len(), 0);
        page
    }

    /// Appends a data record with its length in a separate word.
    pub(crate) fn long_record(self, delta: u32, data: &[u8]) -> Self {
        let mut page = self.header(0, delta).words(&[data.len() as u32 + 4]);
        page.payload.extend_from_slice(data);
        page
    }

    pub(crate) fn padding(self, delta: u32, length: u32) -> Self {
        let mut page = self.header(29, delta).words(&[length]);
        page.payload.resize(
            page.payload.len() + length.saturating_sub(4).min(64) as usize,
            0xee,
        );
        page
    }

    pub(crate) fn time_extend(self, delta: u64) -> Self {
        self.header(30, (delta & 0x7ff_ffff) as u32)
            .words(&[(delta >> 27) as u32])
    }

    pub(crate) fn absolute(self, time: u64) -> Self {
        self.header(31, (time & 0x7ff_ffff) as u32)
            .words(&[(time >> 27) as u32])
    }

    /// Builds the page with this size field.
    pub(crate) fn build_sized(self, size: u64) -> Vec<u8> {
        let commit = (size | self.flags).to_le_bytes();
        let mut page = self.timestamp.to_le_bytes().to_vec();
        page.extend_from_slice(&commit[..self.commit_size]);
        page.extend_from_slice(&self.payload);
        page.resize(4096, 0);
        page
    }

    pub(crate) fn build(self) -> Vec<u8> {
        let size = self.payload.len() as u64;
        self.build_sized(size)
    }
}

/// Returns the start of a record: id, flags, preempt count, pid.
pub(crate) fn common(id: u16, pid: i32) -> Vec<u8> {
    let mut record = id.to_le_bytes().to_vec();
    record.extend([0, 0]);
    record.extend(pid.to_le_bytes());
    record
}
