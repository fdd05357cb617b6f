//! Kernels from Rust functions: the types of parameters and results define the signature.

use crate::value::{BF16, Chain, Complex64, F16};
use crate::{
    Frame, FromValue, FunctionHandle, Host, IntoValue, Kernel, KernelDef, Opaque, Reporter,
    Request, Shared, Signature, Site, Value,
};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::{Attribute, AttributeCode, DType, Dense, Name};

/// A kernel from a function.
///
/// ```
/// use tenon_executor::{Attr, Chain, Host, Registry, kernel};
/// use tenon_base::Result;
///
/// let mut registry = Registry::new();
/// registry.register(kernel("my.add.i32", |a: i32, b: i32| a.wrapping_add(b)))?;
/// registry.register(kernel("my.constant.i32", |value: Attr<i32>| value.0))?;
/// registry.register(kernel("my.print.i32", |x: i32, _: Chain, host: &Host| {
///     host.print(format_args!("int32 = {x}\n"));
///     Chain
/// }))?;
/// # Ok::<(), tenon_base::Error>(())
/// ```
pub fn kernel<M: 'static, F: KernelFunction<M>>(
    name: impl Into<Cow<'static, str>>,
    function: F,
) -> KernelDef {
    let def = KernelDef::new(name, F::signature(), move |site| {
        let mut binder = Binder {
            site,
            attributes: 0,
            functions: 0,
        };
        let bound = F::bind(&mut binder)?;
        Ok(Box::new(Typed::<M, F> {
            function: function.clone(),
            bound,
            marker: PhantomData,
        }))
    });
    def.site_independent(F::SITE_INDEPENDENT)
}

/// A function that is a kernel: up to twelve [`Parameter`]s, and [`Results`].
pub trait KernelFunction<M>: Clone + Send + Sync + 'static {
    /// Whether all sites share one binding: no parameter is an attribute or a function.
    const SITE_INDEPENDENT: bool;
    /// The state that its parameters read when the kernel is bound.
    type Binding: Send + Sync;
    /// The signature.
    fn signature() -> Signature;
    /// Reads the attributes.
    fn bind(binder: &mut Binder<'_, '_>) -> Result<Self::Binding>;
    /// Reads the parameters, calls the function and sets the results.
    fn call(&self, bound: &Self::Binding, frame: &mut Frame<'_>) -> Result<()>;
}

/// A parameter of a kernel function: scalars, [`Chain`], `&T` or [`Shared`] of [`Opaque`] types,
/// [`Value`], [`RestOperands`], [`Attr`], [`FunctionHandle`], [`Reporter`], `&Host`, `&Request`.
pub trait Parameter {
    /// Whether it is independent of the kernel's site.
    const SITE_INDEPENDENT: bool = true;
    /// The type of the argument.
    type Item<'a>;
    /// The state that is read when the kernel is bound.
    type Binding: Send + Sync;
    /// Adds the parameter to the signature.
    fn declare(signature: &mut Signature);
    /// Reads the attribute.
    fn bind(binder: &mut Binder<'_, '_>) -> Result<Self::Binding>;
    /// The argument of one run; `next` is the position of the next operand.
    fn take<'a>(
        bound: &'a Self::Binding,
        frame: &'a Frame<'_>,
        next: &mut usize,
    ) -> Result<Self::Item<'a>>;
}

/// The return type of a kernel function: nothing, a value, a tuple of values, a list of values, or
/// one of these as a `Result`.
pub trait Results {
    /// Adds the results to the signature.
    fn declare(signature: &mut Signature);
    /// Sets the results.
    fn set(self, frame: &mut Frame<'_>) -> Result<()>;
}

/// The site at which a kernel is bound, and the number of attributes and functions already read.
pub struct Binder<'a, 's> {
    site: &'a Site<'s>,
    attributes: usize,
    functions: usize,
}

/// The next attribute in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr<T>(pub T);

/// All remaining operands of a variadic kernel.
#[derive(Clone, Copy)]
pub struct RestOperands<'a> {
    frame: &'a Frame<'a>,
    first: usize,
}

