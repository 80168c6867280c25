//! The members of a message's struct: their Rust types, and the lines that read and write them.

use anyhow::{Context, Result, bail, ensure};
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto};

use super::code::{Code, line};
use super::names::{identifier, pascal_case, snake_case};

/// The type of a field.
#[derive(Debug)]
enum Kind {
    /// The name of the type in the runtime, and in Rust.
    Scalar(&'static str, &'static str),
    Bytes,
    /// The path of the type in Rust.
    Enumeration(String),
    Message(String),
}

impl Kind {
    fn of(field: &FieldDescriptorProto) -> Result<Self> {
        let path = || type_path(field.type_name());
        Ok(match field.r#type() {
            Type::Uint32 => Self::Scalar("Uint32", "u32"),
            Type::Uint64 => Self::Scalar("Uint64", "u64"),
            Type::Int32 => Self::Scalar("Int32", "i32"),
            Type::Int64 => Self::Scalar("Int64", "i64"),
            Type::Sint32 => Self::Scalar("Sint32", "i32"),
            Type::Sint64 => Self::Scalar("Sint64", "i64"),
            Type::Bool => Self::Scalar("Bool", "bool"),
            Type::Fixed32 => Self::Scalar("Fixed32", "u32"),
            Type::Fixed64 => Self::Scalar("Fixed64", "u64"),
            Type::Sfixed32 => Self::Scalar("Sfixed32", "i32"),
            Type::Sfixed64 => Self::Scalar("Sfixed64", "i64"),
            Type::Float => Self::Scalar("Float", "f32"),
            Type::Double => Self::Scalar("Double", "f64"),
            Type::String | Type::Bytes => Self::Bytes,
            Type::Enum => Self::Enumeration(path()?),
            Type::Message => Self::Message(path()?),
            Type::Group => bail!("groups are not supported"),
        })
    }

    fn rust_type(&self) -> &str {
        match self {
            Self::Scalar(_, rust) => rust,
            Self::Bytes => "Vec<u8>",
            Self::Enumeration(path) | Self::Message(path) => path,
        }
    }
}

/// `.perfetto.protos.IPCFrame.BindService` to `crate::ipc_frame::BindService`.
fn type_path(name: &str) -> Result<String> {
    let name = name.strip_prefix(".perfetto.protos.");
    let name = name.context("a type of another package")?;
    let mut parts: Vec<&str> = name.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let modules = parts
        .iter()
        .map(|part| identifier(&snake_case(part)) + "::");
    Ok(format!("crate::{}{last}", modules.collect::<String>()))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    Optional,
    Repeated,
    Packed,
}

#[derive(Debug)]
pub(super) struct Field {
    name: String,
    number: i32,
    kind: Kind,
    count: Count,
}

impl Field {
    fn of(field: &FieldDescriptorProto) -> Result<Self> {
        let packed = field
            .options
            .as_ref()
            .is_some_and(|options| options.packed());
        let count = match field.label() {
            Label::Optional => Count::Optional,
            Label::Repeated if packed => Count::Packed,
            Label::Repeated => Count::Repeated,
            Label::Required => bail!("required fields are not supported"),
        };
        let kind = Kind::of(field).with_context(|| format!("field {}", field.name()))?;
        ensure!(
            count != Count::Packed || matches!(kind, Kind::Scalar(..)),
            "packed enumerations are not supported"
        );
        Ok(Self {
            name: identifier(field.name()),
            number: field.number(),
            kind,
            count,
        })
    }

    fn rust_type(&self) -> String {
        let rust = self.kind.rust_type();
        match (self.count, &self.kind) {
            (Count::Optional, Kind::Message(_)) => format!("rt::MessageField<{rust}>"),
            (Count::Optional, _) => format!("Option<{rust}>"),
            (Count::Repeated | Count::Packed, _) => format!("Vec<{rust}>"),
        }
    }

