//! Numbers and booleans.

use std::cmp::Reverse;
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
    NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize, Wrapping,
};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16,
    AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use super::annotation::{Annotation, Argument, Number};

macro_rules! scalars {
    ($method:ident, $as:ty: $($type:ty),+) => {
        $(impl Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.$method(*self as $as);
            }

            #[inline]
            fn number(&self) -> Number {
                Number::$method(*self as $as)
            }
        })+
    };
}

scalars!(bool, bool: bool);
scalars!(int, i64: i8, i16, i32, i64, isize);
scalars!(uint, u64: u16, u32, u64, usize);

macro_rules! floats {
    ($($type:ty),+) => {
        $(impl Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.double(f64::from(*self));
            }
        })+
    };
}

floats!(f32, f64);

impl Argument for u8 {
    #[inline]
    fn write(&self, annotation: &mut Annotation<'_>) {
        annotation.uint(u64::from(*self));
    }

    #[inline]
    fn number(&self) -> Number {
        Number::uint(u64::from(*self))
    }

    fn write_slice(items: &[Self], annotation: &mut Annotation<'_>) {
        annotation.bytes(items);
    }
}

impl Argument for i128 {
    fn write(&self, annotation: &mut Annotation<'_>) {
        match i64::try_from(*self) {
            Ok(value) => annotation.int(value),
            Err(_) => annotation.display(self),
        }
    }
}

impl Argument for u128 {
    fn write(&self, annotation: &mut Annotation<'_>) {
        match u64::try_from(*self) {
            Ok(value) => annotation.uint(value),
            Err(_) => annotation.display(self),
        }
    }
}

/// Implements `Argument` for types that an expression converts to another argument.
macro_rules! through {
    ($value:ident => $get:expr; $($type:ty),+) => {
        $(impl Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                let $value = self;
                $get.write(annotation);
            }
        })+
    };
}

through!(value => value.get(); NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize);
through!(value => value.get(); NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize);
through!(value => value.load(Ordering::Relaxed); AtomicBool);
through!(value => value.load(Ordering::Relaxed); AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize);
through!(value => value.load(Ordering::Relaxed); AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize);

impl<T: Argument> Argument for Wrapping<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        self.0.write(annotation);
    }
}

impl<T: Argument> Argument for Reverse<T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        self.0.write(annotation);
    }
}
