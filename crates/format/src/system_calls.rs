//! System calls by number: their names, arguments and errors.

use std::collections::HashMap;
use std::fmt;

use crate::kernel_names::{Architecture, lines};

static ARGUMENTS: &str = include_str!("../data/syscall_args.tsv");
static ERRORS: &str = include_str!("../data/errors.tsv");

/// The directory descriptor that stands for the current directory.
const AT_FDCWD: i32 = -100;
/// The system calls that return an address.
const RETURNING_ADDRESS: [&str; 4] = ["brk", "mmap", "mremap", "shmat"];
/// The largest error number, including those that are internal to the kernel.
const MAX_ERROR: u64 = 4095;

/// The system calls of an architecture.
#[derive(Debug)]
pub struct SystemCalls(HashMap<u32, SystemCall>);

/// A system call.
#[derive(Debug)]
pub struct SystemCall {
    /// Its name, such as `openat`.
    pub name: &'static str,
    /// Its arguments; `None` if they are unknown.
    pub arguments: Option<Vec<Argument>>,
}

/// An argument of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the kernel, such as `dfd`.
    pub name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Long,
    Uint,
    Ulong,
    Hex,
    Octal,
}

impl SystemCalls {
    /// Returns the system calls of an architecture.
    pub fn of(architecture: Architecture) -> Self {
        let arguments: HashMap<&str, &'static str> = lines(ARGUMENTS)
            .map(|line| line.split_once('\t').unwrap_or((line, "")))
            .collect();
        let call = |(name, number)| {
            let arguments = arguments.get(name).map(|list| {
                let arguments = list.split_ascii_whitespace();
                arguments.filter_map(Argument::parse).collect()
            });
            (number, SystemCall { name, arguments })
        };
        Self(architecture.system_calls().map(call).collect())
    }

    /// Returns the call with this number.
    pub fn get(&self, number: u64) -> Option<&SystemCall> {
        self.0.get(&u32::try_from(number).ok()?)
    }
}

impl SystemCall {
    /// Returns a result as people read it: a number or an address, or a negative number with the
    /// name of the error.
    pub fn result(&self, result: i64) -> String {
        match error_name(result) {
            Some(error) => format!("{result} {error}"),
            None if RETURNING_ADDRESS.contains(&self.name) => format!("{result:#x}"),
            None => result.to_string(),
        }
    }
}

impl Argument {
    fn parse(text: &'static str) -> Option<Self> {
        let (name, kind) = text.split_once(':')?;
        let kind = match kind {
            "i" => Kind::Int,
            "l" => Kind::Long,
            "u" => Kind::Uint,
            "z" => Kind::Ulong,
            "x" => Kind::Hex,
            "o" => Kind::Octal,
            _ => return None,
        };
        Some(Self { name, kind })
    }

    /// Writes a value in the notation of the argument.
    ///
    /// # Errors
    ///
    /// Fails if writing fails.
    pub fn write(self, out: &mut impl fmt::Write, value: u64) -> fmt::Result {
        match self.kind {
            Kind::Int if value as i32 == AT_FDCWD && self.name.ends_with("dfd") => {
                out.write_str("AT_FDCWD")
            }
            // The upper half of a register is undefined for 32-bit values.
            Kind::Int => write!(out, "{}", value as i32),
            Kind::Long => write!(out, "{}", value.cast_signed()),
            Kind::Uint => write!(out, "{}", value as u32),
            Kind::Ulong => write!(out, "{value}"),
            Kind::Hex => write!(out, "{value:#x}"),
            Kind::Octal => write!(out, "{:#05o}", value as u32),
        }
    }
}

/// Returns the name of the error that a system call returned.
pub fn error_name(result: i64) -> Option<&'static str> {
    let number = result.unsigned_abs();
    if result >= 0 || number > MAX_ERROR {
        return None;
    }
    lines(ERRORS).find_map(|line| {
        let (known, name) = line.split_once('\t')?;
        (known.parse() == Ok(number)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(call: &SystemCall, values: &[u64]) -> String {
        let mut text = call.name.to_owned();
        let arguments = call.arguments.as_deref().expect("known arguments");
        for (argument, value) in arguments.iter().zip(values) {
            text.push_str(&format!(" {}=", argument.name));
            argument.write(&mut text, *value).expect("it cannot fail");
        }
        text
    }

    #[test]
    fn calls_have_names_arguments_and_errors() {
        let of_x86 = SystemCalls::of(Architecture::X86_64);
        let openat = of_x86.get(257).expect("a call");
        let here = u64::from((-100_i32).cast_unsigned());
        assert_eq!(
            text(openat, &[here, 0x7f00, 0x8_0000, 0o644]),
            "openat dfd=AT_FDCWD filename=0x7f00 flags=0x80000 mode=0o644"
        );
        assert_eq!(openat.result(3), "3");
        assert_eq!(openat.result(-2), "-2 ENOENT");
        assert_eq!(openat.result(-512), "-512 ERESTARTSYS");
        let mmap = of_x86.get(9).expect("a call");
        assert_eq!(mmap.result(0x7f12_3456_7000), "0x7f1234567000");
        let values = [0, 4096, 3, 0x22, u64::MAX, 0];
        let expected = "mmap addr=0x0 len=4096 prot=0x3 flags=0x22 fd=-1 off=0";
        assert_eq!(text(mmap, &values), expected);
        for (number, name) in [(336, "uprobe"), (470, "listns"), (471, "rseq_slice_yield")] {
            assert_eq!(of_x86.get(number).map(|call| call.name), Some(name));
        }
        assert!(of_x86.get(9999).is_none() && of_x86.get(u64::MAX).is_none());
    }

    #[test]
    fn every_argument_is_understood() {
        for line in lines(ARGUMENTS) {
            let (_, list) = line.split_once('\t').unwrap_or((line, ""));
            let mut arguments = list.split_ascii_whitespace();
            assert!(
                arguments.all(|text| Argument::parse(text).is_some()),
                "{line}"
            );
        }
        let numbers = lines(ERRORS).filter_map(|line| line.split_once('\t')?.0.parse::<i64>().ok());
        assert!(
            numbers
                .map(|number| error_name(-number))
                .all(|name| name.is_some())
        );
    }
}
