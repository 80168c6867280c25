//! The schema as tables, for descriptor-driven code.
//!
//! Parsed from an encoded `FileDescriptorSet`, from which all names are borrowed. Contains only the
//! parts that printing and parsing of text need: no options except `packed`, no defaults, no
//! services.

use std::collections::HashMap;
use std::sync::OnceLock;

use ferretto_wire::{DecodeError, Field, Fields};

/// The reason why a descriptor set is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The bytes are malformed.
    #[error("the descriptor set is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// Messages are nested too deeply.
    #[error("the descriptor set nests messages more than {MAX_DEPTH} deep")]
    TooDeep,
    /// A name is not UTF-8.
    #[error("the descriptor set has a name that is not UTF-8")]
    Name,
    /// A field refers to a type that is not in the set.
    #[error("field {field} of {message} has the unknown type {type_name:?}")]
    UnknownType {
        /// The message that has the field.
        message: String,
        /// The field.
        field: String,
        /// The type that was not found.
        type_name: String,
    },
}

/// The maximum nesting of message declarations.
const MAX_DEPTH: usize = 32;

/// The id of a message in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(u32);

/// The id of an enum in a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EnumId(u32);

/// All messages and enums of a descriptor set.
#[derive(Debug, Default)]
pub struct Schema<'a> {
    messages: Vec<MessageType<'a>>,
    enums: Vec<EnumType<'a>>,
    by_name: HashMap<String, MessageId>,
}

/// A message type.
#[derive(Debug)]
pub struct MessageType<'a> {
    /// The name without its package or parent, such as `BufferConfig`.
    pub name: &'a str,
    /// The full name, such as `perfetto.protos.TraceConfig.BufferConfig`.
    pub full_name: String,
    /// The fields, sorted by number.
    fields: Vec<FieldType<'a>>,
}

/// A field of a message type.
#[derive(Clone, Debug)]
pub struct FieldType<'a> {
    /// The name.
    pub name: &'a str,
    /// The number.
    pub number: u32,
    /// The type.
    pub kind: Kind,
    /// True for repeated fields.
    pub repeated: bool,
    /// True for packed fields.
    pub packed: bool,
    /// The oneof that the field belongs to, if any.
    pub oneof: Option<u32>,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in protobuf")]
pub enum Kind {
    Double,
    Float,
    Int64,
    Uint64,
    Int32,
    Fixed64,
    Fixed32,
    Bool,
    String,
    Message(MessageId),
    Bytes,
    Uint32,
    Enum(EnumId),
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
}

/// An enum type.
#[derive(Debug)]
pub struct EnumType<'a> {
    /// The name without its package or parent.
    pub name: &'a str,
    /// Names and numbers, in the order of the schema.
    pub values: Vec<(&'a str, i32)>,
}

impl Schema<'static> {
    /// Returns the embedded schema of Perfetto. It is parsed on first use.
    pub fn perfetto() -> &'static Self {
        static SCHEMA: OnceLock<Schema<'static>> = OnceLock::new();
        SCHEMA.get_or_init(|| {
            Self::parse(ferretto_proto::DESCRIPTORS).expect("the embedded schema is well-formed")
        })
    }
}

impl<'a> Schema<'a> {
    /// Parses an encoded `google.protobuf.FileDescriptorSet` that contains every file it refers to,
    /// in any order.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are malformed, or refer to types that they do not contain.
    pub fn parse(file_descriptor_set: &'a [u8]) -> Result<Self, SchemaError> {
        let mut builder = Builder::default();
        for file in Fields::new(file_descriptor_set) {
            builder.file(file?)?;
        }
        builder.finish()
    }

    /// Returns the message with this full name, such as `perfetto.protos.TracePacket`.
    pub fn message_named(&self, full_name: &str) -> Option<MessageId> {
        self.by_name.get(full_name).copied()
    }

    /// Returns the message type. The id must come from this schema.
    pub fn message(&self, id: MessageId) -> &MessageType<'a> {
        &self.messages[id.0 as usize]
    }

    /// Returns the enum type. The id must come from this schema.
    pub fn enumeration(&self, id: EnumId) -> &EnumType<'a> {
        &self.enums[id.0 as usize]
    }
}

impl<'a> MessageType<'a> {
    /// Returns the fields, sorted by number.
    pub fn fields(&self) -> &[FieldType<'a>] {
        &self.fields
    }