    fn empty(&self) -> &'static str {
        match (self.count, &self.kind) {
            (Count::Optional, Kind::Message(_)) => "rt::MessageField::none()",
            (Count::Optional, _) => "None",
            (Count::Repeated | Count::Packed, _) => "Vec::new()",
        }
    }

    /// The arm that takes the field in.
    fn merge(&self, code: &mut Code) {
        let Self { name, number, .. } = self;
        let one = self.count == Count::Optional;
        match &self.kind {
            Kind::Scalar(kind, _) if one => {
                line!(
                    code,
                    "{number} => self.{name} = Some(field.one::<rt::{kind}>()?),"
                );
            }
            Kind::Scalar(kind, _) => {
                line!(
                    code,
                    "{number} => field.each::<rt::{kind}>(&mut self.{name})?,"
                );
            }
            Kind::Bytes if one => {
                line!(code, "{number} => self.{name} = Some(field.bytes()?),");
            }
            Kind::Bytes => line!(code, "{number} => field.each_bytes(&mut self.{name})?,"),
            Kind::Enumeration(_) if one => {
                let known = "field.known(&mut self.unknown_fields)?";
                line!(
                    code,
                    "{number} => if let Some(value) = {known} {{ self.{name} = Some(value) }},"
                );
            }
            Kind::Enumeration(_) => {
                let unknown = "&mut self.unknown_fields";
                line!(
                    code,
                    "{number} => field.each_known(&mut self.{name}, {unknown})?,"
                );
            }
            Kind::Message(_) if one => line!(code, "{number} => field.message(&mut self.{name})?,"),
            Kind::Message(_) => line!(code, "{number} => field.each_message(&mut self.{name})?,"),
        }
    }

    /// The line that writes the field.
    fn encode(&self, code: &mut Code) {
        let Self { name, number, .. } = self;
        match (&self.kind, self.count) {
            (Kind::Scalar(kind, _), Count::Optional) => {
                line!(code, "out.one::<rt::{kind}>({number}, self.{name});");
            }
            (Kind::Scalar(kind, _), Count::Repeated) => {
                line!(code, "out.each::<rt::{kind}>({number}, &self.{name});");
            }
            (Kind::Scalar(kind, _), Count::Packed) => {
                line!(code, "out.packed::<rt::{kind}>({number}, &self.{name});");
            }
            (Kind::Bytes, Count::Optional) => {
                line!(code, "out.bytes({number}, self.{name}.as_deref());");
            }
            (Kind::Bytes, _) => line!(code, "out.each_bytes({number}, &self.{name});"),
            (Kind::Enumeration(_), Count::Optional) => {
                line!(code, "out.known({number}, self.{name});");
            }
            (Kind::Enumeration(_), _) => line!(code, "out.each_known({number}, &self.{name});"),
            (Kind::Message(_), Count::Optional) => {
                line!(code, "out.message({number}, &self.{name});");
            }
            (Kind::Message(_), _) => line!(code, "out.each_message({number}, &self.{name});"),
        }
    }
}

#[derive(Debug)]
pub(super) struct OneOf {
    name: String,
    /// Its name as a type.
    pub(super) type_name: String,
    /// Its path as a type.
    path: String,
    fields: Vec<Field>,
}

impl OneOf {
    fn variants(&self) -> impl Iterator<Item = (String, &Field)> {
        let name = |field: &Field| pascal_case(field.name.trim_start_matches("r#"));
        self.fields.iter().map(move |field| (name(field), field))
    }

    pub(super) fn define(&self, code: &mut Code) {
        code.line("");
        code.line("#[derive(Clone, Debug, PartialEq)]");
        code.block(&format!("pub enum {}", self.type_name), |code| {
            for (variant, field) in self.variants() {
                let rust = field.kind.rust_type();
                match field.kind {
                    Kind::Message(_) => line!(code, "{variant}(Box<{rust}>),"),
                    _ => line!(code, "{variant}({rust}),"),
                }
            }
        });
        for (variant, field) in self.variants() {
            let Kind::Message(path) = &field.kind else {
                continue;
            };
            let same = |other: &&Field| matches!(&other.kind, Kind::Message(p) if p == path);
            if self.fields.iter().filter(same).count() > 1 {
                continue;
            }
            code.block(
                &format!("impl From<{path}> for {}", self.type_name),
                |code| {
                    line!(
                        code,
                        "fn from(message: {path}) -> Self {{ Self::{variant}(Box::new(message)) }}"
                    );
                },
            );
        }
    }