/// A type of attribute that [`Attr`] can hold.
pub trait FromAttribute: Clone + Send + Sync + 'static {
    /// The type in words.
    const TYPE: &'static str;
    /// The type code of BEF; `None` for types with several codes.
    const CODE: Option<AttributeCode>;
    /// The attribute's value; `None` if it has another type.
    fn from_attribute(attribute: &Attribute) -> Option<Self>;
}

struct Typed<M, F: KernelFunction<M>> {
    function: F,
    bound: F::Binding,
    marker: PhantomData<fn() -> M>,
}

impl<M: 'static, F: KernelFunction<M>> Kernel for Typed<M, F> {
    fn run(&self, frame: &mut Frame<'_>) -> Result<()> {
        self.function.call(&self.bound, frame)
    }
}

impl<'a> RestOperands<'a> {
    /// The number of operands.
    pub fn len(&self) -> usize {
        self.frame.operands().saturating_sub(self.first)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All operands, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a Value> + use<'a> {
        let (frame, first) = (self.frame, self.first);
        (0..self.len()).map(move |index| frame.operand(first + index))
    }

    /// The operand at `index` as a `T`.
    pub fn read<T: FromValue>(&self, index: usize) -> Result<T> {
        self.frame.read(self.first + index)
    }
}

macro_rules! functions {
    ($($parameter:ident),*) => {
        impl<F, R, $($parameter,)*> KernelFunction<fn($($parameter),*) -> R> for F
        where
            F: Clone + Send + Sync + 'static,
            F: Fn($($parameter),*) -> R + for<'a> Fn($($parameter::Item<'a>),*) -> R,
            $($parameter: Parameter,)*
            R: Results,
        {
            const SITE_INDEPENDENT: bool = true $(&& $parameter::SITE_INDEPENDENT)*;

            type Binding = ($($parameter::Binding,)*);

            fn signature() -> Signature {
                #[allow(unused_mut, reason = "a function without parameters and results")]
                let mut signature = Signature::default();
                $($parameter::declare(&mut signature);)*
                R::declare(&mut signature);
                signature.functions.get_or_insert(0);
                signature
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "no parameters")]
            fn bind(binder: &mut Binder<'_, '_>) -> Result<Self::Binding> {
                Ok(($($parameter::bind(binder)?,)*))
            }

            #[inline(always)]
            #[allow(non_snake_case, unused_mut, unused_variables, reason = "made by a macro")]
            fn call(&self, bound: &Self::Binding, frame: &mut Frame<'_>) -> Result<()> {
                fn apply<$($parameter,)* R>(
                    function: impl Fn($($parameter),*) -> R,
                    $($parameter: $parameter,)*
                ) -> R {
                    function($($parameter),*)
                }
                let ($($parameter,)*) = bound;
                let results = {
                    let mut next = 0;
                    $(let $parameter = $parameter::take($parameter, frame, &mut next)?;)*
                    apply(self, $($parameter),*)
                };
                results.set(frame)
            }
        }
    };
}

functions!();
functions!(A);
functions!(A, B);
functions!(A, B, C);
functions!(A, B, C, D);
functions!(A, B, C, D, E);
functions!(A, B, C, D, E, G);
functions!(A, B, C, D, E, G, H);
functions!(A, B, C, D, E, G, H, I);

/// Implements [`Parameter`] for types that read the next operand.
macro_rules! operands {
    ($([$($generic:tt)*] $ty:ty;)*) => {
        $(impl<$($generic)*> Parameter for $ty {
            type Item<'a> = $ty;
            type Binding = ();
            fn declare(signature: &mut Signature) {
                signature.operands.push(<$ty as FromValue>::TYPE);
            }
            fn bind(_: &mut Binder<'_, '_>) -> Result<()> {
                Ok(())
            }
            #[inline]
            fn take<'a>(_: &'a (), frame: &'a Frame<'_>, next: &mut usize) -> Result<$ty> {
                *next += 1;
                frame.read(*next - 1)
            }
        })*
    };
}

