//! Groups lines into samples.

use super::frame::source;
use super::{Frame, Sample, split_address};

/// The largest number of lines at the start of a file that are searched for a sample.
const LINES_CHECKED: usize = 32;
/// The largest number of bytes of a sample's lines. Further lines are left out.
const MAX_SAMPLE: usize = 1 << 20;

/// Groups the lines of a file into samples.
#[derive(Debug, Default)]
pub struct Grouper {
    /// The lines of the current sample. Its first line may be empty.
    sample: String,
    state: State,
    /// The number of the last line, and of the sample's first one.
    number: u64,
    first: u64,
    /// Set if the last line was empty or a comment, and at the start of the file.
    is_between: bool,
    has_started: bool,
    /// Set once a first line was recognised by itself. All others of the file are alike.
    has_headers: bool,
    samples: u64,
    /// The lines that belong to no sample.
    odd: Option<Odd>,
    cut: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// There is no sample.
    #[default]
    None,
    /// A first line, which is one by itself.
    Header,
    /// A line that is a first line if frames follow.
    MayBe,
    /// A sample with frames.
    Frames,
}

/// The lines that belong to no sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// The number of the first one.
    pub line: u64,
    /// The start of its text.
    pub text: String,
    /// The number of such lines.
    pub count: u64,
}

impl Grouper {
    /// Adds a line. Calls `each` with the lines of the sample that it ends: the first line, which
    /// may be empty, and its frames.
    ///
    /// # Errors
    ///
    /// Returns the error of `each`.
    pub fn line<E>(
        &mut self,
        line: &str,
        each: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_between = self.is_between || !self.has_started;
        self.has_started = true;
        self.number += 1;
        self.is_between = line.trim().is_empty() || line.starts_with('#');
        if line.trim().is_empty() {
            return match self.state {
                // The frames may follow on an empty line.
                State::None | State::Header => Ok(()),
                State::MayBe | State::Frames => self.end(each),
            };
        }
        if line.starts_with('#') {
            return Ok(());
        }
        let is_frame = line.starts_with([' ', '\t']) && Frame::parse(line).is_some();
        if line.starts_with('\t') {
            return match (self.state, is_frame) {
                (State::None, true) if is_between && !self.has_headers => {
                    self.begin("", State::Frames);
                    self.add(line);
                    Ok(())
                }
                (State::None, _) | (_, false) => {
                    self.is_odd(line);
                    Ok(())
                }
                _ => {
                    self.state = State::Frames;
                    self.add(line);
                    Ok(())
                }
            };
        }
        if Sample::parse(line).is_some() {
            self.end(each)?;
            self.has_headers = true;
            self.begin(line, State::Header);
            return Ok(());
        }
        if self.state != State::None && source(line).is_some() {
            self.add(line);
            return Ok(());
        }
        let is_inline = !self.has_headers && split_address(line).is_some();
        if self.state != State::None && is_frame && !(is_inline && self.state != State::Frames) {
            self.state = State::Frames;
            self.add(line);
            return Ok(());
        }
        if is_inline {
            self.end(each)?;
            self.begin(line, State::Header);
            return Ok(());
        }
        if is_between && !self.has_headers {
            self.end(each)?;
            self.begin(line, State::MayBe);
            return Ok(());
        }
        self.is_odd(line);
        Ok(())
    }

    /// Ends the file. Calls `each` with the last sample.
    ///
    /// # Errors
    ///
    /// Returns the error of `each`.
    pub fn finish<E>(&mut self, each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        self.end(each)
    }

