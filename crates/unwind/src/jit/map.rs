//! `perf-PID.map`: lines of start and size in hexadecimal, and a name.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::found::Found;

/// Reads complete lines from `offset` on, at most `size` bytes. Returns the number of bytes read.
pub(super) fn read(file: &File, offset: u64, size: u64, found: &mut Found<'_>) -> Option<u64> {
    let mut text = vec![0; usize::try_from(size).ok()?];
    let mut done = 0;
    while done < text.len() {
        match file.read_at(&mut text[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(_) => return None,
        }
    }
    // The last line may be incomplete.
    let end = text[..done].iter().rposition(|&byte| byte == b'\n')? + 1;
    for line in text[..end].split(|&byte| byte == b'\n') {
        if found.is_full() {
            break;
        }
        if let Some((start, size, name)) = parse(line) {
            found.add(start, size, name);
        }
    }
    Some(end as u64)
}

fn parse(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut fields = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let text = std::str::from_utf8(fields.next()?).ok()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim_ascii();
    (size > 0 && !name.is_empty()).then_some((start, size, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_start_size_and_a_name_with_spaces() {
        let found = parse(b"7f00 1f LazyCompile:~f a.js:1\r").unwrap();
        assert_eq!(found, (0x7f00, 0x1f, &b"LazyCompile:~f a.js:1"[..]));
        assert!(parse(b"0x10 0x8 g").is_some());
        for bad in [&b""[..], b"7f00", b"7f00 0 x", b"zz 1 x", b"1 2 "] {
            assert_eq!(parse(bad), None);
        }
    }
}
