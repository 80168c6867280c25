//! The events of one tracefs instance and their translation.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compact::CompactFormat;
use super::decoder::{EventDecoder, StringTable};
use super::format::{EventFormat, parse_commit_size};
use super::table;
use super::tracefs::Tracefs;

/// The first field number of events without a dedicated message.
pub(super) const FIRST_GENERIC: u32 = 65536;
/// The end of these field numbers.
const LAST_GENERIC: u32 = 131_072;

/// The format of the kernel's `ftrace/print`, used if it cannot be read. It has never changed.
const PRINT_FORMAT: &str = "name: print\nID: 5\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";

/// The result of looking up an event.
#[derive(Debug, Clone)]
pub(super) enum Lookup {
    /// The event can be translated.
    Found(Arc<EventDecoder>),
    /// The event exists but has no dedicated message, and the config excludes such events.
    Generic,
    /// The kernel does not have the event.
    Missing,
}

/// Reads event formats from tracefs and caches their translations.
#[derive(Debug)]
pub(super) struct Translator {
    fs: Tracefs,
    decoders: BTreeMap<(String, String), Option<Arc<EventDecoder>>>,
    next_generic: u32,
    commit_size: usize,
    common_pid: Option<usize>,
    compact: Option<CompactFormat>,
    strings: Arc<StringTable>,
}

impl Translator {
    /// Reads the common fields of all events of the instance.
    pub(super) fn new(fs: &Tracefs) -> Self {
        let header = fs.read("events/header_page").unwrap_or_default();
        let switch = read_format(fs, "sched", "sched_switch");
        let waking = read_format(fs, "sched", "sched_waking");
        let compact = switch.as_ref().zip(waking.as_ref());
        Self {
            fs: fs.clone(),
            decoders: BTreeMap::new(),
            next_generic: FIRST_GENERIC,
            commit_size: parse_commit_size(&header).unwrap_or(size_of::<usize>()),
            common_pid: switch.as_ref().and_then(common_pid),
            compact: compact.and_then(|(switch, waking)| CompactFormat::new(switch, waking)),
            strings: Arc::new(parse_printk_formats(
                &fs.read("printk_formats").unwrap_or_default(),
            )),
        }
    }

    /// Returns the translation of `group/name`.
    pub(super) fn lookup(&mut self, group: &str, name: &str, refuse_generic: bool) -> Lookup {
        let key = (group.to_owned(), name.to_owned());
        if let Some(known) = self.decoders.get(&key) {
            return match known {
                Some(decoder) if refuse_generic && decoder.descriptor.is_some() => Lookup::Generic,
                Some(decoder) => Lookup::Found(Arc::clone(decoder)),
                None => Lookup::Missing,
            };
        }
        let format = read_format(&self.fs, group, name).or_else(|| {
            (group == "ftrace" && name == "print").then(|| EventFormat::parse(PRINT_FORMAT))?
        });
        let Some(format) = format else {
            // Not cached: modules and probes can add events later.
            return Lookup::Missing;
        };
        self.common_pid = self.common_pid.or_else(|| common_pid(&format));
        let decoder = match table::find(group, name) {
            Some(known) => EventDecoder::known(&known, &format),
            None if refuse_generic || self.next_generic > LAST_GENERIC => return Lookup::Generic,
            None => {
                self.next_generic += 1;
                EventDecoder::generic(group, &format, self.next_generic - 1)
            }
        };
        let decoder = Arc::new(decoder);
        self.decoders.insert(key, Some(Arc::clone(&decoder)));
        Lookup::Found(decoder)
    }

    /// Returns the width of the commit word of a page.
    pub(super) fn commit_size(&self) -> usize {
        self.commit_size
    }

    /// Returns the offset of the process id in all records.
    pub(super) fn common_pid(&self) -> Option<usize> {
        self.common_pid
    }

    /// Returns the compact scheduling layout, if this kernel's records match it.
    pub(super) fn compact(&self) -> Option<CompactFormat> {
        self.compact
    }

    /// Returns the texts of kernel string addresses.
    pub(super) fn strings(&self) -> &Arc<StringTable> {
        &self.strings
    }
}

fn read_format(fs: &Tracefs, group: &str, name: &str) -> Option<EventFormat> {
    EventFormat::parse(&fs.format(group, name).ok()?)
}

fn common_pid(format: &EventFormat) -> Option<usize> {
    format
        .common_field("common_pid")
        .filter(|field| field.size == 4)
        .map(|f| f.offset.into())
}

/// Parses `printk_formats`: lines of an address and a quoted text.
pub(super) fn parse_printk_formats(text: &str) -> StringTable {
    text.lines()
        .filter_map(|line| {
            let (address, rest) = line.strip_prefix("0x")?.split_once(" : \"")?;
            let (text, _) = rest.rsplit_once('"')?;
            Some((u64::from_str_radix(address, 16).ok()?, text.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_addresses_keep_inner_quotes() {
        let table = parse_printk_formats("0xff10 : \"a \"b\" c\"\nnonsense\n0xzz : \"x\"\n");
        assert_eq!(table.len(), 1);
        assert_eq!(&*table[&0xff10], "a \"b\" c");
    }

    #[test]
    fn the_assumed_print_format_parses() {
        let format = EventFormat::parse(PRINT_FORMAT).expect("a format");
        assert_eq!(
            (format.id, format.field("buf").map(|field| field.offset)),
            (5, Some(16))
        );
    }
}
