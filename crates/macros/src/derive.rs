//! The expansion of `#[derive(Argument)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{
    Attribute, Data, DeriveInput, Error, Fields, Generics, LitStr, Path, Token, Type, parse_quote,
};

use crate::function::mentions;

/// The trait with which the value of a field is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Argument,
    Display,
    Debug,
}

/// The settings in `#[argument(…)]`.
#[derive(Default)]
struct Settings {
    rename: Option<LitStr>,
    skip: Option<Span>,
    with: Option<(With, Span)>,
    library: Option<(Path, Span)>,
}

impl Settings {
    fn new(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut settings = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("argument")) {
            attribute.parse_nested_meta(|meta| {
                let span = meta
                    .path
                    .get_ident()
                    .map_or_else(Span::call_site, Ident::span);
                if meta.path.is_ident("rename") {
                    settings.rename = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("skip") {
                    settings.skip = Some(span);
                } else if meta.path.is_ident("with") {
                    let word: Ident = meta.value()?.parse()?;
                    let with = match word.to_string().as_str() {
                        "display" => With::Display,
                        "debug" => With::Debug,
                        _ => return Err(Error::new(word.span(), "expected `display` or `debug`")),
                    };
                    settings.with = Some((with, span));
                } else if meta.path.is_ident("crate") {
                    let path = meta.value()?.call(Path::parse_mod_style)?;
                    settings.library = Some((path, span));
                } else {
                    return Err(meta.error("expected `rename`, `skip`, `with` or `crate`"));
                }
                Ok(())
            })?;
        }
        Ok(settings)
    }

    /// Reports attributes that are not supported here.
    fn allow(&self, rename: bool, field: bool, library: bool, target: &str) -> syn::Result<()> {
        let refused = [
            (rename, self.rename.as_ref().map(LitStr::span), "rename"),
            (field, self.skip, "skip"),
            (field, self.with.map(|(_, span)| span), "with"),
            (
                library,
                self.library.as_ref().map(|(_, span)| *span),
                "crate",
            ),
        ];
        for (is_allowed, span, word) in refused {
            if let Some(span) = span.filter(|_| !is_allowed) {
                return Err(Error::new(
                    span,
                    format!("`{word}` is not supported on {target}"),
                ));
            }
        }
        Ok(())
    }
}

/// A recorded field.
struct Field<'a> {
    /// The name in the recording, if it has one.
    key: Option<String>,
    /// The variable with a reference to it.
    variable: Ident,
    ty: &'a Type,
    with: With,
}

/// The fields of a struct or variant.
struct Shape<'a> {
    fields: Vec<Field<'a>>,
    pattern: TokenStream,
    is_single: bool,
}

