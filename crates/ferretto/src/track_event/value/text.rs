//! Text.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::annotation::{Annotation, Argument};

macro_rules! text {
    ($value:ident => $get:expr; $($type:ty),+) => {
        $(impl Argument for $type {
            #[inline]
            fn write(&self, annotation: &mut Annotation<'_>) {
                let $value = self;
                annotation.text($get);
            }
        })+
    };
}

text!(value => value; str, String);
text!(value => value.encode_utf8(&mut [0; 4]); char);
text!(value => &value.to_string_lossy(); CStr, CString);

macro_rules! displayed {
    ($value:ident => $get:expr; $($type:ty),+) => {
        $(impl Argument for $type {
            fn write(&self, annotation: &mut Annotation<'_>) {
                let $value = self;
                annotation.display($get);
            }
        })+
    };
}

displayed!(value => value.display(); OsStr, OsString, Path, PathBuf);
displayed!(value => value; fmt::Arguments<'_>);
