//! Track events with interned names only, which are decoded ahead.

use ferretto_proto::fields::{debug_annotation, interned_data, track_event as field};
use ferretto_wire::{Field, Fields};

use super::super::sequence::Interned;
use super::event::Event;
use crate::schema::ArgValue;
use crate::strings::StringId;

/// An annotation: its name and value.
pub(crate) type Annotation = (StringId, ArgValue);

/// A track event that was decoded ahead. Its annotations are a range of a list of several events.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resolved {
    /// False if the event must be decoded when it is applied.
    pub(crate) is_there: bool,
    has_flows: bool,
    kind: u32,
    /// The size of the encoded event in bytes.
    size: u32,
    track: Option<u64>,
    name: StringId,
    category: StringId,
    first: u32,
    count: u32,
}

/// The names and annotations of an event that was decoded ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) annotations: &'a [Annotation],
}

impl Resolved {
    /// Decodes an event, unless it depends on the time or on other events.
    pub(crate) fn decode(bytes: &[u8], interned: &Interned, all: &mut Vec<Annotation>) -> Self {
        let first = all.len();
        Self::try_decode(bytes, interned, all).unwrap_or_else(|| {
            all.truncate(first);
            Self::default()
        })
    }

    #[inline]
    fn try_decode(bytes: &[u8], interned: &Interned, all: &mut Vec<Annotation>) -> Option<Self> {
        let event = Event::read(bytes);
        let has_more = event.legacy.is_some()
            || event.has_args
            || event.has_callstack
            || event.has_old_times
            || event.has_extra;
        if has_more || event.category.is_some() || event.categories > 1 {
            return None;
        }
        let name = match (event.name_iid, event.name) {
            (0, None) => StringId::NULL,
            (0, Some(_)) => return None,
            (iid, _) => interned.text(interned_data::EVENT_NAMES, iid)?,
        };
        let category = match event.categories {
            0 => StringId::NULL,
            _ => interned.text(interned_data::EVENT_CATEGORIES, event.category_iid)?,
        };
        let first = all.len();
        if event.has_annotations {
            let mut is_simple = true;
            Fields::walk(bytes, |part| {
                if part.number == field::DEBUG_ANNOTATIONS && is_simple {
                    let annotation = annotation(part.as_bytes().unwrap_or_default(), interned);
                    is_simple = annotation.is_some();
                    all.extend(annotation);
                }
            });
            if !is_simple {
                return None;
            }
        }
        Some(Self {
            is_there: true,
            has_flows: event.has_flows,
            kind: event.kind,
            size: event.size as u32,
            track: event.track,
            name,
            category,
            first: first as u32,
            count: (all.len() - first) as u32,
        })
    }

    /// Returns true if more of the encoded event is needed to apply it.
    #[inline]
    pub(crate) fn needs_bytes(&self) -> bool {
        self.has_flows
    }

    /// Returns the event, and its names and annotations in `all`.
    #[inline]
    pub(super) fn event<'a>(
        &self,
        bytes: &'a [u8],
        all: &'a [Annotation],
    ) -> (Event<'a>, Names<'a>) {
        let event = Event {
            bytes,
            size: self.size as usize,
            kind: self.kind,
            track: self.track,
            has_flows: self.has_flows,
            has_annotations: self.count > 0,
            ..Event::default()
        };
        let first = self.first as usize;
        let annotations = all.get(first..first + self.count as usize);
        let names = Names {
            name: self.name,
            category: self.category,
            annotations: annotations.unwrap_or_default(),
        };
        (event, names)
    }
}

/// Reads a `DebugAnnotation` with one value and interned texts.
#[inline]
fn annotation(bytes: &[u8], interned: &Interned) -> Option<Annotation> {
    use debug_annotation as of;
    let (mut name, mut value, mut is_simple) = (None, None::<Field<'_>>, true);
    Fields::walk(bytes, |part| match part.number {
        of::NAME_IID => {
            let iid = part.as_u64().unwrap_or(0);
            name = interned.text(interned_data::DEBUG_ANNOTATION_NAMES, iid);
            is_simple &= name.is_some();
        }
        of::BOOL_VALUE
        | of::UINT_VALUE
        | of::INT_VALUE
        | of::DOUBLE_VALUE
        | of::STRING_VALUE_IID
        | of::POINTER_VALUE => value = Some(part),
        _ => is_simple = false,
    });
    let (Some(name), Some(value), true) = (name, value, is_simple) else {
        return None;
    };
    let number = value.as_u64().unwrap_or(0);
    let value = match value.number {
        of::BOOL_VALUE => ArgValue::Bool(number != 0),
        of::UINT_VALUE => ArgValue::Uint(number),
        of::INT_VALUE => ArgValue::Int(number as i64),
        of::DOUBLE_VALUE => ArgValue::Real(value.as_f64().unwrap_or(0.0)),
        of::POINTER_VALUE => ArgValue::Pointer(number),
        _ => ArgValue::Text(interned.text(interned_data::DEBUG_ANNOTATION_STRING_VALUES, number)?),
    };
    Some((name, value))
}