impl<'a> Shape<'a> {
    fn new(fields: &'a Fields) -> syn::Result<Self> {
        let mut written = Vec::new();
        let mut bindings = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let settings = Settings::new(&field.attrs)?;
            settings.allow(field.ident.is_some(), true, false, "this field")?;
            if settings.skip.is_some() {
                continue;
            }
            let variable = format_ident!("__field_{index}");
            let member = match &field.ident {
                Some(name) => name.to_token_stream(),
                None => proc_macro2::Literal::usize_unsuffixed(index).to_token_stream(),
            };
            bindings.push(quote!(#member: #variable));
            written.push(Field {
                key: field.ident.as_ref().map(|name| match settings.rename {
                    Some(name) => name.value(),
                    None => name.unraw().to_string(),
                }),
                variable,
                ty: &field.ty,
                with: settings.with.map_or(With::Argument, |(with, _)| with),
            });
        }
        Ok(Self {
            is_single: matches!(fields, Fields::Unnamed(_))
                && fields.len() == 1
                && written.len() == 1,
            fields: written,
            pattern: quote!({ #(#bindings,)* .. }),
        })
    }

    /// Returns statements that write the fields to `annotation`.
    fn write(&self, library: &TokenStream, is_named: bool) -> TokenStream {
        let values = self.fields.iter().map(|field| field.value(library));
        if self.is_single {
            return quote!(#(#library::Argument::write(#values, annotation);)*);
        }
        if is_named {
            let keys = self.fields.iter().map(|field| &field.key);
            quote!(annotation.dict(|dict| { #(dict.field(#keys, #values);)* });)
        } else {
            quote!(annotation.array(|array| { #(array.item(#values);)* });)
        }
    }
}

impl Field<'_> {
    fn value(&self, library: &TokenStream) -> TokenStream {
        let variable = &self.variable;
        match self.with {
            With::Argument => quote!(#variable),
            With::Display => quote!(&#library::display(#variable)),
            With::Debug => quote!(&#library::debug(#variable)),
        }
    }
}

pub(crate) fn expand(input: DeriveInput) -> syn::Result<TokenStream> {
    let DeriveInput {
        attrs,
        ident,
        mut generics,
        data,
        ..
    } = input;
    let settings = Settings::new(&attrs)?;
    settings.allow(true, false, true, "a type")?;
    let library = match &settings.library {
        Some((path, _)) => quote!(#path),
        None => quote!(::ferretto),
    };
    let write = match &data {
        Data::Struct(data) => {
            let shape = Shape::new(&data.fields)?;
            bound(&mut generics, &shape, &library);
            let pattern = &shape.pattern;
            let name = name(&ident, &settings);
            let write = match &data.fields {
                Fields::Unit => quote!(annotation.text(#name);),
                fields => shape.write(&library, matches!(fields, Fields::Named(_))),
            };
            quote!(let Self #pattern = self; #write)
        }
        Data::Enum(data) => {
            settings.allow(false, false, true, "an enum")?;
            let mut arms = Vec::new();
            for variant in &data.variants {
                let settings = Settings::new(&variant.attrs)?;
                settings.allow(true, false, false, "a variant")?;
                let shape = Shape::new(&variant.fields)?;
                bound(&mut generics, &shape, &library);
                let (ident, pattern) = (&variant.ident, &shape.pattern);
                let name = name(ident, &settings);
                let write = match &variant.fields {
                    Fields::Unit => quote!(annotation.text(#name);),
                    fields => {
                        let write = shape.write(&library, matches!(fields, Fields::Named(_)));
                        quote!(annotation.dict(|dict| {
                            dict.field_with(#name, |annotation| { #write });
                        });)
                    }
                };
                arms.push(quote!(Self::#ident #pattern => { #write }));
            }
            if arms.is_empty() {
                quote!(match *self {})
            } else {
                quote!(match self { #(#arms)* })
            }
        }
        Data::Union(data) => {
            let message = "a union cannot be an argument: the active field is unknown";
            return Err(Error::new(data.union_token.span, message));
        }
    };
    let (parameters, arguments, clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #library::Argument for #ident #arguments #clause {
            fn write(&self, annotation: &mut #library::track_event::Annotation<'_>) {
                #write
            }
        }
    })
}

/// Returns the name of a type or variant in the recording.
fn name(ident: &Ident, settings: &Settings) -> String {
    match &settings.rename {
        Some(name) => name.value(),
        None => ident.unraw().to_string(),
    }
}

/// Adds the bounds that the fields of a shape need to the type parameters.
fn bound(generics: &mut Generics, shape: &Shape<'_>, library: &TokenStream) {
    for parameter in generics.type_params_mut() {
        for with in [With::Argument, With::Display, With::Debug] {
            let is_needed = shape.fields.iter().any(|field| {
                field.with == with
                    && mentions(field.ty.to_token_stream(), &parameter.ident.to_string())
            });
            if is_needed {
                parameter.colon_token.get_or_insert(<Token![:]>::default());
                parameter.bounds.push(match with {
                    With::Argument => parse_quote!(#library::Argument),
                    With::Display => parse_quote!(::core::fmt::Display),
                    With::Debug => parse_quote!(::core::fmt::Debug),
                });
            }
        }
    }
}
