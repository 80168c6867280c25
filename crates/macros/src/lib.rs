//! The procedural macros of `ferretto`. Use them from there.
#![forbid(unsafe_code)]

mod derive;
mod function;
mod options;
#[cfg(test)]
mod tests;
mod trace;

use proc_macro::TokenStream;

/// Traces every call of a function: a slice from its beginning to its end, however it ends.
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
/// Works on functions and methods, generic ones too, `unsafe` and `extern` ones, and on `async fn`.
/// While nobody records, a call costs a load and a branch more.
///
/// # Options
///
/// - `category = …`: a literal, or the path of a `Category`. By default the name of the package.
/// - `name = …`: a literal, or an expression that gives a `&str`, which costs more. By default the
///   name of the function.
/// - `args`: all parameters are recorded but `self`. They need to implement `Argument`.
/// - `args(a, b)`: these are recorded. Any expression can be, with a name: `args(length =
///   text.len(), "any name" = x)`. It is evaluated at the beginning, and only while a recording
///   runs.
/// - `skip(a, b)`: all parameters are recorded but these.
/// - `polls`: for `async fn`, see below.
/// - `crate = …`: the path of the crate `ferretto`, if it is not `::ferretto`.
///
/// # Async functions
///
/// A call is a slice on a track of its own, from the first time it is polled to its end, or to when
/// its future is dropped. Calls of the same function that overlap are shown below each other.
///
/// With `polls`, there is instead a slice for each time it is polled, on the thread that does it,
/// with a flow from each to the next: the slices show where the time was spent.
///
/// Functions that return a future but are not `async` are traced until they return it.
#[proc_macro_attribute]
pub fn trace(options: TokenStream, function: TokenStream) -> TokenStream {
    trace::expand(options.into(), function.into()).into()
}

/// Makes values of a type arguments of events.
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
/// | tuple struct | array; with one field, what is inside |
/// | unit struct | its name |
/// | variant without fields | its name |
/// | variant with fields | dictionary with one member: the variant's name, and its fields as those of a struct |
///
/// On fields: `rename = "name"`, `skip`, `with = display` or `with = debug` for types that have no
/// `Argument` of their own. On variants: `rename = "name"`. On the type: `crate = path` of the
/// crate `ferretto`, if it is not `::ferretto`. Type parameters get the bounds the fields need.
#[proc_macro_derive(Argument, attributes(argument))]
pub fn derive_argument(item: TokenStream) -> TokenStream {
    let expanded = syn::parse(item).and_then(derive::expand);
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
