//! The lines of a file of kernel events as text, or of an HTML page that contains them.

use crate::{TRACE_LINE, find};

/// The number of bytes in which the line `TRACE:` is searched.
const HEAD_BYTES: usize = 128;
/// The maximum length of a line. Longer lines are cut.
const MAX_LINE: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Before the beginning of the file is complete.
    Start,
    /// In an HTML page, outside of the data.
    Page,
    /// In data of an unknown kind.
    Data,
    Events,
    /// `ps`: user, pid, ppid and more.
    Processes,
    /// `ps -T`: user, pid, tid and command.
    Threads,
    End,
}

/// The content of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// A kernel event.
    Event(&'a str),
    /// A process.
    Process {
        /// Its id.
        pid: u32,
        /// The process that started it.
        parent: u32,
        /// Its name.
        name: &'a str,
    },
    /// A thread.
    Thread {
        /// Its process.
        pid: u32,
        /// Its id.
        tid: u32,
        /// Its name.
        name: &'a str,
    },
    /// A malformed line about a process or thread.
    NoProcess,
}

/// Finds lines with content.
#[derive(Debug)]
pub struct LineReader {
    section: Section,
    buffer: Vec<u8>,
    /// Set in pages of old versions, which contain the events as text of a script.
    is_script: bool,
    /// Set when a page was found to contain data.
    has_data: bool,
}

impl Default for LineReader {
    fn default() -> Self {
        Self {
            section: Section::Start,
            buffer: Vec::new(),
            is_script: false,
            has_data: false,
        }
    }
}

impl LineReader {
    /// Calls `each` with the content of the lines that end in these bytes.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Content<'_>)) {
        if self.section == Section::End {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        if self.section == Section::Start {
            if self.buffer.len() < HEAD_BYTES && !bytes.is_empty() {
                return;
            }
            self.start();
        }
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line(&String::from_utf8_lossy(&rest[..end]), &mut each);
            rest = &rest[end + 1..];
        }
        if self.section != Section::End && rest.len() <= MAX_LINE {
            self.buffer = rest.to_vec();
        }
    }

    /// Handles the end of the file. The last line may have no line end.
    pub fn finish(&mut self, mut each: impl FnMut(Content<'_>)) {
        self.push(b"", &mut each);
        if !self.buffer.is_empty() {
            self.push(b"\n", each);
        }
    }

    /// Returns true if the file is an HTML page without data.
    pub fn is_empty_page(&self) -> bool {
        matches!(self.section, Section::Page) && !self.has_data
    }

    fn start(&mut self) {
        let head = &self.buffer[..self.buffer.len().min(HEAD_BYTES)];
        if let Some(index) = find(head, TRACE_LINE) {
            self.buffer.drain(..index + TRACE_LINE.len());
        }
        // `trace-cmd report` starts with the number of CPUs, which is not an event.
        // Events of idle CPUs may begin with `<idle>`.
        let is_page = self.buffer.starts_with(b"<!")
            || (self.buffer.get(..5)).is_some_and(|tag| tag.eq_ignore_ascii_case(b"<html"));
        self.section = if is_page {
            Section::Page
        } else {
            Section::Events
        };
    }

    fn line<'a>(&mut self, line: &'a str, each: &mut impl FnMut(Content<'a>)) {
        let ends = line.contains("</script>");
        match self.section {
            Section::Start | Section::End => {}
            Section::Page => {
                if line.contains(r#"<script class="trace-data" type="application/text">"#) {
                    self.section = Section::Data;
                    self.has_data = true;
                } else if line.contains("linuxPerfData = \"") {
                    self.section = Section::Events;
                    self.is_script = true;
                    self.has_data = true;
                }
            }
            Section::Data if line.starts_with('#') && line.contains("TASK-PID") => {
                self.section = Section::Events;
            }
            Section::Data if line.starts_with("PROCESS DUMP") => self.section = Section::Processes,
            Section::Events if ends => self.section = Section::End,
            _ if ends => self.section = Section::Page,
            Section::Data => {}
            Section::Events => {
                let line = if self.is_script {
                    line.strip_suffix("\\n\\").unwrap_or(line)
                } else {
                    line
                };
                let is_end = self.is_script && line.trim_end().ends_with("\";");
                if is_end {
                    self.section = Section::Page;
                    self.is_script = false;
                    return;
                }
                let is_header = line.starts_with('#') || is_cpus(line);
                if !line.trim().is_empty() && !is_header {
                    each(Content::Event(line));
                }
            }
            Section::Processes | Section::Threads => self.process(line, each),
        }
    }

    fn process<'a>(&mut self, line: &'a str, each: &mut impl FnMut(Content<'a>)) {
        let words: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
        let behind = |index: usize| {
            let word = words.get(index)?;
            line.get(word.as_ptr().addr() - line.as_ptr().addr()..)
        };
        match (self.section, &words[..]) {
            (_, ["USER", "PID", "TID", "CMD"]) => self.section = Section::Threads,
            (_, ["USER", "PID", "PPID", "VSZ", ..]) => self.section = Section::Processes,
            (Section::Processes, words) if words.len() >= 10 => {
                each(match (number(1), number(2)) {
                    (Some(pid), Some(parent)) => Content::Process {
                        pid,
                        parent,
                        name: words[8],
                    },
                    _ => Content::NoProcess,
                });
            }
            (Section::Threads, [_, _, _, _, ..]) => {
                each(match (number(1), number(2), behind(3)) {
                    (Some(pid), Some(tid), Some(name)) => Content::Thread { pid, tid, name },
                    _ => Content::NoProcess,
                });
            }
            _ => {}
        }
    }
}

