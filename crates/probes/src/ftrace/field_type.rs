//! Kernel fields as message fields.
//!
//! A kernel declaration is classified once ([`KernelType::infer`]), paired with the type of the
//! message field of the same name, and yields the operation run for each record ([`Op`]).

use super::format::FormatField;
use super::table::MessageType;

/// The meaning of a kernel declaration in the ring buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelType {
    /// Unsigned integer of that many bytes.
    Unsigned(u8),
    /// Signed integer of that many bytes.
    Signed(u8),
    /// One byte, zero or not.
    Bool,
    /// Character array of a fixed size, cut at the first NUL.
    FixedString,
    /// Characters up to a NUL or the end of the record.
    TrailingString,
    /// Address of a format string listed in `printk_formats`.
    StringPointer,
    /// Word holding offset and length of text elsewhere in the record.
    DataLocText,
    /// Word holding offset and length of raw bytes elsewhere in the record.
    DataLocBytes,
    /// Inode number of that many bytes.
    Inode(u8),
    /// Kernel device number of that many bytes.
    Device(u8),
    /// Process id.
    Pid,
    /// The pid of the task that was running, common to all events.
    CommonPid,
    /// Kernel address of that many bytes; never written as such.
    Address(u8),
    /// Six machine words of that many bytes each: system call arguments.
    SyscallArgs(u8),
}

impl KernelType {
    /// Classifies a field; the first matching rule decides. `None` if the field is not supported.
    pub(super) fn infer(field: &FormatField) -> Option<Self> {
        let decl = field.declaration.as_str();
        let size = field.size;
        if is_fixed_string(decl) {
            return Some(Self::FixedString);
        }
        if decl.contains("__data_loc ") {
            return (size == 4).then(|| Self::data_loc(decl));
        }
        if decl == "unsigned long args[6]" && matches!(size, 24 | 48) {
            return Some(Self::SyscallArgs((size / 6) as u8));
        }
        if decl.contains("char[] ") || decl.contains("char * ") {
            return Some(Self::StringPointer);
        }
        let word = matches!(size, 4 | 8).then_some(size as u8);
        if (decl.starts_with("void*") || decl.starts_with("void *"))
            && let Some(size) = word
        {
            return Some(Self::Address(size));
        }
        if decl.starts_with("char ") && size == 0 {
            return Some(Self::TrailingString);
        }
        if decl.starts_with("bool ") {
            return Some(Self::Bool);
        }
        if let Some(size) = word {
            if decl.starts_with("ino_t ") || decl.starts_with("i_ino ") {
                return Some(Self::Inode(size));
            }
            if decl.starts_with("dev_t ") {
                return Some(Self::Device(size));
            }
        }
        if decl.starts_with("pid_t ") && size == 4 {
            return Some(Self::Pid);
        }
        if decl.contains("common_pid") && size == 4 {
            return Some(Self::CommonPid);
        }
        match (size, field.signed) {
            (1 | 2 | 4 | 8, true) => Some(Self::Signed(size as u8)),
            (1 | 2 | 4 | 8, false) => Some(Self::Unsigned(size as u8)),
            _ => None,
        }
    }

    fn data_loc(decl: &str) -> Self {
        let element = decl
            .split_once("__data_loc ")
            .and_then(|(_, rest)| rest.split_once("[]"));
        let bytes = matches!(element, Some(("u8" | "__u8" | "unsigned char", _)));
        if bytes {
            Self::DataLocBytes
        } else {
            Self::DataLocText
        }
    }

    /// Returns the message type for a generic event's field of this kernel type.
    pub(super) fn generic_type(self) -> Option<MessageType> {
        Some(match self {
            Self::FixedString | Self::TrailingString | Self::StringPointer | Self::DataLocText => {
                MessageType::String
            }
            Self::DataLocBytes => MessageType::Bytes,
            Self::Signed(_) | Self::Pid | Self::CommonPid => MessageType::Int64,
            Self::Unsigned(_)
            | Self::Bool
            | Self::Inode(_)
            | Self::Device(_)
            | Self::Address(_) => MessageType::Uint64,
            Self::SyscallArgs(_) => return None,
        })
    }
}

/// `char name[N]` with a number or a constant between the brackets.
fn is_fixed_string(decl: &str) -> bool {
    let Some(rest) = decl.strip_prefix("char ") else {
        return false;
    };
    let Some((name, bound)) = rest.split_once('[') else {
        return false;
    };
    let Some(bound) = bound.strip_suffix(']') else {
        return false;
    };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    word(name) && word(bound)
}

