//! The expression and its arithmetic.

use super::{SizeRange, SymbolId, Symbols};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Result};

/// More terms, or deeper nesting, is refused: products of sums grow exponentially.
const MAX_TERMS: usize = 128;
const MAX_DEPTH: usize = 16;
const MAX_DEGREE: usize = 16;

/// An integer expression of symbols in normal form: a sum of terms, ordered, none with coefficient 0.
/// Equal polynomials are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SizeExpr {
    pub(super) terms: Vec<Term>,
}

/// A coefficient times atoms. A power is a repeated atom; no atom is the constant term.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term {
    pub atoms: Vec<Atom>,
    pub coefficient: i64,
}

/// What a polynomial cannot express further.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Atom {
    Symbol(SymbolId),
    /// The quotient, rounded towards negative infinity; the divisor is at least 1 in the symbols' ranges.
    Quotient(Box<(SizeExpr, SizeExpr)>),
    /// Two or more, ordered, different.
    Min(Vec<SizeExpr>),
    Max(Vec<SizeExpr>),
}

impl From<i64> for SizeExpr {
    fn from(value: i64) -> Self {
        Self::from_terms([(Vec::new(), value)])
    }
}

impl From<SymbolId> for SizeExpr {
    fn from(symbol: SymbolId) -> Self {
        Self::from_atom(Atom::Symbol(symbol))
    }
}

