//! The frames of a sample.

/// A frame of a sample's callstack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name of the function.
    pub function: &'a str,
    /// The file that contains the function; empty if it is not printed.
    pub mapping: &'a str,
    /// The source file and the line, if they are printed.
    pub source: Option<(&'a str, u32)>,
}

impl<'a> Frame<'a> {
    /// The name of functions without one.
    const UNKNOWN: &'static str = "[unknown]";

    /// Parses a line after the first: `ffffffff8104 copy_page+0x5 ([kernel.kallsyms])`. The address
    /// and the file may be missing.
    pub fn parse(line: &'a str) -> Option<Self> {
        // A single digit is an address if it is aligned like one.
        const ALIGNED: usize = 10;
        let digits = if line.len() - line.trim_start().len() > ALIGNED {
            1
        } else {
            2
        };
        let line = line.trim();
        let (first, behind) = super::word(line);
        let is_hex = first.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_address = first.len() >= digits && is_hex;
        // A short word before the file is the name of a function.
        let is_name = behind.starts_with('(')
            && first.len() < 5
            && first.starts_with(|first: char| first.is_ascii_alphabetic());
        let rest = if is_address && !is_name { behind } else { line };
        let (function, mapping) = match file(rest) {
            Some((function, mapping)) => (function, mapping),
            None if is_address => (rest.strip_suffix("(inlined)").unwrap_or(rest), ""),
            None => return None,
        };
        let function = without_offset(function.trim());
        Some(Self {
            function: if function.is_empty() {
                Self::UNKNOWN
            } else {
                function
            },
            mapping,
            source: None,
        })
    }

    /// Parses the lines after the first of a sample. A line with a source follows on its frame.
    pub fn parse_all(lines: &'a str) -> Vec<Self> {
        let mut frames: Vec<Self> = Vec::new();
        for line in lines.lines() {
            match (source(line), frames.last_mut()) {
                (Some((file, line)), Some(frame)) => {
                    frame.source = line.parse().ok().map(|line| (file, line));
                }
                (Some(_), None) => {}
                (None, _) => frames.extend(Self::parse(line)),
            }
        }
        frames
    }

    /// Returns the source file and line that follow on the only frame of a sample.
    pub fn source(lines: &'a str) -> Option<(&'a str, u32)> {
        let (file, line) = source(lines.lines().next()?)?;
        Some((file, line.parse().ok()?))
    }

    /// Parses the frame of a sample without a callstack, which is on the first line. Columns such
    /// as the address of data may be before it.
    pub fn parse_rest(rest: &'a str) -> Option<Self> {
        let rest = rest.trim();
        let is_hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (first, behind) = super::word(rest);
        if !is_hex(first) || first.is_empty() {
            return None;
        }
        let (second, _) = super::word(behind);
        match behind.trim() {
            // The address of the instruction alone.
            "" => (first.len() > 4).then(|| Self::parse(rest)).flatten(),
            behind if is_hex(second) && rest.contains("   ") => Self::parse(behind),
            _ => Self::parse(rest),
        }
    }
}

/// Parses a line with the source of the frame before: `  file.c:17`.
pub(super) fn source(line: &str) -> Option<(&str, &str)> {
    let source = line.strip_prefix("  ")?;
    if source.starts_with([' ', '\t']) {
        return None;
    }
    // Without debug information: `  [kernel.kallsyms][ffffffff81000000]`.
    let bracket = source.trim_end().strip_suffix(']');
    if let Some((file, address)) = bracket.and_then(|source| source.rsplit_once('[')) {
        let is_address = address.bytes().all(|byte| byte.is_ascii_hexdigit());
        return (is_address && !address.is_empty()).then_some((file, ""));
    }
    let (file, number) = source.trim_end().rsplit_once(':')?;
    let is_number = number == "?" || number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !number.is_empty() && !file.is_empty()).then_some((file, number))
}

/// Splits the file in parentheses off the end of a frame. Its name may contain parentheses.
fn file(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    if text.ends_with("(inlined)") || !text.ends_with(')') {
        return None;
    }
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            // Parameters follow on the name without a space.
            let is_file = at == 0 || text[..at].ends_with([' ', '\t']);
            return is_file.then(|| (&text[..at], &text[at + 1..text.len() - 1]));
        }
    }
    None
}

/// Removes the offset in a function, such as `+0x5`.
fn without_offset(function: &str) -> &str {
    match function.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_function_and_a_file() {
        let cases = [
            (
                "\t 7f00 operator+(int)+0x5 (/usr/lib/a (b).so)",
                "operator+(int)",
                "/usr/lib/a (b).so",
            ),
            ("\t7f00 f (/tmp/a (deleted))", "f", "/tmp/a (deleted)"),
            ("\t7f00 operator+(int) (/a)", "operator+(int)", "/a"),
            ("\t7f00 [unknown] ([vdso])", "[unknown]", "[vdso]"),
            ("\t7f00 f (inlined)", "f", ""),
            ("\t7f00 (/a)", "[unknown]", "/a"),
            ("\t7f00 f", "f", ""),
            ("\t7f00", "[unknown]", ""),
            ("\tadd+0x5 (/a)", "add", "/a"),
            ("\tadd (/a)", "add", "/a"),
        ];
        for (line, function, mapping) in cases {
            assert_eq!(
                Frame::parse(line),
                Some(Frame {
                    function,
                    mapping,
                    source: None,
                }),
                "{line}"
            );
        }
        assert_eq!(Frame::parse("words"), None);
        assert_eq!(Frame::parse_rest("prev_comm=x prev_pid=7"), None);
        assert!(Frame::parse_rest("7f00 f (/a)").is_some());
    }
}
