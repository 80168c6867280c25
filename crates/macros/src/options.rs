//! The options of the attribute.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, discouraged::Speculative};
use syn::{Expr, LitStr, Path, Token, parenthesized};

/// The parameters that are recorded.
#[derive(Default)]
pub(crate) enum Parameters {
    #[default]
    None,
    AllBut(Vec<Ident>),
}

/// A named value, as the tracing macros accept it.
pub(crate) struct Value {
    pub(crate) name: TokenStream,
    pub(crate) value: TokenStream,
}

/// The options of `#[ferretto::trace]`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) category: Option<TokenStream>,
    pub(crate) name: Option<TokenStream>,
    pub(crate) parameters: Parameters,
    pub(crate) values: Vec<Value>,
    /// The keyword `polls`, if it is set.
    pub(crate) polls: Option<Ident>,
    pub(crate) library: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            if input.peek(LitStr) && options.category.is_none() {
                options.category = Some(input.parse::<LitStr>()?.to_token_stream());
            } else {
                let word = Ident::parse_any(input)?;
                if seen.contains(&word) {
                    return Err(syn::Error::new(
                        word.span(),
                        format!("the option `{word}` is repeated"),
                    ));
                }
                options.option(&word, input)?;
                seen.push(word);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    fn option(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match word.to_string().as_str() {
            "category" => {
                input.parse::<Token![=]>()?;
                self.category = Some(if input.peek(LitStr) {
                    input.parse::<LitStr>()?.to_token_stream()
                } else {
                    let path: Path = input.parse().map_err(|error| {
                        at(&error, "expected a literal, or the path of a `Category`")
                    })?;
                    path.to_token_stream()
                });
            }
            "name" => {
                input.parse::<Token![=]>()?;
                self.name = Some(expression(input)?);
            }
            "args" if input.peek(syn::token::Paren) => {
                let content;
                parenthesized!(content in input);
                self.values = values(&content)?;
            }
            "args" => {
                if matches!(self.parameters, Parameters::None) {
                    self.parameters = Parameters::AllBut(Vec::new());
                }
            }
            "skip" => {
                let content;
                parenthesized!(content in input);
                let names = content.parse_terminated(Ident::parse_any, Token![,])?;
                self.parameters = Parameters::AllBut(names.into_iter().collect());
            }
            "polls" => self.polls = Some(word.clone()),
            "crate" => {
                input.parse::<Token![=]>()?;
                self.library = Some(input.call(Path::parse_mod_style)?);
            }
            _ => {
                let known = "`category`, `name`, `args`, `skip`, `polls` and `crate`";
                let message = format!("unknown option `{word}`, expected one of {known}");
                return Err(syn::Error::new(word.span(), message));
            }
        }
        Ok(())
    }
}

fn at(error: &syn::Error, message: &str) -> syn::Error {
    syn::Error::new(error.span(), message)
}

/// Parses a list of `name`, `name = value` or `"name" = value`.
fn values(input: ParseStream<'_>) -> syn::Result<Vec<Value>> {
    let mut values = Vec::new();
    while !input.is_empty() {
        values.push(value(input)?);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(values)
}

fn value(input: ParseStream<'_>) -> syn::Result<Value> {
    if input.peek(LitStr) {
        let name = input.parse::<LitStr>()?.to_token_stream();
        input.parse::<Token![=]>()?;
        let value = expression(input)?;
        return Ok(Value { name, value });
    }
    let word = input
        .call(Ident::parse_any)
        .map_err(|error| at(&error, "expected a parameter, or `name = value`"))?;
    let value = if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        expression(input)?
    } else {
        quote!(#word)
    };
    let name = if word == "self" {
        quote!("self")
    } else {
        quote!(#word)
    };
    Ok(Value { name, value })
}

/// Parses an expression, up to the next comma.
fn expression(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let ahead = input.fork();
    if let Ok(expression) = ahead.parse::<Expr>()
        && (ahead.is_empty() || ahead.peek(Token![,]))
    {
        input.advance_to(&ahead);
        return Ok(expression.to_token_stream());
    }
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?.to_tokens(&mut tokens);
    }
    if tokens.is_empty() {
        return Err(syn::Error::new(input.span(), "expected an expression"));
    }
    Ok(tokens)
}
