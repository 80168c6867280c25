//! Names of kernel addresses, from `/proc/kallsyms`.

use ferretto_proto::fields::{interned_data, interned_string, trace_packet};

use super::bytes::Out;
use super::metadata::Metadata;

/// An address further than this from the symbol below it has no name.
const MAX_DISTANCE: u64 = 1 << 20;
/// `TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`.
const STATE_CLEARED: u64 = 1;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Address, and where the name starts in `names`; sorted by address.
    entries: Vec<(u64, u32)>,
    names: String,
}

impl KernelSymbols {
    /// Parses the text of `/proc/kallsyms`: functions with a non-zero address.
    pub fn parse(text: &[u8]) -> Self {
        let mut found = Vec::new();
        let mut names = String::new();
        for line in text.split(|&byte| byte == b'\n') {
            let Some((address, name)) = parse_line(line) else {
                continue;
            };
            found.push((address, names.len() as u32));
            names.extend(name.iter().map(|&byte| char::from(byte & 0x7f)));
            names.push('\n');
        }
        found.sort_unstable();
        found.shrink_to_fit();
        names.shrink_to_fit();
        Self {
            entries: found,
            names,
        }
    }

    /// Reads the running kernel's symbols; empty if it does not show addresses to this user.
    pub fn read() -> Self {
        Self::parse(&std::fs::read("/proc/kallsyms").unwrap_or_default())
    }

    /// How many functions are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the kernel showed no addresses.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Memory held, in bytes.
    pub fn memory(&self) -> usize {
        self.names.capacity() + self.entries.capacity() * size_of::<(u64, u32)>()
    }

    /// The function that contains `address`.
    pub fn lookup(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|&(start, _)| start <= address);
        let (start, name) = *self.entries.get(after.checked_sub(1)?)?;
        if address - start > MAX_DISTANCE {
            return None;
        }
        self.names.get(name as usize..)?.split('\n').next()
    }

    /// Writes the names of the addresses that were numbered since the last call in this pass.
    pub(crate) fn write_new(&self, metadata: &mut Metadata, packet: &mut Out<'_>) {
        let first = metadata.symbols_written;
        let named: Vec<(usize, &str)> = metadata.addresses()[first..]
            .iter()
            .enumerate()
            .filter_map(|(index, &address)| Some((first + index + 1, self.lookup(address)?)))
            .collect();
        if named.is_empty() {
            return;
        }
        if first == 0 {
            packet.varint(trace_packet::SEQUENCE_FLAGS, STATE_CLEARED);
        }
        packet.nested(trace_packet::INTERNED_DATA, |data| {
            for (index, name) in named {
                data.nested(interned_data::KERNEL_SYMBOLS, |symbol| {
                    symbol.varint(interned_string::IID, index as u64);
                    symbol.string(interned_string::STR, name);
                });
            }
        });
        metadata.symbols_written = metadata.addresses().len();
    }
}

/// Address and name of a line that describes a function.
fn parse_line(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let address = u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?;
    let function = matches!(words.next()?, b"t" | b"T");
    let name = words.next()?;
    let name = name
        .strip_suffix(b".cfi")
        .or_else(|| name.strip_suffix(b".cfi_jt"))
        .unwrap_or(name);
    (address != 0 && function && !name.is_empty() && !name.starts_with(b"$"))
        .then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_any_address_inside() {
        let symbols = KernelSymbols::parse(
            b"0000000000000000 T zero\nffffffff81000000 T _text\nffffffff81001000 t foo.cfi\t[mod]\n\
              ffffffff81002000 D data\nffffffff81000800 T $x\n",
        );
        assert_eq!(symbols.len(), 2);
        assert_eq!(symbols.lookup(0xffffffff81000fff), Some("_text"));
        assert_eq!(symbols.lookup(0xffffffff81001000), Some("foo"));
        assert_eq!(symbols.lookup(0xffffffff80ffffff), None);
        assert_eq!(symbols.lookup(0xffffffff91001000), None);
    }
}
