//! Command lines of processes and their patterns.

use std::io::{self, Read};

/// The size that upstream reads.
const MAX_LENGTH: usize = 511;

/// The command line of a process: its arguments, each ended by a zero byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommandLine(Vec<u8>);

impl CommandLine {
    /// Reads it from the open file.
    pub(crate) fn read(file: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(MAX_LENGTH);
        file.take(MAX_LENGTH as u64).read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the command line of an ended process, of which only the program's path is known.
    pub(crate) fn of_program(path: &str) -> Self {
        let mut bytes = path.as_bytes().to_vec();
        bytes.truncate(MAX_LENGTH);
        Self(bytes)
    }

    /// Returns the program as it was invoked.
    fn program(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Returns true if a config's pattern matches this process. A pattern that begins with a slash
    /// is matched with the whole path, others with the part after its last slash.
    pub(super) fn is_matched_by(&self, pattern: &[u8]) -> bool {
        let program = self.program();
        let subject = if pattern.starts_with(b"/") {
            program
        } else {
            program
                .rsplit(|&byte| byte == b'/')
                .next()
                .unwrap_or_default()
        };
        ferretto_profiling::glob::matches(pattern, subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(program: &str, pattern: &str) -> bool {
        let bytes = [program.as_bytes(), b"\0--flag\0"].concat();
        CommandLine(bytes).is_matched_by(pattern.as_bytes())
    }

    #[test]
    fn perf_027_patterns_mean_the_path_or_the_last_part_of_it() {
        let server = "/system/bin/surfaceflinger";
        for pattern in [
            "/system/bin/surfaceflinger",
            "/*/surfaceflinger",
            "surfaceflinger",
            "???faceflinger",
            "*",
        ] {
            assert!(matches(server, pattern), "{pattern}");
        }
        for pattern in [
            "/system",
            "bin/surfaceflinger",
            "?system/bin/surfaceflinger",
            "*/surfaceflinger",
        ] {
            assert!(!matches(server, pattern), "{pattern}");
        }
        assert!(matches("./top", "top") && matches("./top", "*"));
        assert!(!matches("./top", "./top"));
        // Names that end with a slash, and empty names.
        for program in ["", "/", "foo/"] {
            assert!(matches(program, "") && !matches(program, "?*"));
        }
    }

    #[test]
    fn perf_027_only_the_first_bytes_of_a_command_line_count() {
        let long = vec![b'a'; 600];
        assert_eq!(CommandLine::read(&long[..]).unwrap().0.len(), 511);
    }
}
