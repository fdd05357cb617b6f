use super::*;
use proptest::prelude::*;

fn symbols() -> Symbols {
    let mut symbols = Symbols::default();
    symbols.add("a", 1..=9).unwrap();
    symbols.add("b", 0..=7).unwrap();
    symbols.add("n", Symbols::any_size()).unwrap();
    symbols
}

/// Parses and prints.
fn normal(text: &str) -> String {
    let symbols = symbols();
    symbols.text(&symbols.parse(text).unwrap())
}

#[test]
fn equal_polynomials_have_one_form() {
    assert_eq!(normal("2 * (n + 1)"), "2 * n + 2");
    assert_eq!(normal("n + n + 2"), "2 * n + 2");
    assert_eq!(normal("(n + 1) * (n - 1) - n * n"), "-1");
    assert_eq!(normal("n - n"), "0");
    assert_eq!(normal("b * a * 3 - n"), "3 * a * b - n");
}

#[test]
fn quotients_are_simplified() {
    assert_eq!(normal("floor(4 * n / 2)"), "2 * n");
    assert_eq!(
        normal("floor((3 * n + 5) / 2)"),
        "n + floor((n + 1) / 2) + 2"
    );
    // Two convolutions of stride 2 are one of stride 4.
    assert_eq!(
        normal("floor((floor((n + 1) / 2) + 1) / 2)"),
        "floor((n + 3) / 4)"
    );
    assert_eq!(normal("floor((12 * a * n) / (4 * n))"), "3 * a");
    assert_eq!(normal("floor((a * n + n) / (a + 1))"), "n");
    assert_eq!(normal("floor((6 * n + 3) / 4)"), "n + floor((n + 1) / 2)");
    assert_eq!(normal("floor((2 * n + 5) / 4)"), "floor(n / 2) + 1");
    assert_eq!(normal("floor(b / 8)"), "0");
    assert_eq!(normal("floor((n * n) / (a * n))"), "floor(n / a)");
}

#[test]
fn ranges_decide_minima() {
    assert_eq!(normal("min(a, 20)"), "a");
    assert_eq!(
        normal("min(floor((n + 3) / 4), floor((n + 1) / 4))"),
        "floor((n + 1) / 4)"
    );
    assert_eq!(normal("max(a, 0, 1 - b)"), "a");
    assert_eq!(normal("min(n, 100, n + 1)"), "min(100, n)");
    assert_eq!(normal("max(n, min(a, b))"), "max(n, min(a, b))");
    let symbols = symbols();
    let expr = symbols.parse("a * b - 3").unwrap();
    assert_eq!(symbols.range(&expr), SizeRange::new(-3, 60));
}

#[test]
fn wrong_text_is_refused_with_its_position() {
    let symbols = symbols();
    let error = |text: &str| symbols.parse(text).unwrap_err().to_string();
    assert_eq!(
        error("n + "),
        "not the expression of a size, at character 5 of 'n + ': expected a number, the name of a \
         dimension, floor, min, max or '(', found the end"
    );
    assert_eq!(
        error("n m"),
        "not the expression of a size, at character 3 of 'n m': expected an operator or the end, found 'm'"
    );
    assert_eq!(
        error("2 * k"),
        "an expression names an unknown dimension: expected a, b, n, found k"
    );
    assert_eq!(
        error("floor(n / b)"),
        "the divisor of a size is not positive for all sizes: found b"
    );
    assert!(error("99999999999999999999").starts_with("a size overflows 64 bits"));
    assert!(error(&"(".repeat(100)).starts_with("the expression of a size is nested too deeply"));
    assert!(error(&"n".repeat(5000)).starts_with("the expression of a size is too long"));
    assert!(error("é").contains("found 'é'"));
    let sums = ["(n+a+b+1)"; 12].join("*");
    assert!(
        error(&sums).starts_with("the expression of a size is too long"),
        "{}",
        error(&sums)
    );
}

#[test]
fn values_overflow_to_errors() {
    let symbols = symbols();
    let expr = symbols.parse("n * n * n * n * n").unwrap();
    assert!(expr.evaluate(&[1, 1, 1 << 30]).is_err());
    assert_eq!(expr.evaluate(&[1, 1, 2]).unwrap(), 32);
    assert!(expr.evaluate(&[1]).is_err(), "a symbol without a value");
    let most = symbols.parse("9223372036854775807").unwrap();
    assert!(most.plus(&1.into()).is_err());
}

#[test]
fn symbols_are_checked() {
    let mut symbols = symbols();
    for name in ["", "1a", "x y", "floor", "a"] {
        assert!(symbols.add(name, 1..=2).is_err(), "{name}");
    }
    #[expect(clippy::reversed_empty_ranges)]
    let empty = 3..=2;
    assert!(symbols.add("c", empty).is_err());
    assert!(symbols.add("c", 0..=u64::MAX).is_err());
    assert_eq!(
        symbols.check(&[0, 3, -1]).unwrap_err().to_string(),
        "dimension 'a': the size of a dimension is outside its range: expected 1 to 9, found 0\n\
         dimension 'n': the size of a dimension is outside its range: expected 1 to 2147483647, found -1"
    );
}

