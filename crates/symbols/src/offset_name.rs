//! Offsets in files, which stand for unknown names.

/// Formats an offset in the file at `path`, for example `libfoo.so+0x1234`.
#[must_use]
pub fn offset_name(path: &str, rel_pc: u64) -> String {
    format!("{}+{rel_pc:#x}", file_name(path))
}

/// Returns true if `name` is a [`offset_name`] in the file at `path` rather than a function name.
#[must_use]
pub fn is_offset_name(name: &str, path: &str) -> bool {
    let digits = name
        .strip_prefix(file_name(path))
        .and_then(|rest| rest.strip_prefix("+0x"));
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_names_differ_from_function_names() {
        let path = "/usr/lib/libfoo.so";
        assert_eq!(offset_name(path, 0x1234), "libfoo.so+0x1234");
        assert!(is_offset_name("libfoo.so+0x1234", path));
        for name in [
            "main",
            "libfoo.so",
            "libfoo.so+0x",
            "libbar.so+0x1",
            "libfoo.so+0xfoo",
        ] {
            assert!(!is_offset_name(name, path), "{name}");
        }
    }
}
