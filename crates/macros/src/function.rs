//! The parts of a function that the macro needs. The rest is kept as it is, so unknown syntax is
//! supported.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::token::Brace;
use syn::{Attribute, Generics, Token, Type, WhereClause, braced, parenthesized};

/// A function with a body.
pub(crate) struct Function {
    /// Everything before the body.
    pub(crate) head: TokenStream,
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// The keyword of a `const fn`.
    pub(crate) constant: Option<Token![const]>,
    /// The names of the parameters except `self`, in order, without patterns.
    pub(crate) parameters: Vec<Ident>,
    /// The return type, if there is one.
    pub(crate) output: Option<TokenStream>,
    /// The inner attributes of the body, which must stay at its start.
    inner: Vec<Attribute>,
    pub(crate) body: TokenStream,
    /// The braces of the body, for messages.
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
        let output = output(input)?;
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
            output,
            inner: Attribute::parse_inner(&content)?,
            body: content.parse()?,
            braces,
        })
    }
}

/// Returns the tokens before the last group in braces.
fn without_body(all: TokenStream) -> TokenStream {
    let mut tokens: Vec<_> = all.into_iter().collect();
    while let Some(token) = tokens.pop() {
        if matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace) {
            break;
        }
    }
    tokens.into_iter().collect()
}

/// Returns the names of the parameters.
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

/// Returns the type after the arrow, which may have unknown syntax.
fn output(input: ParseStream<'_>) -> syn::Result<Option<TokenStream>> {
    if !input.peek(Token![->]) {
        return Ok(None);
    }
    input.parse::<Token![->]>()?;
    let mut tokens = TokenStream::new();
    let mut depth = 0usize;
    while depth > 0 || !(input.is_empty() || input.peek(Token![where]) || input.peek(Brace)) {
        if input.peek(Token![->]) {
            input.parse::<Token![->]>()?.to_tokens(&mut tokens);
            continue;
        }
        let token: TokenTree = input.parse()?;
        if let TokenTree::Punct(sign) = &token {
            match sign.as_char() {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        token.to_tokens(&mut tokens);
    }
    Ok(Some(tokens))
}

fn is_colon(input: ParseStream<'_>) -> bool {
    input.peek(Token![:]) && !input.peek(Token![::])
}

/// Returns the name that a pattern binds: `name`, `mut name`, `ref name`.
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
    /// Returns the function with another body.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let mut tokens = self.head.clone();
        let inner = &self.inner;
        let mut group = Group::new(Delimiter::Brace, quote!(#(#inner)* #body));
        group.set_span(self.braces);
        group.to_tokens(&mut tokens);
        tokens
    }
}

/// Returns true if the tokens contain a word.
pub(crate) fn mentions(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(found) => found == word,
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => false,
    })
}
