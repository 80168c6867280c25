//! What a traced function becomes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::function::Function;
use crate::options::{Options, Parameters, Value};

/// The function with what traces it; with a message in place of what does not work.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = syn::parse2::<Function>(function.clone())
        .and_then(|function| Plan::new(syn::parse2(options)?, &function)?.expand());
    expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        // The function stays, so that there is no second message wherever it is called.
        quote!(#error #function)
    })
}

/// A function, and what the macros are to be given for it.
struct Plan<'a> {
    function: &'a Function,
    library: TokenStream,
    category: TokenStream,
    name: TokenStream,
    values: Vec<Value>,
}

impl<'a> Plan<'a> {
    fn new(options: Options, function: &'a Function) -> syn::Result<Self> {
        if let Some(word) = &function.constant {
            let message = "a `const fn` cannot be traced: it may run while the program is compiled";
            return Err(Error::new(word.span, message));
        }
        if function.is_async {
            return Err(Error::new(
                function.name.span(),
                "an `async fn` cannot be traced yet",
            ));
        }
        if let Some(word) = options.polls.as_ref().filter(|_| !function.is_async) {
            return Err(Error::new(word.span(), "`polls` is for `async fn`"));
        }
        let mut values = parameters(&options.parameters, function)?;
        values.extend(options.values);
        let name = function.name.to_string();
        let name = name.trim_start_matches("r#");
        Ok(Self {
            function,
            library: match options.library {
                Some(path) => quote!(#path),
                None => quote!(::ferretto),
            },
            category: options.category.unwrap_or_else(default_category),
            name: options.name.unwrap_or_else(|| quote!(#name)),
            values,
        })
    }

    fn expand(&self) -> syn::Result<TokenStream> {
        Ok(self.function.with_body(&self.on_the_thread()))
    }

    /// What follows the name in a call of a macro.
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

/// The name of the package that is being compiled.
fn default_category() -> TokenStream {
    let name = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "function".to_owned());
    quote!(#name)
}

/// The parameters that are to be recorded.
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
