//! Entries of a journal, as `journalctl --output=export` writes them (Journal Export Format).

use std::io::{self, BufRead, Read as _};

use ferretto_proto::fields::systemd_journald_event as field;

/// Longer values are cut.
const MAX_VALUE: usize = 64 << 10;
/// The bytes of the length of a value that has lines of its own.
const LENGTH: usize = 8;

/// Fields that are numbers, and those of the packet.
const NUMBERS: [(&str, u32); 5] = [
    ("_PID", field::PID),
    ("_TID", field::TID),
    ("_UID", field::UID),
    ("_GID", field::GID),
    ("PRIORITY", field::PRIO),
];

/// Fields that are texts, and those of the packet.
const TEXTS: [(&str, u32); 7] = [
    ("SYSLOG_IDENTIFIER", field::TAG),
    ("MESSAGE", field::MESSAGE),
    ("_COMM", field::COMM),
    ("_EXE", field::EXE),
    ("_SYSTEMD_UNIT", field::SYSTEMD_UNIT),
    ("_HOSTNAME", field::HOSTNAME),
    ("_TRANSPORT", field::TRANSPORT),
];

/// Returns the names of the fields that are wanted.
pub(super) fn wanted() -> String {
    let names = NUMBERS.iter().chain(&TEXTS).map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(",")
}

/// An entry of the journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The position in the journal.
    pub(super) cursor: Vec<u8>,
    /// The time since boot, without suspend.
    pub(super) monotonic_us: Option<u64>,
    /// By number of the packet's field.
    pub(super) numbers: Vec<(u32, u32)>,
    /// By number of the packet's field. None is empty.
    pub(super) texts: Vec<(u32, Vec<u8>)>,
}

impl Entry {
    /// Reads the next one; `None` at the end. One that is cut there does not count.
    pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut entry = Self::default();
        let mut is_empty = true;
        let mut line = Vec::new();
        while read_line(input, &mut line)? {
            if line.is_empty() {
                if is_empty {
                    continue;
                }
                return Ok(Some(entry));
            }
            is_empty = false;
            match line.iter().position(|byte| *byte == b'=') {
                Some(end) => entry.take(&line[..end], &line[end + 1..]),
                None => {
                    let value = read_value(input)?;
                    entry.take(&line, &value);
                }
            }
        }
        Ok(None)
    }

    fn take(&mut self, name: &[u8], value: &[u8]) {
        let text = || std::str::from_utf8(value).ok();
        match name {
            b"__CURSOR" => self.cursor = value.to_vec(),
            b"__MONOTONIC_TIMESTAMP" => {
                self.monotonic_us = text().and_then(|text| text.parse().ok());
            }
            _ => {
                let of = |known: &&(&str, u32)| known.0.as_bytes() == name;
                if let Some((_, number)) = NUMBERS.iter().find(of)
                    && let Some(value) = text().and_then(|text| text.parse().ok())
                    && self.numbers.iter().all(|(other, _)| other != number)
                {
                    self.numbers.push((*number, value));
                }
                if let Some((_, number)) = TEXTS.iter().find(of)
                    && !value.is_empty()
                    && self.texts.iter().all(|(other, _)| other != number)
                {
                    self.texts.push((*number, value.to_vec()));
                }
            }
        }
    }
}

/// Reads a line without its end, and as much of it as may be kept. Returns false if there is none.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    loop {
        let some = input.fill_buf()?;
        if some.is_empty() {
            return Ok(false);
        }
        let end = some.iter().position(|byte| *byte == b'\n');
        let part = &some[..end.unwrap_or(some.len())];
        line.extend_from_slice(&part[..part.len().min(MAX_VALUE - line.len())]);
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Reads a value that follows its length, up to the limit.
fn read_value(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let kept = length.min(MAX_VALUE as u64);
    let mut value = Vec::new();
    input.by_ref().take(kept).read_to_end(&mut value)?;
    // The rest, and the end of the line.
    let rest = (length - kept).saturating_add(1);
    let skipped = io::copy(&mut input.by_ref().take(rest), &mut io::sink())?;
    if skipped == rest {
        Ok(value)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Ok(Some(entry)) = Entry::read(&mut bytes) {
            entries.push(entry);
        }
        entries
    }

    fn with_value(name: &str, length: u64, value: &[u8]) -> Vec<u8> {
        [name.as_bytes(), b"\n", &length.to_le_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn values_with_lines_of_their_own_and_ids_that_are_no_numbers() {
        let mut bytes =
            b"\n\n__CURSOR=s=1;i=2\n__MONOTONIC_TIMESTAMP=12\n_PID=7\n_UID=x\n".to_vec();
        bytes.extend(with_value("MESSAGE", 8, b"one\ntwo\xff"));
        bytes.extend(b"_COMM=\n_EXE=/bin/a=b\nUNKNOWN=1\nPRIORITY=3\n\n");
        let [entry] = &all(&bytes)[..] else { panic!() };
        assert_eq!(entry.cursor, b"s=1;i=2");
        assert_eq!(entry.monotonic_us, Some(12));
        assert_eq!(entry.numbers, [(field::PID, 7), (field::PRIO, 3)]);
        let texts = [
            (field::MESSAGE, b"one\ntwo\xff".to_vec()),
            (field::EXE, b"/bin/a=b".to_vec()),
        ];
        assert_eq!(entry.texts, texts);
    }

    #[test]
    fn nothing_makes_it_keep_much_or_never_end() {
        let long = vec![b'x'; 3 * MAX_VALUE];
        let mut bytes = with_value("MESSAGE", long.len() as u64, &long);
        bytes.extend([b"_COMM=".to_vec(), long.clone(), b"\n\n".to_vec()].concat());
        let [entry] = &all(&bytes)[..] else { panic!() };
        let kept: Vec<_> = entry.texts.iter().map(|(_, text)| text.len()).collect();
        assert_eq!(kept, [MAX_VALUE, MAX_VALUE - b"_COMM=".len()]);
        // Cut anywhere, or with a length that cannot be.
        for end in 0..bytes.len().min(300) {
            assert_eq!(all(&bytes[..end]), []);
        }
        assert_eq!(all(&with_value("MESSAGE", u64::MAX, b"short")), []);
    }
}