/// The operation that moves one field from a record into a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Unsigned integers as varints.
    U8,
    /// See [`Op::U8`].
    U16,
    /// See [`Op::U8`].
    U32,
    /// See [`Op::U8`].
    U64,
    /// Signed integers, sign-extended to 64 bits, as varints.
    I8,
    /// See [`Op::I8`].
    I16,
    /// See [`Op::I8`].
    I32,
    /// See [`Op::I8`].
    I64,
    /// Fixed-size text cut at the first NUL.
    FixedString,
    /// Text to the first NUL or the end of the record.
    TrailingString,
    /// Text looked up by kernel address.
    StringPointer,
    /// Text elsewhere in the record, cut at the first NUL.
    DataLocText,
    /// Raw bytes elsewhere in the record.
    DataLocBytes,
    /// Inode of four bytes.
    Inode32,
    /// Inode of eight bytes.
    Inode64,
    /// Device of four bytes, renumbered as user space sees it.
    Device32,
    /// Device of eight bytes, renumbered as user space sees it.
    Device64,
    /// Process id.
    Pid,
    /// Kernel address of four bytes, written as its index in the address table.
    Address32,
    /// Kernel address of eight bytes, written as its index in the address table.
    Address64,
}

impl Op {
    /// Returns the operation for a pair of types; `None` if the pair is not supported.
    pub(super) fn select(from: KernelType, to: MessageType) -> Option<Self> {
        use KernelType as K;
        use MessageType as M;
        Some(match (from, to) {
            (K::Unsigned(1) | K::Bool, M::Uint32 | M::Uint64) => Self::U8,
            (K::Unsigned(2), M::Uint32 | M::Uint64) => Self::U16,
            (K::Unsigned(4), M::Uint32 | M::Uint64) => Self::U32,
            (K::Unsigned(8), M::Uint64) => Self::U64,
            (K::Signed(1), M::Int32 | M::Int64) => Self::I8,
            (K::Signed(2), M::Int32 | M::Int64) => Self::I16,
            (K::Signed(4), M::Int32 | M::Int64) => Self::I32,
            (K::Signed(8), M::Int64) => Self::I64,
            (K::FixedString, M::String) => Self::FixedString,
            (K::TrailingString, M::String) => Self::TrailingString,
            (K::StringPointer, M::String) => Self::StringPointer,
            (K::DataLocText, M::String) => Self::DataLocText,
            (K::DataLocBytes, M::Bytes) => Self::DataLocBytes,
            (K::Inode(4), M::Uint64) => Self::Inode32,
            (K::Inode(8), M::Uint64) => Self::Inode64,
            (K::Device(4), M::Uint64) => Self::Device32,
            (K::Device(8), M::Uint64) => Self::Device64,
            (K::Pid | K::CommonPid, M::Int32 | M::Int64) => Self::Pid,
            (K::Address(4), M::Uint64) => Self::Address32,
            (K::Address(8), M::Uint64) => Self::Address64,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(declaration: &str, size: u16, signed: bool) -> Option<KernelType> {
        KernelType::infer(&FormatField {
            name: String::new(),
            declaration: declaration.to_owned(),
            offset: 0,
            size,
            signed,
        })
    }

    #[test]
    fn kernel_declarations_are_classified() {
        use KernelType as K;
        assert_eq!(infer("char comm[16]", 16, false), Some(K::FixedString));
        assert_eq!(
            infer("char comm[TASK_COMM_LEN]", 16, false),
            Some(K::FixedString)
        );
        assert_eq!(
            infer("__data_loc char[] name", 4, true),
            Some(K::DataLocText)
        );
        assert_eq!(
            infer("__data_loc u8[] buf", 4, false),
            Some(K::DataLocBytes)
        );
        assert_eq!(
            infer("__data_loc __u8[] buf", 4, false),
            Some(K::DataLocBytes)
        );
        assert_eq!(
            infer("__data_loc unsigned char[] b", 4, false),
            Some(K::DataLocBytes)
        );
        assert_eq!(infer("__data_loc int[] b", 4, false), Some(K::DataLocText));
        assert_eq!(infer("__data_loc char[] name", 8, true), None);
        assert_eq!(infer("char buf[]", 0, false), Some(K::TrailingString));
        assert_eq!(infer("const char * msg", 8, false), Some(K::StringPointer));
        assert_eq!(infer("void * work", 8, false), Some(K::Address(8)));
        assert_eq!(infer("void *work", 4, false), Some(K::Address(4)));
        assert_eq!(infer("bool ok", 1, false), Some(K::Bool));
        assert_eq!(infer("ino_t ino", 8, false), Some(K::Inode(8)));
        assert_eq!(infer("dev_t dev", 4, false), Some(K::Device(4)));
        assert_eq!(infer("pid_t pid", 4, true), Some(K::Pid));
        assert_eq!(infer("int common_pid", 4, true), Some(K::CommonPid));
        assert_eq!(
            infer("unsigned long args[6]", 48, false),
            Some(K::SyscallArgs(8))
        );
        assert_eq!(infer("short x", 2, true), Some(K::Signed(2)));
        assert_eq!(infer("u8 mac[6]", 6, false), None);
    }
}
