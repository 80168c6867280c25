//! The parts of a function that matter here. The rest stays as it is written, so that new syntax does no harm.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Generics, ReturnType, Token, Type, WhereClause, braced, parenthesized};

/// A function with a body.
pub(crate) struct Function {
    /// Everything before the body.
    pub(crate) head: TokenStream,
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// The word, if it can be called at compile time.
    pub(crate) constant: Option<Token![const]>,
    /// The names of the parameters but `self`, in their order; those that are patterns have none.
    pub(crate) parameters: Vec<Ident>,
    pub(crate) body: TokenStream,
    /// The braces around the body, for messages.
    pub(crate) braces: proc_macro2::Span,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let all: TokenStream = input.fork().parse()?;
        let mut constant = None;
        let mut is_async = false;
        Attribute::parse_outer(input)?;
        input.parse::<syn::Visibility>()?;
        while !input.peek(Token![fn]) {
            if input.peek(Token![const]) {
                constant = Some(input.parse()?);
                continue;
            }
            is_async |= input.peek(Token![async]);
            let word: TokenTree = input
                .parse()
                .map_err(|_| input.error("only functions can be traced"))?;
            let is_known = match &word {
                TokenTree::Ident(word) => ["async", "unsafe", "safe", "extern", "default"]
                    .contains(&word.to_string().as_str()),
                TokenTree::Literal(_) => true,
                _ => false,
            };
            if !is_known {
                return Err(syn::Error::new(word.span(), "only functions can be traced"));
            }
        }
        input.parse::<Token![fn]>()?;
        let name = input.parse()?;
        input.parse::<Generics>()?;
        let content;
        parenthesized!(content in input);
        let parameters = parameters(&content)?;
        input.parse::<ReturnType>()?;
        input.parse::<Option<WhereClause>>()?;
        if input.peek(Token![;]) {
            return Err(input.error("a function without a body cannot be traced"));
        }
        let content;
        let braces = braced!(content in input).span.join();
        Ok(Self {
            head: without_body(all),
            name,
            is_async,
            constant,
            parameters,
            body: content.parse()?,
            braces,
        })
    }
}

/// Everything before the last group in braces.
fn without_body(all: TokenStream) -> TokenStream {
    let mut tokens: Vec<_> = all.into_iter().collect();
    while let Some(token) = tokens.pop() {
        if matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
            break;
        }
    }
    tokens.into_iter().collect()
}

/// The names of the parameters.
fn parameters(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    let mut names = Vec::new();
    while !input.is_empty() {
        Attribute::parse_outer(input)?;
        let mut pattern = Vec::new();
        while !input.is_empty() && !input.peek(Token![,]) && !is_colon(input) {
            pattern.push(input.parse::<TokenTree>()?);
        }
        if is_colon(input) {
            input.parse::<Token![:]>()?;
            if input.peek(Token![...]) {
                input.parse::<Token![...]>()?;
            } else {
                input.parse::<Type>()?;
            }
            names.extend(name(&pattern));
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(names)
}

fn is_colon(input: ParseStream<'_>) -> bool {
    input.peek(Token![:]) && !input.peek(Token![::])
}

/// The name a pattern binds: `name`, `mut name`, `ref name`.
fn name(pattern: &[TokenTree]) -> Option<Ident> {
    let words: Option<Vec<&Ident>> = pattern
        .iter()
        .map(|token| match token {
            TokenTree::Ident(word) => Some(word),
            _ => None,
        })
        .collect();
    let name = *words?.last()?;
    (name != "self" && name != "_").then(|| name.clone())
}

impl Function {
    /// The function with another body.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let mut tokens = self.head.clone();
        let mut group = proc_macro2::Group::new(Delimiter::Brace, body.clone());
        group.set_span(self.braces);
        group.to_tokens(&mut tokens);
        tokens
    }
}