operands! {
    [] bool; [] i8; [] i16; [] i32; [] i64; [] u8; [] u16; [] u32; [] u64; [] F16; [] BF16; [] f32;
    [] f64; [] Complex64; [] Chain; [] Value;
    [T: Opaque] Shared<T>;
}

impl<T: Opaque> Parameter for &T {
    type Item<'a> = &'a T;
    type Binding = ();
    fn declare(signature: &mut Signature) {
        signature.operands.push(T::TYPE);
    }
    fn bind(_: &mut Binder<'_, '_>) -> Result<()> {
        Ok(())
    }
    #[inline]
    fn take<'a>(_: &'a (), frame: &'a Frame<'_>, next: &mut usize) -> Result<&'a T> {
        *next += 1;
        frame.object(*next - 1)
    }
}

impl<T: FromAttribute> Parameter for Attr<T> {
    const SITE_INDEPENDENT: bool = false;
    type Item<'a> = Attr<T>;
    type Binding = T;
    fn declare(signature: &mut Signature) {
        signature.attributes.push(T::TYPE);
    }
    fn bind(binder: &mut Binder<'_, '_>) -> Result<T> {
        let index = binder.attributes;
        binder.attributes += 1;
        binder.site.attribute(index)
    }
    #[inline]
    fn take<'a>(bound: &'a T, _: &'a Frame<'_>, _: &mut usize) -> Result<Attr<T>> {
        Ok(Attr(bound.clone()))
    }
}

/// Implements [`Parameter`] for the context: neither operands nor attributes.
macro_rules! surroundings {
    ($($ty:ty as $item:ty = |$frame:ident| $take:expr;)*) => {
        $(impl Parameter for $ty {
            type Item<'a> = $item;
            type Binding = ();
            fn declare(_: &mut Signature) {}
            fn bind(_: &mut Binder<'_, '_>) -> Result<()> {
                Ok(())
            }
            fn take<'a>(_: &'a (), $frame: &'a Frame<'_>, _: &mut usize) -> Result<$item> {
                Ok($take)
            }
        })*
    };
}

surroundings! {
    &Host as &'a Host = |frame| frame.host();
    &Request as &'a Request = |frame| frame.request();
    Reporter as Reporter = |frame| frame.reporter();
}

impl Parameter for RestOperands<'_> {
    type Item<'a> = RestOperands<'a>;
    type Binding = ();
    fn declare(signature: &mut Signature) {
        signature.variadic = true;
    }
    fn bind(_: &mut Binder<'_, '_>) -> Result<()> {
        Ok(())
    }
    fn take<'a>(_: &'a (), frame: &'a Frame<'_>, next: &mut usize) -> Result<RestOperands<'a>> {
        Ok(RestOperands {
            frame,
            first: *next,
        })
    }
}

impl Parameter for FunctionHandle {
    type Item<'a> = FunctionHandle;
    /// The position among the kernel's functions.
    type Binding = usize;
    fn declare(signature: &mut Signature) {
        *signature.functions.get_or_insert(0) += 1;
    }
    fn bind(binder: &mut Binder<'_, '_>) -> Result<usize> {
        binder.functions += 1;
        Ok(binder.functions - 1)
    }
    fn take<'a>(bound: &'a usize, frame: &'a Frame<'_>, _: &mut usize) -> Result<FunctionHandle> {
        frame.function(*bound)
    }
}

impl Results for () {
    fn declare(_: &mut Signature) {}
    #[inline]
    fn set(self, _: &mut Frame<'_>) -> Result<()> {
        Ok(())
    }
}

impl<T: IntoValue> Results for T {
    fn declare(signature: &mut Signature) {
        signature.results.push(T::TYPE);
    }
    #[inline(always)]
    fn set(self, frame: &mut Frame<'_>) -> Result<()> {
        if let Some(vacant) = frame.view.vacant(0) {
            vacant.fill(self.into_value());
        }
        Ok(())
    }
}