    /// Returns the field with this number.
    pub fn field(&self, number: u32) -> Option<&FieldType<'a>> {
        let at = self
            .fields
            .binary_search_by_key(&number, |field| field.number);
        at.ok().map(|at| &self.fields[at])
    }

    /// Returns the field with this name.
    pub fn field_named(&self, name: &str) -> Option<&FieldType<'a>> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl<'a> EnumType<'a> {
    /// Returns the first name with this number.
    pub fn name_of(&self, number: i32) -> Option<&'a str> {
        self.values
            .iter()
            .find(|(_, n)| *n == number)
            .map(|(name, _)| *name)
    }

    /// Returns the number with this name.
    pub fn number_of(&self, name: &str) -> Option<i32> {
        self.values
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, number)| *number)
    }
}

/// A field whose type is not resolved yet.
struct RawField<'a> {
    field: FieldType<'a>,
    type_number: u64,
    type_name: &'a str,
}

#[derive(Default)]
struct Builder<'a> {
    messages: Vec<(MessageType<'a>, Vec<RawField<'a>>)>,
    enums: Vec<EnumType<'a>>,
    enum_names: HashMap<String, EnumId>,
    message_names: HashMap<String, MessageId>,
}

/// Field numbers of `descriptor.proto`, which is not part of our own schema.
mod number {
    pub(super) const SET_FILE: u32 = 1;
    pub(super) const FILE_PACKAGE: u32 = 2;
    pub(super) const FILE_MESSAGE: u32 = 4;
    pub(super) const FILE_ENUM: u32 = 5;
    pub(super) const NAME: u32 = 1;
    pub(super) const MESSAGE_FIELD: u32 = 2;
    pub(super) const MESSAGE_NESTED: u32 = 3;
    pub(super) const MESSAGE_ENUM: u32 = 4;
    pub(super) const FIELD_NUMBER: u32 = 3;
    pub(super) const FIELD_LABEL: u32 = 4;
    pub(super) const FIELD_TYPE: u32 = 5;
    pub(super) const FIELD_TYPE_NAME: u32 = 6;
    pub(super) const FIELD_OPTIONS: u32 = 8;
    pub(super) const FIELD_ONEOF: u32 = 9;
    pub(super) const OPTION_PACKED: u32 = 2;
    pub(super) const ENUM_VALUE: u32 = 2;
    pub(super) const VALUE_NUMBER: u32 = 2;
}

/// `FieldDescriptorProto.LABEL_REPEATED`.
const LABEL_REPEATED: u64 = 3;

fn bytes<'a>(field: &Field<'a>) -> &'a [u8] {
    field.as_bytes().unwrap_or_default()
}

fn text<'a>(field: &Field<'a>) -> Result<&'a str, SchemaError> {
    std::str::from_utf8(bytes(field)).map_err(|_| SchemaError::Name)
}

/// Returns the first string field with this number.
fn name_in(message: &[u8], number: u32) -> Result<&str, SchemaError> {
    Fields::find(number, message).map_or(Ok(""), |field| text(&field))
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() {
        name.to_owned()
    } else {
        format!("{scope}.{name}")
    }
}

impl<'a> Builder<'a> {
    fn file(&mut self, file: Field<'a>) -> Result<(), SchemaError> {
        if file.number != number::SET_FILE {
            return Ok(());
        }
        let package = name_in(bytes(&file), number::FILE_PACKAGE)?;
        for field in Fields::new(bytes(&file)) {
            let field = field?;
            match field.number {
                number::FILE_MESSAGE => self.message(package, bytes(&field), 0)?,
                number::FILE_ENUM => self.enumeration(package, bytes(&field))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, scope: &str, message: &'a [u8], depth: usize) -> Result<(), SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep);
        }
        let name = name_in(message, number::NAME)?;
        let full_name = join(scope, name);
        let mut fields = Vec::new();
        for field in Fields::new(message) {
            let field = field?;
            match field.number {
                number::MESSAGE_FIELD => fields.push(raw_field(bytes(&field))?),
                number::MESSAGE_NESTED => self.message(&full_name, bytes(&field), depth + 1)?,
                number::MESSAGE_ENUM => self.enumeration(&full_name, bytes(&field))?,
                _ => {}
            }
        }
        fields.sort_by_key(|raw| raw.field.number);
        self.message_names
            .insert(full_name.clone(), MessageId(self.messages.len() as u32));
        self.messages.push((
            MessageType {
                name,
                full_name,
                fields: Vec::new(),
            },
            fields,
        ));
        Ok(())
    }

    fn enumeration(&mut self, scope: &str, message: &'a [u8]) -> Result<(), SchemaError> {
        let name = name_in(message, number::NAME)?;
        let mut values = Vec::new();
        for field in Fields::new(message) {
            let field = field?;
            if field.number == number::ENUM_VALUE {
                let value = Fields::find(number::VALUE_NUMBER, bytes(&field));
                let value = value.and_then(|v| v.as_i64()).unwrap_or(0) as i32;
                values.push((name_in(bytes(&field), number::NAME)?, value));
            }
        }
        self.enum_names
            .insert(join(scope, name), EnumId(self.enums.len() as u32));
        self.enums.push(EnumType { name, values });
        Ok(())
    }

    fn finish(self) -> Result<Schema<'a>, SchemaError> {
        let mut messages = Vec::with_capacity(self.messages.len());
        for (mut message, raw_fields) in self.messages {
            message.fields.reserve_exact(raw_fields.len());
            for mut raw in raw_fields {
                // // Full names have a leading dot in descriptors.
                let type_name = raw.type_name.trim_start_matches('.');
                let known = kind(
                    raw.type_number,
                    type_name,
                    &self.message_names,
                    &self.enum_names,
                );
                raw.field.kind = known.ok_or_else(|| SchemaError::UnknownType {
                    message: message.full_name.clone(),
                    field: raw.field.name.to_owned(),
                    type_name: raw.type_name.to_owned(),
                })?;
                message.fields.push(raw.field);
            }
            messages.push(message);
        }
        Ok(Schema {
            messages,
            enums: self.enums,
            by_name: self.message_names,
        })
    }
}

