//! Reads the clocks of another machine over a pipe: `ferretto machine-clock` runs there and replies
//! to each line with the times of its clocks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::ExitCode;

use anyhow::Result;
use ferretto_client::machine::read_clocks;
use ferretto_edit::Readings;
use ferretto_ipc::machine::Machine;
use ferretto_text::amount::hex;

/// The largest size of a line.
const MAX_LINE: u64 = 4096;
/// The largest number of clocks of a machine.
const MAX_CLOCKS: usize = 32;

/// Prints the identity of this machine, and its clocks for each line read.
pub(crate) fn run() -> Result<ExitCode> {
    let machine = Machine::this();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "machine {} {}",
        hex(&machine.id_hint),
        hex(&machine.name)
    )?;
    out.flush()?;
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let clocks = read_clocks();
        let clocks: Vec<String> = clocks.iter().map(|(id, at)| format!("{id}:{at}")).collect();
        writeln!(out, "{}", clocks.join(" "))?;
        out.flush()?;
    }
}

/// The connection to a machine that runs the command.
#[derive(Debug)]
pub(crate) struct Asked<W, R> {
    to: W,
    from: BufReader<R>,
}

impl<W: Write, R: Read> Asked<W, R> {
    /// Reads the identity of the machine; `None` if the reply is malformed.
    pub(crate) fn new(to: W, from: R) -> Option<(Self, Machine)> {
        let mut asked = Self {
            to,
            from: BufReader::new(from),
        };
        let line = asked.line()?;
        let mut words = line.strip_prefix("machine ")?.split(' ');
        let id_hint = bytes(words.next()?)?;
        let name = bytes(words.next()?)?;
        Some((asked, Machine { id_hint, name }))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let from = self.from.by_ref();
        from.take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
        let line = line.strip_suffix(b"\n")?;
        String::from_utf8(line.to_vec()).ok()
    }

    /// Reads the clocks of the machine, and then the local ones.
    pub(crate) fn compare(&mut self) -> Option<(Readings, Readings)> {
        self.to
            .write_all(b"\n")
            .and_then(|()| self.to.flush())
            .ok()?;
        let line = self.line()?;
        let here = read_clocks();
        let reading = |word: &str| {
            let (id, at) = word.split_once(':')?;
            Some((id.parse().ok()?, at.parse().ok()?))
        };
        let there: Option<Readings> = line.split(' ').take(MAX_CLOCKS).map(reading).collect();
        Some((there?, here))
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_any_kind_are_understood_or_not() {
        let reply = b"machine 6964 626f78\n6:17 1:18\n6:x\n";
        let (mut asked, machine) = Asked::new(io::sink(), &reply[..]).unwrap();
        assert_eq!(
            (&machine.id_hint[..], &machine.name[..]),
            (&b"id"[..], &b"box"[..])
        );
        assert_eq!(asked.compare().unwrap().0, [(6, 17), (1, 18)]);
        assert!(asked.compare().is_none());
        assert!(asked.compare().is_none());
        for wrong in [
            "",
            "machine\n",
            "machine zz 00\n",
            "Welcome!\n",
            "machine 00 00",
        ] {
            assert!(
                Asked::new(io::sink(), wrong.as_bytes()).is_none(),
                "{wrong:?}"
            );
        }
    }
}
