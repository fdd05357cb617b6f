//! The custom forms of kernels (bef 4.1, 4.2, 4.3): one table for parser, printer and verifier.
//! Every kernel also has the generic form, which is printed if it does not match its row.

use crate::DType;
use std::collections::HashMap;
use std::sync::LazyLock;

const CHAIN: &str = "!tfrt.chain";
const TENSOR: &str = "!tfrt_tensor.tensor";
const SHAPE: &str = "!ts.shape";
const PARTIAL: &str = "!ts.partial_shape";

/// Kernels: `NAME | OPERAND TYPES -> RESULT TYPES | FORM`.
///
/// A name may contain sets of alternatives, `{i32,i64}`; `{*}` are the element types of host
/// tensors. `T` in a type is the last part of the name. `..` is any further operands, or for
/// any results. The form is the text after the name, by default the operands and `{}`:
///
/// | form | text |
/// |---|---|
/// | `%`, `%..` | the next operand; the other operands, separated by commas |
/// | `(%..)` | these in parentheses, also if there are none |
/// | `@f`, `@f[]` | the function of the attribute `f`; the list of its functions |
/// | `$a` | the value of the attribute `a` |
/// | `=a` | a number of the result's type |
/// | `#a`, `#a : f32` | a number of type i64; one of type f32 and its type, which may be absent |
/// | `{}`, `attributes {}` | the dictionary of the other attributes, if there are any |
/// | `T` | the types of the operands `%..`, and of any results |
/// | `(T) -> U` | these and the types of the results |
/// | `(T) -> (U)` | as before; the printed types of the results always have parentheses |
/// | `[..]` | a part that is absent without operands `%..` |
/// | `{..}`, `else {..}` | a region; a second one, which may be absent if there are no results |
/// | `BENCHMARK` | `"name"(%a : T) duration_secs = 1, max_count = 100, num_warmup_runs = 10` |
const FORMS: &str = "\
tfrt.new.chain | -> chain
tfrt.merge.chains | .. -> chain |[ %..] {} : [T]
tfrt.and.i1 | i1 i1 -> i1
tfrt.add.{i32,i64,f32,f64} | T T -> T
tfrt.mul.{i32,i64} | T T -> T
tfrt.equal.{i32,i64} | T T -> i1
tfrt.div.{i32,i64} | T T -> T T
tfrt.print.{i1,i32,i64,f32,f64} | T chain -> chain
tfrt.constant.{i1,i32,i64,ui32,ui64,bf16,f16,f32,f64} | -> T | =value {}
tfrt.constant.complex64 | -> complex<f32> | #real : f32, #imaginary : f32 {}
tfrt.constant.complex128 | -> complex<f64> | #real : f64, #imaginary : f64 {}
tfrt.call | .. -> .. | @callee(%..) {} : (T) -> U
tfrt.once | .. -> .. | @function(%..) {} : (T) -> U
tfrt.cond | i1 .. -> .. | % @a_true_fn @b_false_fn (%..) {} : (T) -> U
tfrt.case | i32 .. -> .. | % @branches[] (%..) {} : (T) -> U
tfrt.while | i1 .. -> .. | % @body_fn(%..) parallel_iterations(#parallel_iterations) {} : (T) -> U
tfrt.if | i1 .. -> .. | %[, %..] attributes {} : (T) -> (U) {..} else {..}
tfrt.repeat.i32 | i32 .. -> .. | %[, %.. : T] {..}
tfrt.parallel_for.i32 | i32 i32 i32 .. -> chain | % to % fixed %[, %.. : T] {..}
tfrt.parallel_call.i32 | i32 i32 i32 .. -> chain | % to % fixed % @callee(%..) {}[ : T]
tfrt_test.count3.{i32,i64} | T -> T T T
tfrt_test.do.async | .. -> .. |[ %..] attributes {} : (T) -> (U) {..}
tfrt_test.benchmark | .. -> chain | BENCHMARK {..}
tfrt_test.test_cost | .. -> i32 |[ %..] {} : [T]
ts.build_shape | -> shape | $value {}
ts.build_partial_shape | -> partial | $value {}
ts.build_unranked_partial_shape | -> partial
ts.print_shape | shape chain -> chain
ts.print_partial_shape | partial chain -> chain
ts.equal_shape | shape shape -> i1
ts.get_num_elements | shape -> i64
ts.get_dimension | shape i32 -> i64
ts.as_fixed_rank_shape.{1,2,3} | shape -> !ts.fixed_rank_shape.T
ts.print_fixed_rank_shape.{1,2,3} | !ts.fixed_rank_shape.T chain -> chain
ts.to_shape | partial -> shape
ts.to_partial_shape | shape -> partial
tfrt_dht.create_uninitialized_tensor.{*}.{0,1,2,3,4,5} | -> tensor | $shape {}
tfrt_dht.fill_tensor_with_constant.{*} | tensor chain -> chain | %.. $value {}
tfrt_dht.set_tensor_with_constant_values.{*} | tensor chain -> chain | %.. $values {}
tfrt_dht.print_tensor | tensor chain -> chain
tfrt_dht.tensor_equal.{*} | tensor tensor chain -> i1 chain
coo.{convert_dht_to_coo,convert_coo_to_dht}.{i32,f32}.{0,1,2,3} | tensor chain -> tensor chain
coo.tensor_equal.{i32,f32}.{0,1,2,3} | tensor tensor chain -> i1 chain
";

/// Expansion of `{*}`.
const ELEMENTS: &str = "{ui8,ui32,ui64,i8,i32,i64,f32,f64,bool,complex64,complex128,f16,bf16}";

/// The types of a kernel and its custom form.
#[derive(Debug)]
pub(crate) struct Form {
    /// The types of all operands, or of the first ones if it is `variadic`.
    pub(crate) operands: Vec<String>,
    pub(crate) variadic: bool,
    /// The types of the results, if they are fixed.
    pub(crate) results: Option<Vec<String>>,
    /// What follows the name.
    pub(crate) parts: Vec<Part>,
    /// The attributes among the parts, sorted by name.
    pub(crate) attributes: Vec<(&'static str, Kind)>,
}

/// A part of a custom form; see [`FORMS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A space, a word or a punctuation character.
    Text(&'static str),
    Operand,
    Operands,
    Arguments,
    Attribute(&'static str, Kind),
    /// The other attributes, after this text.
    Dictionary(&'static str),
    Types,
    FunctionType,
    /// As `FunctionType`; the printed results always have parentheses.
    ParenthesizedType,
    Optional(Vec<Part>),
    Region,
    Else,
    Benchmark,
}

/// The kind of an attribute in a custom form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One function, or a list of functions if the name ends with `[]`.
    Function,
    Value,
    /// A number of the result's type.
    Constant(DType),
    Number(DType),
    TypedNumber(DType),
}

const TOKENS: &[(&str, Part)] = &[
    ("(%..)", Part::Arguments),
    ("%..", Part::Operands),
    ("%", Part::Operand),
    ("(T) -> (U)", Part::ParenthesizedType),
    ("(T) -> U", Part::FunctionType),
    ("T", Part::Types),
    (" attributes {}", Part::Dictionary(" attributes ")),
    (" {}", Part::Dictionary(" ")),
    (" else {..}", Part::Else),
    (" {..}", Part::Region),
    ("BENCHMARK", Part::Benchmark),
];

/// The attributes of a benchmark.
const BENCHMARK: [(&str, Kind); 4] = [
    ("duration_secs", Kind::Number(DType::I32)),
    ("max_count", Kind::Number(DType::I32)),
    ("name", Kind::Value),
    ("num_warmup_runs", Kind::Number(DType::I32)),
];

static BY_NAME: LazyLock<HashMap<String, Form>> = LazyLock::new(|| {
    let rows = FORMS.lines().flat_map(|row| {
        let (names, rest) = row.split_once(" | ").unwrap_or_default();
        let (types, text) = rest.split_once(" |").unwrap_or((rest, ""));
        let names = expand(&names.replace("{*}", ELEMENTS)).into_iter();
        names.map(move |name| {
            let form = Form::new(&name, types, text);
            (name, form)
        })
    });
    rows.collect()
});

impl Form {
    fn new(name: &str, types: &str, text: &'static str) -> Form {
        let last = name.rsplit('.').next().unwrap_or_default();
        let list = |types: &str| -> Vec<String> {
            let types = types.split_whitespace().filter(|word| *word != "..");
            let types = types.map(|word| match word {
                "chain" => CHAIN.to_owned(),
                "tensor" => TENSOR.to_owned(),
                "shape" => SHAPE.to_owned(),
                "partial" => PARTIAL.to_owned(),
                other => other.replace('T', last),
            });
            types.collect()
        };
        let (operands, results) = types.split_once("->").unwrap_or_default();
        let variadic = operands.contains("..");
        let operands = list(operands);
        let results = (!results.contains("..")).then(|| list(results));
        let text = match text {
            "" if operands.is_empty() => " {}",
            "" => " %.. {}",
            text => text,
        };
        let first = results.iter().flatten().next();
        let number = first.and_then(|r#type| DType::from_mlir(r#type));
        let parts = parts(&mut { text }, number.unwrap_or(DType::Invalid));
        let mut attributes: Vec<_> = (parts.iter())
            .flat_map(|part| match part {
                Part::Attribute(name, kind) => vec![(*name, *kind)],
                Part::Benchmark => BENCHMARK.to_vec(),
                _ => Vec::new(),
            })
            .collect();
        attributes.sort_by_key(|(name, _)| *name);
        Form {
            operands,
            variadic,
            results,
            parts,
            attributes,
        }
    }

    /// The operands that are passed to regions: all but the last one of a fixed type, which is a
    /// condition, a count or a block size.
    pub(crate) fn passed<T: Copy>(&self, operands: &[T]) -> Vec<T> {
        let operands = (1..).zip(operands);
        let passed = operands.filter(|(index, _)| *index != self.operands.len());
        passed.map(|(_, operand)| *operand).collect()
    }

    /// The number of regions.
    pub(crate) fn regions(&self) -> usize {
        let is_region = |part: &&Part| matches!(part, Part::Region | Part::Else);
        self.parts.iter().filter(is_region).count()
    }
}

/// The parts of a form up to its end or a `]`, which are removed from `text`. `number` is the type
/// of a constant.
fn parts(text: &mut &'static str, number: DType) -> Vec<Part> {
    let mut parts = Vec::new();
    while let Some(first) = text.chars().next() {
        if let Some((token, part)) = TOKENS.iter().find(|(token, _)| text.starts_with(token)) {
            *text = &text[token.len()..];
            parts.push(part.clone());
            continue;
        }
        let start = *text;
        *text = &text[1..];
        parts.push(match first {
            ']' => break,
            '[' => Part::Optional(self::parts(text, number)),
            '@' => Part::Attribute(word(text), Kind::Function),
            '$' => Part::Attribute(word(text), Kind::Value),
            '=' => Part::Attribute(word(text), Kind::Constant(number)),
            '#' => {
                let name = word(text);
                let kind = match text.strip_prefix(" : ") {
                    None => Kind::Number(DType::I64),
                    Some(rest) => {
                        *text = rest;
                        let dtype = DType::from_mlir(word(text));
                        Kind::TypedNumber(dtype.unwrap_or(DType::Invalid))
                    }
                };
                Part::Attribute(name, kind)
            }
            'a'..='z' => {
                *text = start;
                Part::Text(word(text))
            }
            _ => Part::Text(&start[..1]),
        });
    }
    parts
}

/// Removes a word, perhaps with `[]`.
fn word(text: &mut &'static str) -> &'static str {
    let ends = |c: char| !c.is_ascii_alphanumeric() && !"_[]".contains(c);
    let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    *text = rest;
    word
}

/// Expands a pattern to its names.
fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (alternatives, behind) = rest.split_once('}').unwrap_or((rest, ""));
    let behind = expand(behind);
    let one = |alternative| {
        behind
            .iter()
            .map(move |end| format!("{before}{alternative}{end}"))
    };
    alternatives.split(',').flat_map(one).collect()
}

/// The custom form of a kernel, if it has one.
pub(crate) fn form(kernel: &str) -> Option<&'static Form> {
    BY_NAME.get(kernel)
}

/// The known dialects; unregistered operations of other dialects are refused.
const DIALECTS: &[&str] = &[
    "builtin",
    "coo",
    "corert",
    "func",
    "tenon",
    "tfrt",
    "tfrt_dht",
    "tfrt_sht",
    "tfrt_tensor",
    "tfrt_test",
    "ts",
];

/// Whether the operation `name` is of a known dialect.
pub(crate) fn is_known_dialect(name: &str) -> bool {
    name.split_once('.')
        .is_some_and(|(dialect, _)| DIALECTS.contains(&dialect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_expand_to_their_names() {
        assert_eq!(
            expand("a.{b,c}.{1,2}"),
            ["a.b.1", "a.b.2", "a.c.1", "a.c.2"]
        );
        let set = form("tfrt_dht.create_uninitialized_tensor.bf16.5").unwrap();
        let attribute = ("shape", Kind::Value);
        assert_eq!((set.operands.len(), set.variadic), (0, false));
        assert_eq!(set.results, Some(vec![TENSOR.to_owned()]));
        assert_eq!(set.attributes, [attribute]);
        let attribute = Part::Attribute(attribute.0, attribute.1);
        let dictionary = Part::Dictionary(" ");
        assert_eq!(set.parts, [Part::Text(" "), attribute, dictionary]);
        assert!(form("tfrt_dht.create_uninitialized_tensor.bf16.6").is_none());
        assert!(form("coo.tensor_equal.i32.0").is_some());
        // No name occurs in two rows.
        let names = FORMS.lines().filter_map(|row| row.split_once(" | "));
        let all: usize = names
            .map(|(pattern, _)| expand(&pattern.replace("{*}", ELEMENTS)).len())
            .sum();
        assert_eq!(all, BY_NAME.len());
    }

    #[test]
    fn every_number_has_a_type() {
        for (name, form) in BY_NAME.iter() {
            for (_, kind) in &form.attributes {
                if let Kind::Constant(dtype) | Kind::TypedNumber(dtype) = kind {
                    assert_ne!(*dtype, DType::Invalid, "{name}");
                }
            }
        }
    }

    #[test]
    fn dialects_are_matched_by_the_whole_namespace() {
        assert!(is_known_dialect("tfrt_test.anything"));
        assert!(!is_known_dialect("tfrt_tests.anything"));
        assert!(!is_known_dialect("tfrt"));
        assert!(!is_known_dialect("vt.add"));
    }
}