fn raw_field(message: &[u8]) -> Result<RawField<'_>, SchemaError> {
    let mut field = FieldType {
        name: "",
        number: 0,
        kind: Kind::Bytes,
        repeated: false,
        packed: false,
        oneof: None,
    };
    let (mut type_number, mut type_name) = (0, "");
    for entry in Fields::new(message) {
        let entry = entry?;
        match entry.number {
            number::NAME => field.name = text(&entry)?,
            number::FIELD_NUMBER => field.number = entry.as_u32().unwrap_or(0),
            number::FIELD_LABEL => field.repeated = entry.as_u64() == Some(LABEL_REPEATED),
            number::FIELD_TYPE => type_number = entry.as_u64().unwrap_or(0),
            number::FIELD_TYPE_NAME => type_name = text(&entry)?,
            number::FIELD_ONEOF => field.oneof = entry.as_u32(),
            number::FIELD_OPTIONS => {
                let packed = Fields::find(number::OPTION_PACKED, bytes(&entry));
                field.packed = packed.and_then(|p| p.as_bool()).unwrap_or(false);
            }
            _ => {}
        }
    }
    Ok(RawField {
        field,
        type_number,
        type_name,
    })
}

impl Kind {
    /// Returns the type for a `FieldDescriptorProto.Type`; `None` for messages, groups and enums.
    pub fn scalar(type_number: u64) -> Option<Self> {
        Some(match type_number {
            1 => Self::Double,
            2 => Self::Float,
            3 => Self::Int64,
            4 => Self::Uint64,
            5 => Self::Int32,
            6 => Self::Fixed64,
            7 => Self::Fixed32,
            8 => Self::Bool,
            9 => Self::String,
            12 => Self::Bytes,
            13 => Self::Uint32,
            15 => Self::Sfixed32,
            16 => Self::Sfixed64,
            17 => Self::Sint32,
            18 => Self::Sint64,
            _ => return None,
        })
    }
}

/// Returns the type for a `FieldDescriptorProto.Type`.
fn kind(
    type_number: u64,
    type_name: &str,
    messages: &HashMap<String, MessageId>,
    enums: &HashMap<String, EnumId>,
) -> Option<Kind> {
    match type_number {
        11 => messages.get(type_name).copied().map(Kind::Message),
        14 => enums.get(type_name).copied().map(Kind::Enum),
        scalar => Kind::scalar(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_schema_has_messages_enums_and_fields() {
        let schema = Schema::perfetto();
        let packet = schema
            .message_named("perfetto.protos.TracePacket")
            .expect("TracePacket");
        let packet = schema.message(packet);
        assert_eq!(packet.name, "TracePacket");
        let timestamp = packet.field_named("timestamp").expect("timestamp");
        assert_eq!((timestamp.number, timestamp.kind), (8, Kind::Uint64));
        assert_eq!(packet.field(8).map(|field| field.name), Some("timestamp"));

        let config = schema.message_named("perfetto.protos.TraceConfig.BufferConfig");
        let policy = schema
            .message(config.expect("nested"))
            .field_named("fill_policy");
        let Some(Kind::Enum(policy)) = policy.map(|field| field.kind) else {
            panic!("an enum")
        };
        assert_eq!(schema.enumeration(policy).number_of("DISCARD"), Some(2));
        assert_eq!(schema.enumeration(policy).name_of(1), Some("RING_BUFFER"));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_schema() {
        let set = ferretto_proto::DESCRIPTORS;
        for length in (0..4000).chain([set.len() - 1]) {
            let _ = Schema::parse(&set[..length]);
        }
        assert!(Schema::parse(&set[..set.len() - 1]).is_err());
    }
}
