//! The procedural macros of `ferretto`. Use them through that crate.
#![forbid(unsafe_code)]

mod derive;
mod function;
mod options;
#[cfg(test)]
mod tests;
mod trace;

use proc_macro::TokenStream;

/// Records a slice for each call of a function, from its start to its end, including panics.
///
/// ```ignore
/// #[ferretto::trace]
/// fn load(path: &Path) -> io::Result<Scene> {
///     Scene::parse(&fs::read(path)?)
/// }
///
/// #[ferretto::trace(category = RENDERING, name = "draw a frame", args(frame, size = scene.len()))]
/// fn draw(&mut self, frame: u64, scene: &Scene) {
///     self.pipeline.submit(scene);
/// }
/// ```
///
/// Supports functions and methods, including generic, `unsafe`, `extern` and `async` ones. Without
/// a recording, a call costs an additional load and branch.
///
/// # Options
///
/// - `category = …`: a literal, or the path of a `Category`. By default the name of the package.
/// - `name = …`: a literal, or an expression of type `&str`, which costs more. By default the name
///   of the function.
/// - `args`: records all parameters except `self`. They must implement `Argument`.
/// - `args(a, b)`: records these. An expression needs a name: `args(length = text.len(), "any name"
///   = x)`. It is evaluated at the start of the call, and only while a recording runs.
/// - `skip(a, b)`: records all parameters except these.
/// - `polls`: for `async fn`, see below.
/// - `crate = …`: the path of the crate `ferretto`, if it is not `::ferretto`.
///
/// # Async functions
///
/// A call is a slice on its own track, from the first poll to its end, or until its future is
/// dropped. Overlapping calls of the same function are shown below each other.
///
/// With `polls`, there is instead a slice for each poll, on the polling thread, with a flow from
/// each slice to the next: the slices show where the time was spent.
///
/// For functions that return a future but are not `async`, the slice ends when they return it.
#[proc_macro_attribute]
pub fn trace(options: TokenStream, function: TokenStream) -> TokenStream {
    trace::expand(options.into(), function.into()).into()
}

/// Implements `Argument` for a type, so that its values can be arguments of events.
///
/// ```ignore
/// #[derive(ferretto::Argument)]
/// struct Request {
///     id: u64,
///     #[argument(rename = "path", with = display)]
///     uri: Uri,
///     #[argument(skip)]
///     body: Vec<u8>,
/// }
/// ```
///
/// | type | in the recording |
/// |---|---|
/// | struct with named fields | dictionary |
/// | tuple struct | array; with one field, its value |
/// | unit struct | its name |
/// | variant without fields | its name |
/// | variant with fields | dictionary with one member: the variant's name, and its fields as those of a struct |
///
/// On fields: `rename = "name"`, `skip`, `with = display` or `with = debug` for types that do not
/// implement `Argument`. On variants: `rename = "name"`. On the type: `crate = path` of the crate
/// `ferretto`, if it is not `::ferretto`. Type parameters get the bounds the fields need.
#[proc_macro_derive(Argument, attributes(argument))]
pub fn derive_argument(item: TokenStream) -> TokenStream {
    let expanded = syn::parse(item).and_then(derive::expand);
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
