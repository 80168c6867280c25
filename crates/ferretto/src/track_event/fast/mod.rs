//! Quick ways to write what most events consist of.

mod head;

pub(super) use head::{
    EVENT, EVENT_LENGTH, begin_annotation, begin_event, put_varint, short_timestamp,
};
