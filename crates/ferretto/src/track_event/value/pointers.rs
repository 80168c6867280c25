//! Pointers, and values behind references.

use std::borrow::Cow;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use super::annotation::{Annotation, Argument, Number};

macro_rules! inside {
    ($($type:ty),+) => {
        $(impl<T: Argument + ?Sized> Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                (**self).write(annotation);
            }

            #[inline]
            fn number(&self) -> Number {
                (**self).number()
            }
        })+
    };
}

inside!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: Argument + ToOwned + ?Sized> Argument for Cow<'_, T> {
    fn write(&self, annotation: &mut Annotation<'_>) {
        (**self).write(annotation);
    }
}

macro_rules! addresses {
    ($value:ident => $get:expr; $($type:ty),+) => {
        $(impl<T: ?Sized> Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                let $value = *self;
                annotation.pointer($get.addr() as u64);
            }
        })+
    };
}

addresses!(value => value.cast::<()>(); *const T, *mut T);
addresses!(value => value.cast::<()>().as_ptr(); NonNull<T>);

macro_rules! functions {
    ($([$($argument:ident)*])+) => {
        $(
            functions!(@ fn($($argument),*) -> R; R $($argument)*);
            functions!(@ unsafe fn($($argument),*) -> R; R $($argument)*);
            functions!(@ extern "C" fn($($argument),*) -> R; R $($argument)*);
            functions!(@ unsafe extern "C" fn($($argument),*) -> R; R $($argument)*);
        )+
    };
    (@ $type:ty; $($parameter:ident)*) => {
        impl<$($parameter),*> Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                annotation.pointer((*self as *const ()).addr() as u64);
            }
        }
    };
}

functions!([] [A] [A B] [A B C] [A B C D] [A B C D E] [A B C D E F]);