    fn merge(&self, code: &mut Code) {
        let Self { name, path, .. } = self;
        for (variant, field) in self.variants() {
            let number = field.number;
            let variant = format!("{path}::{variant}");
            match &field.kind {
                Kind::Scalar(kind, _) => {
                    line!(
                        code,
                        "{number} => self.{name} = Some({variant}(field.one::<rt::{kind}>()?)),"
                    );
                }
                Kind::Bytes => {
                    line!(
                        code,
                        "{number} => self.{name} = Some({variant}(field.bytes()?)),"
                    );
                }
                Kind::Enumeration(_) => {
                    let known = "field.known(&mut self.unknown_fields)?";
                    let set = format!("self.{name} = Some({variant}(value))");
                    line!(
                        code,
                        "{number} => if let Some(value) = {known} {{ {set} }},"
                    );
                }
                Kind::Message(_) => {
                    code.block(&format!("{number} =>"), |code| {
                        let some = format!("Some({variant}(message)) => Some(message)");
                        line!(
                            code,
                            "let there = match self.{name}.take() {{ {some}, _ => None }};"
                        );
                        line!(code, "self.{name} = Some({variant}(field.boxed(there)?));");
                    });
                }
            }
        }
    }

    fn encode(&self, code: &mut Code) {
        let Self { name, path, .. } = self;
        code.block(&format!("match &self.{name}"), |code| {
            for (variant, field) in self.variants() {
                let number = field.number;
                let write = match &field.kind {
                    Kind::Scalar(kind, _) => {
                        format!("out.one::<rt::{kind}>({number}, Some(*value))")
                    }
                    Kind::Bytes => format!("out.bytes({number}, Some(value))"),
                    Kind::Enumeration(_) => format!("out.known({number}, Some(*value))"),
                    Kind::Message(_) => format!("out.nested({number}, &**value)"),
                };
                line!(code, "Some({path}::{variant}(value)) => {write},");
            }
            code.line("None => {}");
        });
    }
}

/// A member of a message's struct.
#[derive(Debug)]
pub(super) enum Member {
    Field(Field),
    OneOf(OneOf),
}

impl Member {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Field(field) => &field.name,
            Self::OneOf(one_of) => &one_of.name,
        }
    }

    pub(super) fn one_of(&self) -> Option<&OneOf> {
        match self {
            Self::Field(_) => None,
            Self::OneOf(one_of) => Some(one_of),
        }
    }

    pub(super) fn rust_type(&self) -> String {
        match self {
            Self::Field(field) => field.rust_type(),
            Self::OneOf(one_of) => format!("Option<{}>", one_of.path),
        }
    }

    pub(super) fn empty(&self) -> &'static str {
        match self {
            Self::Field(field) => field.empty(),
            Self::OneOf(_) => "None",
        }
    }

    pub(super) fn first_number(&self) -> i32 {
        match self {
            Self::Field(field) => field.number,
            Self::OneOf(one_of) => one_of.fields.iter().map(|f| f.number).min().unwrap_or(0),
        }
    }

    pub(super) fn merge(&self, code: &mut Code) {
        match self {
            Self::Field(field) => field.merge(code),
            Self::OneOf(one_of) => one_of.merge(code),
        }
    }

    pub(super) fn encode(&self, code: &mut Code) {
        match self {
            Self::Field(field) => field.encode(code),
            Self::OneOf(one_of) => one_of.encode(code),
        }
    }
}

/// The members of a message's struct, in the order of the schema; each `oneof` where its first
/// field is.
pub(super) fn members(message: &DescriptorProto, full_name: &str) -> Result<Vec<Member>> {
    let mut members: Vec<Member> = Vec::new();
    for descriptor in &message.field {
        let field = Field::of(descriptor)?;
        ensure!(
            field.name != "unknown_fields",
            "a field named unknown_fields"
        );
        let Some(index) = descriptor.oneof_index else {
            members.push(Member::Field(field));
            continue;
        };
        let decl = message.oneof_decl.get(index as usize);
        let name = identifier(decl.context("no such oneof")?.name());
        let same = members.iter_mut().find_map(|member| match member {
            Member::OneOf(one_of) if one_of.name == name => Some(one_of),
            _ => None,
        });
        if let Some(one_of) = same {
            one_of.fields.push(field);
            continue;
        }
        let type_name = pascal_case(name.trim_start_matches("r#"));
        members.push(Member::OneOf(OneOf {
            path: type_path(&format!(".perfetto.protos.{full_name}.{type_name}"))?,
            name,
            type_name,
            fields: vec![field],
        }));
    }
    Ok(members)
}