impl SizeExpr {
    /// The value, if the expression has no symbol.
    pub fn constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [term] if term.atoms.is_empty() => Some(term.coefficient),
            _ => None,
        }
    }

    /// The symbol, if the expression is one.
    pub fn symbol(&self) -> Option<SymbolId> {
        match self.terms.as_slice() {
            [term] if term.coefficient == 1 => match term.atoms.as_slice() {
                [Atom::Symbol(id)] => Some(*id),
                _ => None,
            },
            _ => None,
        }
    }

    /// The symbols in it, each once, ordered.
    pub fn symbols(&self) -> Vec<SymbolId> {
        let mut found = Vec::new();
        self.collect_symbols(&mut found);
        found.sort();
        found.dedup();
        found
    }

    fn collect_symbols(&self, found: &mut Vec<SymbolId>) {
        for atom in self.terms.iter().flat_map(|term| &term.atoms) {
            match atom {
                Atom::Symbol(id) => found.push(*id),
                Atom::Quotient(parts) => {
                    parts.0.collect_symbols(found);
                    parts.1.collect_symbols(found);
                }
                Atom::Min(list) | Atom::Max(list) => {
                    list.iter().for_each(|part| part.collect_symbols(found));
                }
            }
        }
    }

    /// The sum.
    ///
    /// # Errors
    /// A coefficient overflows, or the expression is too long. All arithmetic has these errors.
    pub fn plus(&self, other: &Self) -> Result<Self> {
        let mut sum = Sum::default();
        sum.add(self, 1)?;
        sum.add(other, 1)?;
        sum.finish()
    }

    /// The difference.
    ///
    /// # Errors
    /// As [`SizeExpr::plus`].
    pub fn minus(&self, other: &Self) -> Result<Self> {
        let mut sum = Sum::default();
        sum.add(self, 1)?;
        sum.add(other, -1)?;
        sum.finish()
    }

    /// The product.
    ///
    /// # Errors
    /// As [`SizeExpr::plus`].
    pub fn times(&self, other: &Self) -> Result<Self> {
        if self.terms.len() * other.terms.len() > MAX_TERMS * MAX_TERMS / 4 {
            return Err(too_long());
        }
        let mut sum = Sum::default();
        for a in &self.terms {
            for b in &other.terms {
                let mut atoms = [a.atoms.as_slice(), &b.atoms].concat();
                atoms.sort();
                if atoms.len() > MAX_DEGREE {
                    return Err(too_long());
                }
                let coefficient = a.coefficient.checked_mul(b.coefficient);
                sum.add_term(atoms, coefficient.ok_or_else(overflow)?)?;
            }
        }
        sum.finish()
    }

    /// The value for these values of the symbols, by position.
    ///
    /// # Errors
    /// A symbol without a value, a divisor below 1, overflow of 64 bits.
    pub fn evaluate(&self, values: &[i64]) -> Result<i64> {
        i64::try_from(self.evaluate_wide(values)?).map_err(|_| overflow())
    }

    fn evaluate_wide(&self, values: &[i64]) -> Result<i128> {
        let mut sum = 0i128;
        for term in &self.terms {
            let mut product = i128::from(term.coefficient);
            for atom in &term.atoms {
                let value = atom.evaluate(values)?;
                product = product.checked_mul(value).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    pub(super) fn from_atom(atom: Atom) -> Self {
        Self::from_terms([(vec![atom], 1)])
    }

    /// From terms with different atoms, already ordered.
    fn from_terms(terms: impl IntoIterator<Item = (Vec<Atom>, i64)>) -> Self {
        let terms = terms.into_iter();
        let terms = terms.filter(|(_, coefficient)| *coefficient != 0);
        Self {
            terms: terms
                .map(|(atoms, coefficient)| Term { atoms, coefficient })
                .collect(),
        }
    }

    /// The constant term, 0 if there is none.
    fn constant_term(&self) -> i64 {
        let constant = self.terms.iter().find(|term| term.atoms.is_empty());
        constant.map_or(0, |term| term.coefficient)
    }

    fn depth(&self) -> usize {
        let atoms = self.terms.iter().flat_map(|term| &term.atoms);
        atoms.map(Atom::depth).max().unwrap_or(0)
    }
}

impl Atom {
    fn evaluate(&self, values: &[i64]) -> Result<i128> {
        match self {
            Atom::Symbol(id) => {
                let value = values.get(id.index()).copied();
                value
                    .map(i128::from)
                    .ok_or_else(|| invalid("a symbol has no value"))
            }
            Atom::Quotient(parts) => {
                let (dividend, divisor) = (
                    parts.0.evaluate_wide(values)?,
                    parts.1.evaluate_wide(values)?,
                );
                if divisor < 1 {
                    return Err(invalid("the divisor of a size is not positive").found(divisor));
                }
                Ok(dividend.div_euclid(divisor))
            }
            Atom::Min(list) => extreme(list, values, Ordering::Less),
            Atom::Max(list) => extreme(list, values, Ordering::Greater),
        }
    }

    fn depth(&self) -> usize {
        1 + match self {
            Atom::Symbol(_) => 0,
            Atom::Quotient(parts) => parts.0.depth().max(parts.1.depth()),
            Atom::Min(list) | Atom::Max(list) => {
                list.iter().map(SizeExpr::depth).max().unwrap_or(0)
            }
        }
    }
}

fn extreme(list: &[SizeExpr], values: &[i64], preferred: Ordering) -> Result<i128> {
    let mut best = None;
    for part in list {
        let value = part.evaluate_wide(values)?;
        if best.is_none_or(|best: i128| value.cmp(&best) == preferred) {
            best = Some(value);
        }
    }
    best.ok_or_else(|| invalid("a minimum of nothing"))
}

/// Terms that are being added.
#[derive(Default)]
struct Sum(BTreeMap<Vec<Atom>, i64>);

impl Sum {
    fn add(&mut self, other: &SizeExpr, sign: i64) -> Result<()> {
        for term in &other.terms {
            let coefficient = term.coefficient.checked_mul(sign).ok_or_else(overflow)?;
            self.add_term(term.atoms.clone(), coefficient)?;
        }
        Ok(())
    }

    fn add_term(&mut self, atoms: Vec<Atom>, coefficient: i64) -> Result<()> {
        let entry = self.0.entry(atoms).or_insert(0);
        *entry = entry.checked_add(coefficient).ok_or_else(overflow)?;
        Ok(())
    }

    fn finish(self) -> Result<SizeExpr> {
        let mut sum = SizeExpr::from_terms(self.0);
        if sum.terms.len() > MAX_TERMS {
            return Err(too_long());
        }
        // The highest degree first, the constant last.
        sum.terms.sort_by(|a, b| {
            let degree = b.atoms.len().cmp(&a.atoms.len());
            degree.then_with(|| a.atoms.cmp(&b.atoms))
        });
        Ok(sum)
    }
}

/// Arithmetic that depends on the ranges of symbols.
impl Symbols {
    /// The values that an expression can take: an enclosing interval.
    pub fn range(&self, expr: &SizeExpr) -> SizeRange {
        let mut sum = SizeRange::of(0);
        for term in &expr.terms {
            let mut product = SizeRange::of(term.coefficient);
            for atom in &term.atoms {
                product = product.times(self.atom_range(atom));
            }
            sum = sum.plus(product);
        }
        sum
    }

    fn atom_range(&self, atom: &Atom) -> SizeRange {
        match atom {
            Atom::Symbol(id) => self.symbol_range(*id),
            Atom::Quotient(parts) => self.range(&parts.0).floor_div(self.range(&parts.1)),
            Atom::Min(list) => self.combined(list, SizeRange::least),
            Atom::Max(list) => self.combined(list, SizeRange::greatest),
        }
    }

    fn combined(
        &self,
        list: &[SizeExpr],
        combine: fn(SizeRange, SizeRange) -> SizeRange,
    ) -> SizeRange {
        let ranges = list.iter().map(|part| self.range(part));
        ranges.reduce(combine).unwrap_or(SizeRange::of(0))
    }

    /// Whether `a` is at least `b` for all sizes in the ranges, as far as intervals show it.
    pub fn is_at_least(&self, a: &SizeExpr, b: &SizeExpr) -> bool {
        a.minus(b).is_ok_and(|difference| {
            self.range(&difference).is_at_least(0) || self.is_ordered_quotient(&difference)
        })
    }

    /// floor(x / d) - floor(y / d) + k is not negative if x >= y and k >= 0.
    fn is_ordered_quotient(&self, difference: &SizeExpr) -> bool {
        let constant = difference.constant_term();
        let quotients = difference
            .terms
            .iter()
            .filter(|term| !term.atoms.is_empty());
        let quotients: Vec<_> = quotients
            .map(|term| match term.atoms.as_slice() {
                [Atom::Quotient(parts)] => Some((term.coefficient, &parts.0, &parts.1)),
                _ => None,
            })
            .collect();
        let ordered = |x: &SizeExpr, y: &SizeExpr| {
            x.minus(y)
                .is_ok_and(|difference| self.range(&difference).is_at_least(0))
        };
        match quotients.as_slice() {
            [Some((1, x, d)), Some((-1, y, e))] | [Some((-1, y, e)), Some((1, x, d))] => {
                constant >= 0 && d == e && ordered(x, y)
            }
            _ => false,
        }
    }

    /// The smaller one.
    ///
    /// # Errors
    /// As [`SizeExpr::plus`].
    pub fn min(&self, a: &SizeExpr, b: &SizeExpr) -> Result<SizeExpr> {
        self.extreme(a, b, |kept, other| self.is_at_least(other, kept), true)
    }

    /// The greater one.
    ///
    /// # Errors
    /// As [`SizeExpr::plus`].
    pub fn max(&self, a: &SizeExpr, b: &SizeExpr) -> Result<SizeExpr> {
        self.extreme(a, b, |kept, other| self.is_at_least(kept, other), false)
    }

    /// `decides(a, b)`: `a` is the result whatever the sizes are.
    fn extreme(
        &self,
        a: &SizeExpr,
        b: &SizeExpr,
        decides: impl Fn(&SizeExpr, &SizeExpr) -> bool,
        smaller: bool,
    ) -> Result<SizeExpr> {
        let mut parts: Vec<SizeExpr> = Vec::new();
        for part in [a, b].into_iter().flat_map(|expr| operands(expr, smaller)) {
            if parts.iter().any(|kept| decides(kept, &part)) {
                continue;
            }
            parts.retain(|kept| !decides(&part, kept));
            parts.push(part);
        }
        parts.sort();
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        nested(if smaller {
            Atom::Min(parts)
        } else {
            Atom::Max(parts)
        })
    }

    /// The quotient, rounded towards negative infinity.
    ///
    /// # Errors
    /// As [`SizeExpr::plus`], and if the divisor is not at least 1 for all sizes in the ranges.
    pub fn floor_div(&self, dividend: &SizeExpr, divisor: &SizeExpr) -> Result<SizeExpr> {
        if !self.range(divisor).is_at_least(1) {
            return Err(
                invalid("the divisor of a size is not positive for all sizes")
                    .found(self.text(divisor)),
            );
        }
        match divisor.constant() {
            Some(divisor) => self.quotient_by_constant(dividend, divisor),
            None => self.quotient(dividend, divisor),
        }
    }

    /// The quotient, rounded towards positive infinity.
    ///
    /// # Errors
    /// As [`Symbols::floor_div`].
    pub fn ceil_div(&self, dividend: &SizeExpr, divisor: &SizeExpr) -> Result<SizeExpr> {
        let raised = dividend.plus(&divisor.minus(&1.into())?)?;
        self.floor_div(&raised, divisor)
    }

    /// floor((c q + r) / c) = q + floor(r / c), with all coefficients of r in 0..c.
    fn quotient_by_constant(&self, dividend: &SizeExpr, divisor: i64) -> Result<SizeExpr> {
        let part = |pick: fn(i64, i64) -> i64| {
            let terms = dividend.terms.iter();
            SizeExpr::from_terms(
                terms.map(|term| (term.atoms.clone(), pick(term.coefficient, divisor))),
            )
        };
        let (whole, rest) = (part(i64::div_euclid), part(i64::rem_euclid));
        let range = self.range(&rest);
        if range.is_at_least(0) && range.is_at_most(i128::from(divisor) - 1) {
            return Ok(whole);
        }
        // A common divisor g of the other coefficients: floor((g x + k) / (g c)) = floor((x + floor(k / g)) / c).
        let others = rest.terms.iter().filter(|term| !term.atoms.is_empty());
        let common = others.fold(divisor, |common, term| {
            greatest_common_divisor(common, term.coefficient)
        });
        let reduced = rest.terms.iter().map(|term| {
            let coefficient = term.coefficient.div_euclid(common);
            (term.atoms.clone(), coefficient)
        });
        let (rest, divisor) = (SizeExpr::from_terms(reduced), divisor / common);
        // floor((floor(x / a) + k) / c) = floor((x + k a) / (a c))
        let constant = rest.constant_term();
        if let Some((x, a)) = rest.minus(&constant.into())?.quotient_parts()
            && let Some(a) = a.constant()
        {
            let product = a.checked_mul(divisor).ok_or_else(overflow)?;
            let shift = a.checked_mul(constant).ok_or_else(overflow)?;
            let inner = self.quotient_by_constant(&x.plus(&shift.into())?, product)?;
            return whole.plus(&inner);
        }
        if divisor == 1 {
            return whole.plus(&rest);
        }
        whole.plus(&nested(Atom::Quotient(Box::new((rest, divisor.into()))))?)
    }

    fn quotient(&self, dividend: &SizeExpr, divisor: &SizeExpr) -> Result<SizeExpr> {
        if let Some(exact) = exact_quotient(dividend, divisor)? {
            return Ok(exact);
        }
        let (mut dividend, mut divisor) = (dividend.clone(), divisor.clone());
        while let Some(atom) = self.common_atom(&dividend, &divisor) {
            dividend = without_atom(dividend, &atom);
            divisor = without_atom(divisor, &atom);
        }
        if let Some(divisor) = divisor.constant() {
            return self.quotient_by_constant(&dividend, divisor);
        }
        if self.range(&dividend).is_at_least(0)
            && self.is_at_least(&divisor, &dividend.plus(&1.into())?)
        {
            return Ok(0.into());
        }
        nested(Atom::Quotient(Box::new((dividend, divisor))))
    }

    /// A positive atom in all terms of both.
    fn common_atom(&self, a: &SizeExpr, b: &SizeExpr) -> Option<Atom> {
        let candidates = &a.terms.first()?.atoms;
        let everywhere = |atom: &&Atom| {
            let mut terms = a.terms.iter().chain(&b.terms);
            terms.all(|term| term.atoms.contains(atom)) && self.atom_range(atom).is_at_least(1)
        };
        candidates.iter().find(everywhere).cloned()
    }
}

impl SizeExpr {
    /// Dividend and divisor, if the expression is one quotient.
    fn quotient_parts(&self) -> Option<(&SizeExpr, &SizeExpr)> {
        match self.terms.as_slice() {
            [term] if term.coefficient == 1 => match term.atoms.as_slice() {
                [Atom::Quotient(parts)] => Some((&parts.0, &parts.1)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The operands of a minimum or maximum, or the expression itself.
fn operands(expr: &SizeExpr, smaller: bool) -> Vec<SizeExpr> {
    if let [term] = expr.terms.as_slice()
        && term.coefficient == 1
        && let [atom] = term.atoms.as_slice()
    {
        match atom {
            Atom::Min(list) if smaller => return list.clone(),
            Atom::Max(list) if !smaller => return list.clone(),
            _ => {}
        }
    }
    vec![expr.clone()]
}

/// The polynomial quotient, if there is no remainder: division by the leading term.
fn exact_quotient(dividend: &SizeExpr, divisor: &SizeExpr) -> Result<Option<SizeExpr>> {
    let Some(leading) = divisor.terms.first() else {
        return Ok(None);
    };
    let mut rest = dividend.clone();
    let mut quotient = SizeExpr::default();
    for _ in 0..MAX_TERMS {
        let Some(first) = rest.terms.first() else {
            return Ok(Some(quotient));
        };
        if first.coefficient % leading.coefficient != 0 {
            return Ok(None);
        }
        let mut atoms = first.atoms.clone();
        for atom in &leading.atoms {
            match atoms.iter().position(|other| other == atom) {
                Some(position) => drop(atoms.remove(position)),
                None => return Ok(None),
            }
        }
        let term = SizeExpr::from_terms([(atoms, first.coefficient / leading.coefficient)]);
        rest = rest.minus(&term.times(divisor)?)?;
        quotient = quotient.plus(&term)?;
    }
    Ok(None)
}

fn without_atom(mut expr: SizeExpr, atom: &Atom) -> SizeExpr {
    for term in &mut expr.terms {
        if let Some(position) = term.atoms.iter().position(|other| other == atom) {
            term.atoms.remove(position);
        }
    }
    expr
}

fn nested(atom: Atom) -> Result<SizeExpr> {
    let expr = SizeExpr::from_atom(atom);
    if expr.depth() > MAX_DEPTH {
        return Err(too_long());
    }
    Ok(expr)
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn too_long() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the expression of a size is too long",
    )
    .help("fix one of its dimensions with --dim")
}

fn overflow() -> Error {
    invalid("a size overflows 64 bits")
}

pub(super) fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
