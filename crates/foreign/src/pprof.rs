//! Uncompressed profiles of pprof (`profile.proto`).

use ferretto_format::pprof::{
    function, line, location, mapping, profile, sample, value_type as type_field,
};
use ferretto_wire::{Field, Fields, Value};

/// Returns true if a file starts with fields of a profile. The last field may be incomplete.
pub(crate) fn is_pprof(head: &[u8]) -> bool {
    use profile::*;
    let mut has_core = false;
    for field in Fields::new(head).map_while(Result::ok) {
        let (is_message, is_number) = (
            matches!(field.value, Value::Bytes(_)),
            matches!(field.value, Value::Varint(_)),
        );
        match field.number {
            SAMPLE | MAPPING | LOCATION | FUNCTION | STRING_TABLE if is_message => has_core = true,
            DROP_FRAMES | KEEP_FRAMES if is_number => has_core = true,
            SAMPLE_TYPE | PERIOD_TYPE if is_message => {}
            COMMENT if is_message || is_number => {}
            TIME_NANOS | DURATION_NANOS | PERIOD | DEFAULT_SAMPLE_TYPE if is_number => {}
            _ => return false,
        }
    }
    has_core
}

/// The largest profile that is read. A profile has to be in memory as a whole, since its strings
/// come last. Real profiles have a few MiB.
pub const MAX_BYTES: usize = 64 << 20;

/// A profile.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a>(&'a [u8]);

/// The type of a sample's values, as indices of the string table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueType {
    /// The counted quantity, such as `cpu`.
    pub kind: Option<u64>,
    /// The unit, such as `nanoseconds`.
    pub unit: Option<u64>,
}

/// A function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its id.
    pub id: Option<u64>,
    /// The index of its name in the string table.
    pub name: Option<u64>,
    /// The index of its source file's name.
    pub file: Option<u64>,
    /// The line at which it starts.
    pub line: Option<u64>,
}

/// A mapped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Its id.
    pub id: Option<u64>,
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// The offset in the file.
    pub offset: u64,
    /// The index of its name in the string table.
    pub file: Option<u64>,
    /// The index of its build id in the string table.
    pub build_id: Option<u64>,
}

/// A location in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Its id.
    pub id: Option<u64>,
    /// The id of its mapping.
    pub mapping: Option<u64>,
    /// Its address.
    pub address: u64,
    /// The ids of its functions with their lines. Each function is inlined into the next.
    pub lines: Vec<(u64, Option<u64>)>,
}

/// A callstack with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The ids of its locations, the innermost first.
    pub locations: Vec<u64>,
    /// A value of each type.
    pub values: Vec<i64>,
}

impl<'a> Profile<'a> {
    /// Creates a profile from its bytes. Returns `None` if it has no string table.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let profile = Self(bytes);
        profile.strings().next().map(|_| profile)
    }

    /// Returns the string table.
    pub fn strings(self) -> impl Iterator<Item = &'a [u8]> {
        all(self.0, profile::STRING_TABLE)
    }

    /// Returns the types of values.
    pub fn value_types(self) -> impl Iterator<Item = ValueType> {
        all(self.0, profile::SAMPLE_TYPE).map(value_type)
    }

    /// Returns the index of the type that readers show first, if the profile names one.
    pub fn default_type(self) -> Option<usize> {
        let wanted = number(self.0, profile::DEFAULT_SAMPLE_TYPE).filter(|name| *name != 0)?;
        let mut strings = self.strings();
        let name = strings.nth(usize::try_from(wanted).ok()?)?;
        self.value_types().position(|kind| {
            let kind = kind.kind.and_then(|kind| usize::try_from(kind).ok());
            kind.and_then(|kind| self.strings().nth(kind)) == Some(name)
        })
    }

    /// Returns the start of the profile in nanoseconds since 1970.
    pub fn time(self) -> Option<u64> {
        number(self.0, profile::TIME_NANOS)
    }

    /// Returns the duration of the profile in nanoseconds.
    pub fn duration(self) -> Option<u64> {
        number(self.0, profile::DURATION_NANOS)
    }

    /// Returns the functions.
    pub fn functions(self) -> impl Iterator<Item = Function> {
        all(self.0, profile::FUNCTION).map(|bytes| Function {
            id: number(bytes, function::ID),
            name: number(bytes, function::NAME),
            file: number(bytes, function::FILENAME),
            line: number(bytes, function::START_LINE).filter(|line| *line > 0),
        })
    }

    /// Returns the mappings.
    pub fn mappings(self) -> impl Iterator<Item = Mapping> {
        all(self.0, profile::MAPPING).map(|bytes| Mapping {
            id: number(bytes, mapping::ID),
            start: number(bytes, mapping::MEMORY_START).unwrap_or(0),
            end: number(bytes, mapping::MEMORY_LIMIT).unwrap_or(0),
            offset: number(bytes, mapping::FILE_OFFSET).unwrap_or(0),
            file: number(bytes, mapping::FILENAME),
            build_id: number(bytes, mapping::BUILD_ID),
        })
    }

    /// Returns the locations.
    pub fn locations(self) -> impl Iterator<Item = Location> {
        all(self.0, profile::LOCATION).map(|bytes| Location {
            id: number(bytes, location::ID),
            mapping: number(bytes, location::MAPPING_ID),
            address: number(bytes, location::ADDRESS).unwrap_or(0),
            lines: all(bytes, location::LINE)
                .filter_map(|bytes| {
                    let line = number(bytes, line::LINE).filter(|line| *line > 0);
                    Some((number(bytes, line::FUNCTION_ID)?, line))
                })
                .collect(),
        })
    }

    /// Returns the number of labels of all samples.
    pub fn labels(self) -> usize {
        all(self.0, profile::SAMPLE)
            .map(|bytes| all(bytes, sample::LABEL).count())
            .sum()
    }

    /// Returns the samples.
    pub fn samples(self) -> impl Iterator<Item = Sample> {
        all(self.0, profile::SAMPLE).map(|bytes| Sample {
            locations: numbers(bytes, sample::LOCATION_ID).collect(),
            values: numbers(bytes, sample::VALUE)
                .map(|value| value as i64)
                .collect(),
        })
    }
}

fn value_type(bytes: &[u8]) -> ValueType {
    ValueType {
        kind: number(bytes, type_field::TYPE),
        unit: number(bytes, type_field::UNIT),
    }
}

fn numbers(bytes: &[u8], wanted: u32) -> impl Iterator<Item = u64> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == wanted);
    fields.flat_map(|field: Field<'_>| field.as_varints())
}

fn all(bytes: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    let fields = Fields::new(bytes).map_while(Result::ok);
    let fields = fields.filter(move |field| field.number == number);
    fields.filter_map(|field| field.as_bytes())
}

fn number(bytes: &[u8], field: u32) -> Option<u64> {
    Fields::find(field, bytes)?.as_u64()
}