#[test]
fn inputs_decide_the_symbols() {
    let symbols = symbols();
    let dims = ["a", "b + n", "n", "b", "7"].map(|text| symbols.parse(text).unwrap());
    let solve = |sizes: [i64; 5]| {
        let dims = dims.iter().zip(sizes);
        symbols.solve(dims, |at| tenon_base::Location::field(format!("dim {at}")))
    };
    assert_eq!(solve([2, 7, 4, 3, 7]).unwrap(), [2, 3, 4]);
    assert_eq!(
        solve([2, 8, 4, 3, 6]).unwrap_err().to_string(),
        "dim 1: an input has the wrong size: expected 7 (b + n), found 8\n\
         dim 4: an input has the wrong size: expected 7, found 6"
    );
    let partial = symbols.solve([(&dims[0], 3)].into_iter(), |_| {
        tenon_base::Location::default()
    });
    assert!(partial.is_err());
}

/// An expression as a tree, evaluated without any simplification.
#[derive(Debug, Clone)]
enum Tree {
    Number(i64),
    Symbol(u32),
    Add(Box<Tree>, Box<Tree>),
    Subtract(Box<Tree>, Box<Tree>),
    Multiply(Box<Tree>, Box<Tree>),
    Divide(Box<Tree>, i64),
    DivideBySize(Box<Tree>, u32),
    Min(Box<Tree>, Box<Tree>),
    Max(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn value(&self, values: &[i64]) -> i128 {
        match self {
            Tree::Number(value) => i128::from(*value),
            Tree::Symbol(id) => i128::from(values[*id as usize]),
            Tree::Add(a, b) => a.value(values) + b.value(values),
            Tree::Subtract(a, b) => a.value(values) - b.value(values),
            Tree::Multiply(a, b) => a.value(values) * b.value(values),
            Tree::Divide(a, by) => a.value(values).div_euclid(i128::from(*by)),
            Tree::DivideBySize(a, id) => {
                let divisor = i128::from(values[*id as usize]);
                a.value(values).div_euclid(divisor)
            }
            Tree::Min(a, b) => a.value(values).min(b.value(values)),
            Tree::Max(a, b) => a.value(values).max(b.value(values)),
        }
    }

    fn expression(&self, symbols: &Symbols) -> tenon_base::Result<SizeExpr> {
        let of = |tree: &Tree| tree.expression(symbols);
        match self {
            Tree::Number(value) => Ok((*value).into()),
            Tree::Symbol(id) => Ok(SymbolId(*id).into()),
            Tree::Add(a, b) => of(a)?.plus(&of(b)?),
            Tree::Subtract(a, b) => of(a)?.minus(&of(b)?),
            Tree::Multiply(a, b) => of(a)?.times(&of(b)?),
            Tree::Divide(a, by) => symbols.floor_div(&of(a)?, &(*by).into()),
            Tree::DivideBySize(a, id) => symbols.floor_div(&of(a)?, &SymbolId(*id).into()),
            Tree::Min(a, b) => symbols.min(&of(a)?, &of(b)?),
            Tree::Max(a, b) => symbols.max(&of(a)?, &of(b)?),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (-9i64..=9).prop_map(Tree::Number),
        (0u32..3).prop_map(Tree::Symbol),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let pair = (inner.clone(), inner.clone()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
        prop_oneof![
            pair.clone().prop_map(|(a, b)| Tree::Add(a, b)),
            pair.clone().prop_map(|(a, b)| Tree::Subtract(a, b)),
            pair.clone().prop_map(|(a, b)| Tree::Multiply(a, b)),
            pair.clone().prop_map(|(a, b)| Tree::Min(a, b)),
            pair.prop_map(|(a, b)| Tree::Max(a, b)),
            (inner.clone(), 1i64..9).prop_map(|(a, by)| Tree::Divide(Box::new(a), by)),
            // The symbols whose smallest value is 1.
            (inner, prop_oneof![Just(0u32), Just(2)])
                .prop_map(|(a, id)| Tree::DivideBySize(Box::new(a), id)),
        ]
    })
}

proptest! {
    #[test]
    fn simplification_keeps_every_value(
        tree in trees(),
        a in 1i64..=9,
        b in 0i64..=7,
        n in 1i64..=40,
    ) {
        let symbols = symbols();
        let Ok(expr) = tree.expression(&symbols) else {
            return Ok(());
        };
        let values = [a, b, n];
        let expected = tree.value(&values);
        prop_assert_eq!(i128::from(expr.evaluate(&values).unwrap()), expected);
        let range = symbols.range(&expr);
        prop_assert!(range.min.is_none_or(|min| min <= expected));
        prop_assert!(range.max.is_none_or(|max| max >= expected));
        let text = symbols.text(&expr);
        let parsed = symbols.parse(&text).unwrap();
        prop_assert_eq!(i128::from(parsed.evaluate(&values).unwrap()), expected);
        prop_assert_eq!(symbols.text(&parsed), text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[abnfloormix0-9+*/(), -]{0,40}") {
        let symbols = symbols();
        if let Ok(expr) = symbols.parse(&text) {
            let _ = expr.evaluate(&[1, 0, 1]);
        }
    }
}
