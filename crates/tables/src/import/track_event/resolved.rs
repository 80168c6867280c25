//! Track events with interned names only, which are decoded ahead.

use ferretto_format::track_event::{
    Annotation as Encoded, AnnotationValue, Scalar, Text, TrackEvent,
};
use ferretto_proto::fields::{interned_data, track_event as field};
use ferretto_wire::Fields;

use super::super::sequence::Interned;
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
    event_type: i32,
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
        let event = TrackEvent::read(bytes);
        let has_more = event.legacy.is_some()
            || event.has_other_fields
            || event.has_callstack
            || event.has_relative_times
            || event.has_extra_counters;
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
            event_type: event.event_type,
            size: bytes.len() as u32,
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

    /// Returns the size of the encoded event in bytes.
    #[inline]
    pub(super) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns the event, and its names and annotations in `all`.
    #[inline]
    pub(super) fn event<'a>(
        &self,
        bytes: &'a [u8],
        all: &'a [Annotation],
    ) -> (TrackEvent<'a>, Names<'a>) {
        let event = TrackEvent {
            bytes,
            event_type: self.event_type,
            track: self.track,
            has_flows: self.has_flows,
            has_annotations: self.count > 0,
            ..TrackEvent::default()
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

/// Reads a `DebugAnnotation` with a value without parts, and interned texts.
#[inline]
fn annotation(bytes: &[u8], interned: &Interned) -> Option<Annotation> {
    let annotation = Encoded::read(bytes);
    let (Some(Text::Interned(name)), AnnotationValue::Scalar(value)) =
        (annotation.name, annotation.value)
    else {
        return None;
    };
    let name = interned.text(interned_data::DEBUG_ANNOTATION_NAMES, name)?;
    let value = match value {
        Scalar::Bool(value) => ArgValue::Bool(value),
        Scalar::Uint(value) => ArgValue::Uint(value),
        Scalar::Int(value) => ArgValue::Int(value),
        Scalar::Double(value) => ArgValue::Real(value),
        Scalar::Pointer(value) => ArgValue::Pointer(value),
        Scalar::Text(Text::Interned(iid)) => {
            let table = interned_data::DEBUG_ANNOTATION_STRING_VALUES;
            ArgValue::Text(interned.text(table, iid)?)
        }
        Scalar::Text(Text::Literal(_)) => return None,
    };
    Some((name, value))
}