fn is_cpus(line: &str) -> bool {
    let count = line.strip_prefix("cpus=");
    count.is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut reader = LineReader::default();
        let mut seen = Vec::new();
        for piece in pieces {
            reader.push(piece, |content| seen.push(format!("{content:?}")));
        }
        reader.finish(|content| seen.push(format!("{content:?}")));
        seen
    }

    #[test]
    fn events_are_found_in_text_and_html() {
        let text = "cpus=4\n# tracer: nop\n#\n a-1 [0] 1.0: x: y\n\nlast";
        let expected = ["Event(\" a-1 [0] 1.0: x: y\")", "Event(\"last\")"];
        assert_eq!(read(&[text.as_bytes()]), expected);
        assert_eq!(
            read(&text.as_bytes().chunks(1).collect::<Vec<_>>()),
            expected
        );

        let page = concat!(
            "<!DOCTYPE HTML>\n<html>\n  <script>\n  var linuxPerfData = \"\\\n",
            "# tracer: nop\\n\\\n a-1 [0] 1.0: x: y\\n\\\n\\n\";\n  </script>\n",
        );
        assert_eq!(read(&[page.as_bytes()]), [r#"Event(" a-1 [0] 1.0: x: y")"#]);

        let page = concat!(
            "<!DOCTYPE html>\n<html>\nnothing\n",
            "<script class=\"trace-data\" type=\"application/text\">\n",
            "PROCESS DUMP\nUSER PID PPID VSZ RSS WCHAN PC S NAME CMD\n",
            "root 5 1 0 0 0 0 S init /sbin/init now\nUSER PID TID CMD\nroot 5 6 some name\n",
            "root x 6 some name\n</script>\nmore\n",
            "<script class=\"trace-data\" type=\"application/text\">\n",
            "#  TASK-PID  CPU#\nevent\n</script>\nevent\n",
        );
        let expected = [
            "Process { pid: 5, parent: 1, name: \"init\" }",
            "Thread { pid: 5, tid: 6, name: \"some name\" }",
            "NoProcess",
            "Event(\"event\")",
        ];
        assert_eq!(read(&[page.as_bytes()]), expected);
    }
}