impl<R: Results> Results for Result<R> {
    fn declare(signature: &mut Signature) {
        R::declare(signature);
    }
    #[inline(always)]
    fn set(self, frame: &mut Frame<'_>) -> Result<()> {
        self?.set(frame)
    }
}

impl Results for Vec<Value> {
    fn declare(signature: &mut Signature) {
        signature.variadic_results = true;
    }
    fn set(self, frame: &mut Frame<'_>) -> Result<()> {
        if self.len() != frame.results() {
            let error = Error::new(ErrorKind::InvalidProgram, "wrong number of results");
            return Err(error.expected(frame.results()).found(self.len()));
        }
        for (index, value) in self.into_iter().enumerate() {
            frame.set(index, value);
        }
        Ok(())
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: IntoValue),*> Results for ($($name,)*) {
            fn declare(signature: &mut Signature) {
                $(signature.results.push($name::TYPE);)*
            }
            #[inline(always)]
            fn set(self, frame: &mut Frame<'_>) -> Result<()> {
                $(if let Some(vacant) = frame.view.vacant($index) {
                    vacant.fill(self.$index.into_value());
                })*
                Ok(())
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);

macro_rules! attributes {
    ($($ty:ty, $words:literal, $code:expr, $pattern:pat => $value:expr;)*) => {
        $(impl FromAttribute for $ty {
            const TYPE: &'static str = $words;
            const CODE: Option<AttributeCode> = Some($code);
            fn from_attribute(attribute: &Attribute) -> Option<Self> {
                match attribute {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        })*
    };
}

attributes! {
    bool, "i1", AttributeCode::number(DType::I1), Attribute::I1(value) => *value;
    i8, "i8", AttributeCode::number(DType::I8), Attribute::I8(value) => *value;
    i16, "i16", AttributeCode::number(DType::I16), Attribute::I16(value) => *value;
    i32, "i32", AttributeCode::number(DType::I32), Attribute::I32(value) => *value;
    i64, "i64", AttributeCode::number(DType::I64), Attribute::I64(value) => *value;
    u8, "ui8", AttributeCode::number(DType::UI8), Attribute::UI8(value) => *value;
    u16, "ui16", AttributeCode::number(DType::UI16), Attribute::UI16(value) => *value;
    u32, "ui32", AttributeCode::number(DType::UI32), Attribute::UI32(value) => *value;
    u64, "ui64", AttributeCode::number(DType::UI64), Attribute::UI64(value) => *value;
    F16, "f16", AttributeCode::number(DType::F16), Attribute::F16(bits) => F16(*bits);
    BF16, "bf16", AttributeCode::number(DType::BF16), Attribute::BF16(bits) => BF16(*bits);
    f32, "f32", AttributeCode::number(DType::F32), Attribute::F32(value) => *value;
    f64, "f64", AttributeCode::number(DType::F64), Attribute::F64(value) => *value;
    DType, "a type", AttributeCode::TYPE, Attribute::Type(value) => *value;
    Name, "a string", AttributeCode::STRING, Attribute::String(text) => text.clone();
    Arc<Dense>, "a dense tensor", AttributeCode::DENSE,
        Attribute::Dense(dense) => Arc::new(dense.clone());
}

/// An attribute of any type.
impl FromAttribute for Arc<Attribute> {
    const TYPE: &'static str = "any attribute";
    const CODE: Option<AttributeCode> = None;
    fn from_attribute(attribute: &Attribute) -> Option<Self> {
        Some(Arc::new(attribute.clone()))
    }
}

/// A list whose elements are all of one type.
impl<T: FromAttribute> FromAttribute for Arc<[T]> {
    const TYPE: &'static str = "a list";
    const CODE: Option<AttributeCode> = match T::CODE {
        Some(element) => Some(element.list()),
        None => None,
    };
    fn from_attribute(attribute: &Attribute) -> Option<Self> {
        attribute.as_list()?.iter().map(T::from_attribute).collect()
    }
}