    /// Returns the lines that belong to no sample.
    pub fn odd(&self) -> Option<&Odd> {
        self.odd.as_ref()
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the number of lines that are left out since their sample is too long.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn begin(&mut self, line: &str, state: State) {
        self.state = state;
        self.first = self.number;
        self.add(line);
    }

    fn add(&mut self, line: &str) {
        if self.sample.len() + line.len() < MAX_SAMPLE {
            self.sample.push_str(line);
            self.sample.push('\n');
        } else {
            self.cut += 1;
        }
    }

    fn end<E>(&mut self, mut each: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        let state = std::mem::take(&mut self.state);
        match state {
            State::None => {}
            State::MayBe => {
                let line = std::mem::take(&mut self.sample);
                self.note(self.first, line.trim_end());
            }
            State::Header | State::Frames => {
                self.samples += 1;
                each(&self.sample)?;
            }
        }
        self.sample.clear();
        Ok(())
    }

    fn is_odd(&mut self, line: &str) {
        self.note(self.number, line);
    }

    fn note(&mut self, number: u64, line: &str) {
        let odd = self.odd.get_or_insert_with(|| Odd {
            line: number,
            text: line.chars().take(80).collect(),
            count: 0,
        });
        odd.count += 1;
    }
}

/// Returns true if one of the first lines of a file is a sample. A line that lacks a column needs a
/// frame after it.
pub(crate) fn is_perf_text(head: &[u8]) -> bool {
    let lines = head.split_inclusive(|byte| *byte == b'\n');
    let lines = lines.map_while(|line| line.strip_suffix(b"\n"));
    let lines = lines.take(LINES_CHECKED).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    let is_frame = |line: &str| line.starts_with([' ', '\t']) && Frame::parse(line).is_some();
    for (at, line) in lines.iter().enumerate() {
        let next = lines.get(at + 1).map_or("", |line| line);
        if line.starts_with('#') {
            continue;
        }
        match Sample::parse(line) {
            Some(sample) if sample.ts.is_some() && sample.tid.is_some() => return true,
            Some(_) if is_frame(next) => return true,
            Some(sample) if sample.ts.is_some() && Frame::parse_rest(sample.rest).is_some() => {
                return true;
            }
            _ => {}
        }
        // A callstack below a line of other columns, or below none.
        if is_address_in_stack(line) {
            return true;
        }
        // Samples without callstacks: addresses in a column of their own.
        let address = |line: &str| split_address(line).map(|(before, _)| before.len());
        let mut later = lines[at + 1..].iter().filter_map(|line| address(line));
        let is_alike = address(line).is_some() && address(line) == later.next();
        if is_alike && Frame::parse_rest(&line[address(line).unwrap_or(0)..]).is_some() {
            return true;
        }
    }
    false
}

/// Returns true for a frame with an address as `perf` aligns it.
fn is_address_in_stack(line: &str) -> bool {
    let Some(frame) = line.strip_prefix('\t') else {
        return false;
    };
    let address = frame.trim_start();
    let end = address.find(' ').unwrap_or(address.len());
    let is_hex = address[..end].bytes().all(|byte| byte.is_ascii_hexdigit());
    let width = frame.len() - address.len() + end;
    is_hex && end > 1 && (16..=17).contains(&width) && Frame::parse(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> (Vec<String>, Option<(u64, u64)>) {
        let (mut grouper, mut all) = (Grouper::default(), Vec::new());
        for line in text.lines() {
            let each = |sample: &str| {
                all.push(sample.replace('\n', "|"));
                Ok::<_, ()>(())
            };
            assert_eq!(grouper.line(line, each), Ok(()));
        }
        let each = |sample: &str| {
            all.push(sample.replace('\n', "|"));
            Ok::<_, ()>(())
        };
        assert_eq!(grouper.finish(each), Ok(()));
        let odd = grouper.odd().map(|odd| (odd.line, odd.count));
        (all, odd)
    }

    #[test]
    fn samples_have_any_columns_and_odd_lines_are_counted() {
        let stack = "\t           14f02 f (/a)\n\t           14f03 g (/a)\n\n";
        let frames = "\t           14f02 f (/a)|\t           14f03 g (/a)|";
        for header in [
            "x 7 1.5: cycles: ",
            "x 7 cycles: ",
            "cycles: ",
            "x     99 ",
            "    99 cycles: ",
            "x 7 ",
        ] {
            let text = format!("{header}\n{stack}{header}\n{stack}");
            let sample = format!("{header}|{frames}");
            let all = vec![sample.clone(), sample];
            assert_eq!(samples(&text), (all, None), "{header}");
        }
        let text = format!("\n{stack}\n{stack}");
        let sample = format!("|{frames}");
        assert_eq!(samples(&text), (vec![sample.clone(), sample], None));
        let text =
            format!("words\n\nx 7/7 1.5: c:\n{stack}more words\nx 7/7 1.6: c:\n{stack}\tbroken");
        let (all, odd) = samples(&text);
        assert_eq!((all.len(), odd), (2, Some((1, 3))));
    }
}
