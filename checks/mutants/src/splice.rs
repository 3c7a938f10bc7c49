//! The source of a file with all its mutants: beside every expression that has some, and whole for every function's value.
//!
//! ```text
//! a + b        →  (if !matches!(crate::mutant_at(7), 7 | 8) { a + b } else if … == 7 { a - b } else { a * b })
//! fn f() { …   →  fn f() { if crate::mutant_at(9) == 9 { return 0; } …
//! pattern =>   →  pattern if crate::mutant_at(10) != 10 =>
//! ```
//! Only the first branch has mutants inside again, so that the text stays a small multiple of the source. What is evaluated at
//! compile time has no such places: constants, `const fn`, lengths of arrays; nor has a value of a type `impl Trait`.

use crate::Mutant;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A file with its mutants.
pub(crate) struct Spliced {
    pub(crate) text: String,
    /// The number of the place where each mutant is: that of its first.
    pub(crate) places: Vec<(usize, usize)>,
    /// Mutants that no place was found for.
    pub(crate) left_out: Vec<usize>,
    /// Mutants that are no Rust.
    pub(crate) unviable: Vec<usize>,
}

impl Spliced {
    /// The mutant that this byte of the text belongs to.
    pub(crate) fn mutant_at(&self, byte: usize) -> Option<usize> {
        let (before, behind) = (&self.text[..byte], &self.text[byte..]);
        let opened = before.rfind("/*<").filter(|&open| before.rfind(">*/").is_none_or(|close| close < open))?;
        behind.find(">*/")?;
        before[opened + 3..].split("*/").next()?.parse().ok()
    }
}

/// Where a piece of source has mutants.
struct Place {
    range: Range<usize>,
    numbers: Vec<usize>,
}

pub(crate) fn splice(source: &str, mutants: &[(usize, &Mutant)]) -> Spliced {
    let file = syn::parse_file(source).expect("the crate compiles");
    let mut finder = Finder::default();
    finder.visit_file(&file);
    let mut spliced = Spliced { text: String::new(), places: vec![], left_out: vec![], unviable: vec![] };
    let mut places: Vec<Place> = vec![];
    let mut texts = HashMap::new();
    for &(number, mutant) in mutants {
        let span = mutant.span.bytes(source);
        let key = (mutant.genre.as_str(), span.start);
        let range = match finder.found.get(&key).cloned() {
            Some(Some(range)) => range,
            Some(None) => {
                spliced.unviable.push(number);
                continue;
            }
            None => {
                spliced.left_out.push(number);
                continue;
            }
        };
        let text = match &*mutant.genre {
            "FnValue" if mutant.function.as_ref().is_some_and(|function| function.return_type.contains("impl ")) => {
                spliced.left_out.push(number);
                continue;
            }
            "FnValue" | "MatchArm" => mutant.replacement.clone(),
            _ => [&source[range.start..span.start], &mutant.replacement, &source[span.end..range.end]].concat(),
        };
        if mutant.genre != "MatchArm" && syn::parse_str::<syn::Expr>(&text).is_err() {
            spliced.unviable.push(number);
            continue;
        }
        texts.insert(number, text);
        match places.iter_mut().find(|place| !range.is_empty() && place.range == range) {
            Some(place) => place.numbers.push(number),
            None => places.push(Place { range, numbers: vec![number] }),
        }
    }
    // What is inserted comes before what begins there, outer expressions before inner ones.
    places.sort_by_key(|place| (place.range.start, !place.range.is_empty(), usize::MAX - place.range.end));
    let mut writer = Writer { source, texts: &texts, places: places.iter().peekable(), at: 0, out: String::new() };
    writer.write_until(source.len(), mutants);
    spliced.text = writer.out;
    spliced.places = places.iter().flat_map(|place| place.numbers.iter().map(|&it| (it, place.numbers[0]))).collect();
    spliced
}

struct Writer<'a, I: Iterator<Item = &'a Place>> {
    source: &'a str,
    texts: &'a HashMap<usize, String>,
    places: std::iter::Peekable<I>,
    at: usize,
    out: String,
}

impl<'a, I: Iterator<Item = &'a Place>> Writer<'a, I> {
    fn write_until(&mut self, end: usize, mutants: &[(usize, &Mutant)]) {
        while let Some(place) = self.places.next_if(|place| place.range.start < end) {
            self.copy_until(place.range.start);
            let first = place.numbers[0];
            if place.range.is_empty() {
                let text = &self.texts[&first];
                let is_arm = mutants.iter().any(|(number, mutant)| *number == first && mutant.genre == "MatchArm");
                self.put(if is_arm {
                    format!(" if /*<{first}*/crate::mutant_at({first}) != {first}/*>*/")
                } else {
                    format!("if crate::mutant_at({first}) == {first} {{ return /*<{first}*/{text}/*>*/; }} ")
                });
                continue;
            }
            let any: Vec<String> = place.numbers.iter().map(usize::to_string).collect();
            self.put(format!("(if !matches!(crate::mutant_at({first}), {}) {{ ", any.join(" | ")));
            self.write_until(place.range.end, mutants);
            for number in &place.numbers {
                let text = &self.texts[number];
                self.put(format!(" }} else if crate::mutant_at({first}) == {number} {{ /*<{number}*/{text}/*>*/"));
            }
            self.put(" } else { unreachable!() })".to_owned());
        }
        self.copy_until(end);
    }

    fn copy_until(&mut self, end: usize) {
        self.out.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    fn put(&mut self, text: String) {
        self.out.write_str(&text).expect("a string takes everything");
    }
}

/// Finds what can be chosen at run time: by genre and beginning of what a mutant replaces, the expression that it is in. An
/// empty range is where something is inserted; a chain with `let` takes no other operator.
#[derive(Default)]
struct Finder {
    found: HashMap<(&'static str, usize), Option<Range<usize>>>,
}

impl Finder {
    fn add(&mut self, genre: &'static str, what: impl Spanned, inside: Range<usize>) {
        self.found.insert((genre, what.span().byte_range().start), Some(inside));
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_none() {
            if let Some(first) = block.stmts.first() {
                let start = first.span().byte_range().start;
                self.add("FnValue", first, start..start);
            }
            self.visit_block(block);
        }
    }
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let range = (!has_let(&binary.left) && !has_let(&binary.right)).then(|| binary.span().byte_range());
        self.found.insert(("BinaryOperator", binary.op.span().byte_range().start), range);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        self.add("UnaryOperator", unary.op, unary.span().byte_range());
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, literal: &'ast syn::ExprStruct) {
        for field in &literal.fields {
            self.add("StructField", field, literal.span().byte_range());
        }
        visit::visit_expr_struct(self, literal);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        match &arm.guard {
            Some((_, guard)) => self.add("MatchArmGuard", guard, guard.span().byte_range()),
            None => {
                let end = arm.pat.span().byte_range().end;
                self.add("MatchArm", arm, end..end);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    // What the compiler evaluates.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
}
