//! Names of types: `java.lang.Class<a[]>` is the object for the class of arrays of `a`.

/// The parts of the name of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeName<'a> {
    /// The name of the class, or of the elements of an array.
    pub(super) name: &'a str,
    /// Set for the object that represents the class.
    pub(super) is_static_class: bool,
    /// The number of dimensions of an array.
    pub(super) arrays: usize,
}

impl<'a> TypeName<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let inner = text.strip_prefix("java.lang.Class<");
        let inner = inner.and_then(|text| text.strip_suffix('>'));
        let (mut name, mut arrays) = (inner.unwrap_or(text), 0);
        while let Some(element) = name.strip_suffix("[]") {
            name = element;
            arrays += 1;
        }
        Self {
            name,
            is_static_class: inner.is_some(),
            arrays,
        }
    }

    /// Returns the text of a type that has this name instead.
    pub(super) fn with(self, name: &str) -> String {
        let text = name.to_owned() + &"[]".repeat(self.arrays);
        if self.is_static_class {
            format!("java.lang.Class<{text}>")
        } else {
            text
        }
    }
}
