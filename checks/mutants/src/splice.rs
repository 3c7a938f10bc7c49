//! Inserts all mutants of a source file into its text: next to the expression that a mutant
//! replaces, or at the start of the function whose value it replaces.
//!
//! ```text
//! a + b        →  (if !matches!(crate::mutant_at(7), 7 | 8) { a + b }
//!                  else if … == 7 { a - b } else { a * b })
//! fn f() { …   →  fn f() { if crate::mutant_at(9) == 9 { return 0; } …
//! pattern =>   →  pattern if crate::mutant_at(10) != 10 =>
//! ```
//!
//! Only the first branch contains further mutants, so the text stays a small multiple of the
//! source. Code that the compiler evaluates has no mutation sites: constants, `const fn`, lengths
//! of arrays. A return value of type `impl Trait` has none either.

use crate::Mutant;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A source file with its mutants.
pub(crate) struct Spliced {
    pub(crate) text: String,
    /// Pairs of a mutant and its site. A site has the number of its first mutant.
    pub(crate) sites: Vec<(usize, usize)>,
    /// Mutants without a site.
    pub(crate) left_out: Vec<usize>,
    /// Mutants that are not valid Rust.
    pub(crate) unviable: Vec<usize>,
}

impl Spliced {
    /// The mutant that contains this byte of the text.
    pub(crate) fn mutant_at(&self, byte: usize) -> Option<usize> {
        let (before, behind) = (&self.text[..byte], &self.text[byte..]);
        let opened = before.rfind("/*<").filter(|&open| before.rfind(">*/").is_none_or(|close| close < open))?;
        behind.find(">*/")?;
        before[opened + 3..].split("*/").next()?.parse().ok()
    }
}

/// A part of the source that has mutants.
struct MutationSite {
    range: Range<usize>,
    numbers: Vec<usize>,
}

pub(crate) fn splice(source: &str, mutants: &[(usize, &Mutant)]) -> Spliced {
    let file = syn::parse_file(source).expect("the crate compiles");
    let mut finder = Finder::default();
    finder.visit_file(&file);
    let mut spliced = Spliced { text: String::new(), sites: vec![], left_out: vec![], unviable: vec![] };
    let mut sites: Vec<MutationSite> = vec![];
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
        match sites.iter_mut().find(|site| !range.is_empty() && site.range == range) {
            Some(site) => site.numbers.push(number),
            None => sites.push(MutationSite { range, numbers: vec![number] }),
        }
    }
    // Insertions come before expressions with the same start, outer expressions before inner ones.
    sites.sort_by_key(|site| (site.range.start, !site.range.is_empty(), usize::MAX - site.range.end));
    let mut writer = SpliceWriter { source, texts: &texts, sites: sites.iter().peekable(), at: 0, out: String::new() };
    writer.write_until(source.len(), mutants);
    spliced.text = writer.out;
    spliced.sites = sites.iter().flat_map(|site| site.numbers.iter().map(|&it| (it, site.numbers[0]))).collect();
    spliced
}

struct SpliceWriter<'a, I: Iterator<Item = &'a MutationSite>> {
    source: &'a str,
    texts: &'a HashMap<usize, String>,
    sites: std::iter::Peekable<I>,
    at: usize,
    out: String,
}

impl<'a, I: Iterator<Item = &'a MutationSite>> SpliceWriter<'a, I> {
    fn write_until(&mut self, end: usize, mutants: &[(usize, &Mutant)]) {
        while let Some(site) = self.sites.next_if(|site| site.range.start < end) {
            self.copy_until(site.range.start);
            let first = site.numbers[0];
            if site.range.is_empty() {
                let text = &self.texts[&first];
                let is_arm = mutants.iter().any(|(number, mutant)| *number == first && mutant.genre == "MatchArm");
                self.put(if is_arm {
                    format!(" if /*<{first}*/crate::mutant_at({first}) != {first}/*>*/")
                } else {
                    format!("if crate::mutant_at({first}) == {first} {{ return /*<{first}*/{text}/*>*/; }} ")
                });
                continue;
            }
            let any: Vec<String> = site.numbers.iter().map(usize::to_string).collect();
            self.put(format!("(if !matches!(crate::mutant_at({first}), {}) {{ ", any.join(" | ")));
            self.write_until(site.range.end, mutants);
            for number in &site.numbers {
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
        self.out.write_str(&text).expect("writing to a string cannot fail");
    }
}

/// Finds the expressions whose mutants can be selected at run time. The key is the genre of a
/// mutant and the start of the text that it replaces; the value is the range of the whole
/// expression. An empty range is the position of an insertion. The value is `None` in a chain with
/// `let`, where another operator does not compile.
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

    // The compiler evaluates these.
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
