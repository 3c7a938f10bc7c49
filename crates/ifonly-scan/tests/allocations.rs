//! A scan allocates its memory at the start: tiles after the first allocate nothing.

use ifonly_algebra::field::{Field, FieldElement, ModulusRule};
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::{OutputExpr, RowFunction, RowFunctionKind, RowProgram, ScanJob};
use ifonly_scan::{Backend, RowStore, Scanner};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FEATURES: usize = 5;
/// Multiples of every backend's tile length.
const ROWS: [usize; 2] = [2 * 3840, 5 * 3840];

fn allocations(backend: Backend, store: &RowStore, field: &Field, program: &RowProgram) -> usize {
    let keys = RootKey::new(0, [1; 32]).transcript(&[2; 32]).rows(field, program.outputs.len(), 1, 1);
    let job = ScanJob { field, alpha: FieldElement::ONE, kappa: 1, program };
    let scanner = Scanner::new().with_backend(backend).with_span_rows(ROWS[1]);
    let before = ALLOCATIONS.get();
    scanner.answer(store, &job, &keys, &mut |_| ControlFlow::Continue(())).unwrap();
    ALLOCATIONS.get() - before
}

#[test]
fn no_tile_after_the_first_allocates() {
    let mut random = SeededRandom::new(3);
    for max_level in [255, 300] {
        let mut level = || random.below(max_level + 1) as u16;
        let levels: Vec<u16> = (0..ROWS[1] * FEATURES).map(|_| level()).collect();
        let stores = ROWS.map(|rows| {
            let rows = levels[..rows * FEATURES].chunks_exact(FEATURES);
            RowStore::build(&[max_level as u32; FEATURES], rows).unwrap()
        });
        for bits in [24, 61] {
            let field = Field::above((1 << (bits - 1)) + 1, ModulusRule::Deployment).unwrap();
            let mut elements =
                |count: usize| -> Vec<FieldElement> { (0..count).map(|_| field.sample(&mut random)).collect() };
            let functions = [
                RowFunctionKind::Linear { norm: FieldElement::ONE, slope: elements(FEATURES) },
                RowFunctionKind::Polynomial(vec![elements(FEATURES), elements(FEATURES)]),
                RowFunctionKind::Table((0..FEATURES).map(|_| elements(max_level as usize + 1)).collect()),
            ]
            .map(|kind| RowFunction { kind, constant: FieldElement::ONE });
            for function in functions {
                let two = [OutputExpr::Blinded(0), OutputExpr::Hidden { cost: 1, gate: 0 }];
                let three = [OutputExpr::Plain(0), OutputExpr::Blinded(1), OutputExpr::Difference(0)];
                for program in [
                    RowProgram::new([function.clone()], [OutputExpr::Plain(0)]),
                    RowProgram::new([function.clone(), function.clone()], two),
                    RowProgram::new([function.clone(), function.clone()], three),
                ] {
                    for backend in Backend::available() {
                        let [few, many] = stores.each_ref().map(|store| allocations(backend, store, &field, &program));
                        assert_eq!(few, many, "{backend}, {bits} bits, {max_level}, {program:?}");
                    }
                }
            }
        }
    }
}
