//! Containers: options, results, sequences and maps.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::fmt;

use super::annotation::{Annotation, Argument};

impl<T: Argument> Argument for Option<T> {
    #[inline]
    fn write(&self, annotation: &mut Annotation<'_>) {
        if let Some(value) = self {
            value.write(annotation);
        }
    }
}

impl<T: Argument, E: Argument> Argument for Result<T, E> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.dict(|dict| match self {
            Ok(value) => {
                dict.field("ok", value);
            }
            Err(error) => {
                dict.field("err", error);
            }
        });
    }
}

impl<T: Argument> Argument for [T] {
    fn write(&self, annotation: &mut Annotation<'_>) {
        T::write_slice(self, annotation);
    }
}

impl<T: Argument, const N: usize> Argument for [T; N] {
    fn write(&self, annotation: &mut Annotation<'_>) {
        T::write_slice(self, annotation);
    }
}

impl<T: Argument> Argument for Vec<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        T::write_slice(self, annotation);
    }
}

macro_rules! sequences {
    ($($type:ty $(, $parameter:ident)?;)+) => {
        $(impl<T: Argument $(, $parameter)?> Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.array(|array| {
                    array.extend(self);
                });
            }
        })+
    };
}

sequences!(VecDeque<T>; LinkedList<T>; BinaryHeap<T>; BTreeSet<T>; HashSet<T, S>, S;);

macro_rules! maps {
    ($($type:ty $(, $parameter:ident)?;)+) => {
        $(impl<K: fmt::Display, V: Argument $(, $parameter)?> Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.dict(|dict| {
                    for (key, value) in self {
                        dict.displayed(key, value);
                    }
                });
            }
        })+
    };
}

maps!(BTreeMap<K, V>; HashMap<K, V, S>, S;);

macro_rules! tuples {
    ($([$($parameter:ident $index:tt)+])+) => {
        $(impl<$($parameter: Argument),+> Argument for ($($parameter,)+) {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.array(|array| {
                    $(array.item(&self.$index);)+
                });
            }
        })+
    };
}

tuples!(
    [A 0]
    [A 0 B 1]
    [A 0 B 1 C 2]
    [A 0 B 1 C 2 D 3]
    [A 0 B 1 C 2 D 3 E 4]
    [A 0 B 1 C 2 D 3 E 4 F 5]
    [A 0 B 1 C 2 D 3 E 4 F 5 G 6]
    [A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7]
);

impl Argument for () {
    fn write(&self, _annotation: &mut Annotation<'_>) {}
}
