//! The expansion of `#[ferretto::trace]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Error, LitStr};

use crate::function::{Function, mentions};
use crate::options::{Options, Parameters, Value};

/// Returns the traced function, or an error message and the unchanged function.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = syn::parse2::<Function>(function.clone())
        .and_then(|function| Plan::new(syn::parse2(options)?, &function)?.expand());
    expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        // The function is kept, to avoid further errors where it is called.
        quote!(#error #function)
    })
}

/// A function, and the arguments of the macros for it.
struct Plan<'a> {
    function: &'a Function,
    library: TokenStream,
    category: TokenStream,
    name: TokenStream,
    values: Vec<Value>,
    /// The name of the function.
    own_name: String,
    by_polls: bool,
}

impl<'a> Plan<'a> {
    fn new(options: Options, function: &'a Function) -> syn::Result<Self> {
        if let Some(word) = &function.constant {
            let message = "a `const fn` cannot be traced, because it may run at compile time";
            return Err(Error::new(word.span, message));
        }
        if let Some(word) = options.polls.as_ref().filter(|_| !function.is_async) {
            return Err(Error::new(word.span(), "`polls` is for `async fn`"));
        }
        let mut values = parameters(&options.parameters, function)?;
        values.extend(options.values);
        let own_name = function.name.unraw().to_string();
        if let (Some(name), Some(_)) = (&options.name, &options.polls)
            && syn::parse2::<LitStr>(name.clone()).is_err()
        {
            let message =
                "with `polls` the name must be a literal, because it is written repeatedly";
            return Err(Error::new_spanned(name, message));
        }
        Ok(Self {
            function,
            library: match options.library {
                Some(path) => quote!(#path),
                None => quote!(::ferretto),
            },
            category: options.category.unwrap_or_else(default_category),
            name: options.name.unwrap_or_else(|| quote!(#own_name)),
            values,
            own_name,
            by_polls: options.polls.is_some(),
        })
    }

    fn expand(&self) -> syn::Result<TokenStream> {
        let body = match (self.function.is_async, self.by_polls) {
            (false, _) => self.on_the_thread(),
            (true, false) => self.on_a_track(),
            (true, true) => self.by_polls(),
        };
        Ok(self.function.with_body(&body))
    }

    /// Returns the arguments after the name in a macro call.
    fn arguments(&self) -> TokenStream {
        let names = self.values.iter().map(|value| &value.name);
        let values = self.values.iter().map(|value| &value.value);
        quote!(#(, #names = #values)*)
    }

    fn on_the_thread(&self) -> TokenStream {
        let Self {
            library,
            category,
            name,
            ..
        } = self;
        let (arguments, body) = (self.arguments(), &self.function.body);
        quote! {
            let __ferretto_slice = #library::slice!(#category, #name #arguments);
            #body
        }
    }
}

impl Plan<'_> {
    /// Returns the body of an async function with a slice on its own track.
    fn on_a_track(&self) -> TokenStream {
        let Self {
            library,
            category,
            name,
            own_name,
            ..
        } = self;
        let (arguments, body) = (self.arguments(), &self.function.body);
        quote! {
            // Its address is unique during the call.
            let __ferretto_call = 0u8;
            let __ferretto_slice = #library::slice!(
                #category,
                #name
                #arguments,
                track: #library::Track::named(
                    #own_name,
                    ::core::ptr::from_ref::<u8>(&__ferretto_call).addr() as u64,
                )
            );
            #body
        }
    }

    /// Returns the body of an async function with a slice for each poll.
    fn by_polls(&self) -> TokenStream {
        let Self {
            library,
            category,
            name,
            ..
        } = self;
        let (arguments, body) = (self.arguments(), &self.function.body);
        let output = self.output();
        quote! {
            let __ferretto_flow = #library::Flow::process(#library::track_event::unique());
            let mut __ferretto_first = ::core::option::Option::Some(
                #library::slice!(#category, #name #arguments, flow: __ferretto_flow)
            );
            let mut __ferretto_future = ::core::pin::pin!(async move {
                #output
                #body
            });
            ::core::future::poll_fn(move |__ferretto_context| {
                let __ferretto_slice = match __ferretto_first.take() {
                    ::core::option::Option::Some(slice) => slice,
                    ::core::option::Option::None => {
                        #library::slice!(#category, #name, flow: __ferretto_flow)
                    }
                };
                ::core::future::Future::poll(__ferretto_future.as_mut(), __ferretto_context)
            })
            .await
        }
    }

    /// Returns a statement that is never executed, which tells the compiler the return type of an
    /// async block.
    fn output(&self) -> TokenStream {
        let output = self.function.output.clone().unwrap_or_else(|| quote!(()));
        // `impl` types cannot be written here.
        if mentions(output.clone(), "impl") {
            return TokenStream::new();
        }
        quote! {
            #[allow(unreachable_code, unused_variables, clippy::all)]
            if false {
                let __ferretto_output: #output = loop {};
                return __ferretto_output;
            }
        }
    }
}

/// Returns the name of the package that is being compiled.
fn default_category() -> TokenStream {
    let name = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "function".to_owned());
    quote!(#name)
}

/// Returns the parameters to record.
fn parameters(wanted: &Parameters, function: &Function) -> syn::Result<Vec<Value>> {
    let Parameters::AllBut(skipped) = wanted else {
        return Ok(Vec::new());
    };
    for name in skipped {
        if !function.parameters.contains(name) {
            let message = format!("there is no parameter `{name}`");
            return Err(Error::new(name.span(), message));
        }
    }
    let wanted = function
        .parameters
        .iter()
        .filter(|name| !skipped.contains(name));
    Ok(wanted
        .map(|name| Value {
            name: quote!(#name),
            value: quote!(#name),
        })
        .collect())
}
