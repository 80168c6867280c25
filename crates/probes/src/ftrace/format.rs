//! The kernel's description of one event: the text of `events/<group>/<name>/format`.
//!
//! The grammar is the kernel's (`Documentation/trace/events.rst`): a name line, an id line, and one
//! line per field with its C declaration, offset, size and signedness. The parser stops at the
//! first line that it does not understand, which is the `print fmt` line.

/// One field of a kernel event record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatField {
    /// Identifier of the field, without array bounds.
    pub name: String,
    /// The whole C declaration, for example `char comm[16]`.
    pub declaration: String,
    /// Byte offset from the start of the record.
    pub offset: u16,
    /// Size in bytes; 0 for a trailing flexible array.
    pub size: u16,
    /// True if the kernel treats the value as signed.
    pub signed: bool,
}

/// The parsed description of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Event name without its group.
    pub name: String,
    /// The number at the start of each record of this event.
    pub id: u16,
    /// The common fields of all events; their names start with `common_`.
    pub common: Vec<FormatField>,
    /// The event's own fields in record order.
    pub fields: Vec<FormatField>,
}

/// The longest declaration of a field, in bytes.
const MAX_DECLARATION: usize = 127;

impl EventFormat {
    /// Parses the text of a `format` file.
    ///
    /// Returns `None` when the name, the id or every field is missing: such an event is treated
    /// as absent.
    pub fn parse(text: &str) -> Option<Self> {
        let mut name = None;
        let mut id = None;
        let mut common = Vec::new();
        let mut fields = Vec::new();
        for line in text.lines() {
            if line.is_empty() || line == "format:" {
                continue;
            }
            if let Some(rest) = line.strip_prefix("name: ") {
                name = Some(rest.split_whitespace().next()?.to_owned());
            } else if let Some(rest) = line.strip_prefix("ID: ") {
                id = Some(rest.trim().parse::<u16>().ok()?);
            } else if let Some(field) = parse_field(line) {
                let Some(field) = field else { continue };
                if field.name.starts_with("common_") {
                    common.push(field);
                } else {
                    fields.push(field);
                }
            } else {
                break;
            }
        }
        if common.is_empty() && fields.is_empty() {
            return None;
        }
        Some(Self {
            name: name?,
            id: id?,
            common,
            fields,
        })
    }

    /// Returns the event's own field of that name.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the common field of that name.
    pub(crate) fn common_field(&self, name: &str) -> Option<&FormatField> {
        self.common.iter().find(|field| field.name == name)
    }

    /// Returns the shortest record that holds every field.
    pub(crate) fn min_size(&self) -> usize {
        self.common
            .iter()
            .chain(&self.fields)
            .map(|field| usize::from(field.offset) + usize::from(field.size))
            .max()
            .unwrap_or(0)
    }
}

/// Returns the width of the commit word of a ring-buffer page, from the text of
/// `events/header_page`.
///
/// 8 on 64-bit kernels, 4 on 32-bit ones. `None` if the text lacks it.
pub(crate) fn parse_commit_size(text: &str) -> Option<usize> {
    text.lines()
        .filter_map(|line| parse_field(line).flatten())
        .find(|field| field.name == "commit")
        .map(|field| usize::from(field.size))
        .filter(|size| matches!(size, 4 | 8))
}

/// Parses a line. Outer `None`: not a field line. Inner `None`: a field without a usable name,
/// which is dropped.
fn parse_field(line: &str) -> Option<Option<FormatField>> {
    let rest = line.strip_prefix('\t')?.strip_prefix("field:")?;
    let (declaration, rest) = rest.split_once(';')?;
    let declaration = declaration.trim_start();
    if declaration.len() > MAX_DECLARATION {
        return None;
    }
    let (offset, rest) = attribute(rest, "offset:")?;
    let (size, rest) = attribute(rest, "size:")?;
    let (signed, _) = attribute(rest, "signed:")?;
    let Some(name) = declared_name(declaration) else {
        return Some(None);
    };
    Some(Some(FormatField {
        name: name.to_owned(),
        declaration: declaration.to_owned(),
        offset,
        size,
        signed: signed != 0,
    }))
}

fn attribute<'a>(text: &'a str, key: &str) -> Option<(u16, &'a str)> {
    let (value, rest) = text.trim_start().strip_prefix(key)?.split_once(';')?;
    Some((value.parse().ok()?, rest))
}

/// Returns the identifier after the last space and before any array bounds.
fn declared_name(declaration: &str) -> Option<&str> {
    let without_bounds = declaration
        .split_once('[')
        .map_or(declaration, |(before, after)| {
            // `__data_loc char[] name` has its bounds in the middle: the name follows the last
            // space.
            if after.contains(' ') {
                declaration
            } else {
                before
            }
        });
    let name = without_bounds.rsplit(' ').next()?;
    let name = name.split('[').next()?;
    let mut bytes = name.bytes();
    let head = bytes.next()?;
    let is_identifier = (head.is_ascii_alphabetic() || head == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_identifier.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_with_and_without_bounds() {
        assert_eq!(declared_name("char comm[16]"), Some("comm"));
        assert_eq!(declared_name("__data_loc char[] name"), Some("name"));
        assert_eq!(declared_name("unsigned long args[6]"), Some("args"));
        assert_eq!(declared_name("char buf[]"), Some("buf"));
        assert_eq!(declared_name("u8 mac[ETH_ALEN]"), Some("mac"));
        assert_eq!(declared_name("int 3x"), None);
        assert_eq!(declared_name(""), None);
    }

    #[test]
    fn a_format_without_id_or_fields_is_absent() {
        assert_eq!(
            EventFormat::parse("name: x\nID: 7\nformat:\n\nprint fmt: \"\"\n"),
            None
        );
        let field = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n";
        assert_eq!(
            EventFormat::parse(&format!("name: x\nformat:\n{field}")),
            None
        );
        assert!(EventFormat::parse(&format!("name: x\nID: 7\nformat:\n{field}")).is_some());
    }
}
