//! Events of probed functions: their calls and returns, as the kernel describes them.

use ferretto_wire::Fields;

/// The fields of `DescriptorProto`, and of `FieldDescriptorProto`.
mod descriptor {
    pub(super) const NAME: u32 = 1;
    pub(super) const FIELD: u32 = 2;
}
mod described {
    pub(super) const NAME: u32 = 1;
}

/// The field of the kernel's events at a place in the code.
const CALL_FIELD: &[u8] = b"__probe_ip";
/// The field of the kernel's events at the return from a function.
const RETURN_FIELD: &[u8] = b"__probe_ret_ip";
/// The suffix of the names of returns, by this recorder and by perf.
const RETURN: &str = "__return";

/// An event of a probed function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeEvent {
    /// The name of the event at the call of the function.
    pub function: String,
    /// True if this event is the return from it.
    pub is_return: bool,
}

impl ProbeEvent {
    /// Reads the `DescriptorProto` of an event. Returns `None` if it is not of a probe.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let name = Fields::find(descriptor::NAME, bytes)?;
        let name = std::str::from_utf8(name.as_bytes()?).ok()?;
        let fields = Fields::new(bytes).map_while(Result::ok);
        let fields = fields.filter(|field| field.number == descriptor::FIELD);
        let is_return = fields.into_iter().find_map(|field| {
            let name = Fields::find(described::NAME, field.as_bytes()?)?;
            match name.as_bytes()? {
                CALL_FIELD => Some(false),
                RETURN_FIELD => Some(true),
                _ => None,
            }
        })?;
        let function = if is_return {
            function_of_return(name)?
        } else {
            name.to_owned()
        };
        Some(Self {
            function,
            is_return,
        })
    }
}

/// Returns the name of the event at the call: `f` for `f__return`, and `f_2` for `f__return_2`.
fn function_of_return(name: &str) -> Option<String> {
    if let Some(function) = name.strip_suffix(RETURN) {
        return Some(function.to_owned());
    }
    let (name, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let function = name.strip_suffix(RETURN).filter(|_| is_number)?;
    Some(format!("{function}_{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_returns_are_told_apart_by_their_fields() {
        let read = |name: &str, field: &str| {
            ProbeEvent::read(&ferretto_wire::encode(|out| {
                out.string(descriptor::NAME, name);
                out.nested(descriptor::FIELD, |out| {
                    out.string(described::NAME, "common")
                });
                out.nested(descriptor::FIELD, |out| out.string(described::NAME, field));
            }))
        };
        let event = |function: &str, is_return| {
            let function = function.to_owned();
            Some(ProbeEvent {
                function,
                is_return,
            })
        };
        assert_eq!(read("f", "__probe_ip"), event("f", false));
        assert_eq!(read("f__return", "__probe_ip"), event("f__return", false));
        assert_eq!(read("f__return", "__probe_ret_ip"), event("f", true));
        assert_eq!(read("f__return_2", "__probe_ret_ip"), event("f_2", true));
        assert_eq!(read("back", "__probe_ret_ip"), None);
        assert_eq!(read("f", "value"), None);
        assert_eq!(ProbeEvent::read(b"\xff"), None);
    }
}
