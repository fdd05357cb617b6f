//! Builders of Modules: they number registers in BEF's order and sort attributes.

use crate::{
    Attribute, Dictionary, Function, FunctionId, FunctionKind, Kernel, KernelLocation, Module,
    Name, RegisterId,
};

impl Module {
    /// A module without functions.
    pub fn new() -> Module {
        Module::default()
    }

    /// Appends a function. Regions precede the function that contains them.
    pub fn add(&mut self, function: Function) -> FunctionId {
        let id = FunctionId(u32::try_from(self.functions.len()).unwrap_or(u32::MAX));
        self.functions.push(function);
        id
    }

    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions
            .iter()
            .find(|function| function.name == name && !name.is_empty())
    }
}

impl From<Function> for Module {
    /// A module of one function.
    fn from(function: Function) -> Module {
        Module {
            functions: vec![function],
            ..Module::default()
        }
    }
}

impl Function {
    /// A native function, whose body is in the host.
    pub fn native<T: Into<Name>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = T>,
        results: impl IntoIterator<Item = T>,
    ) -> Function {
        let registers: Vec<Name> = arguments.into_iter().map(Into::into).collect();
        Function {
            name: name.into(),
            kind: FunctionKind::Native,
            arguments: u32::try_from(registers.len()).unwrap_or(u32::MAX),
            registers,
            result_types: results.into_iter().map(Into::into).collect(),
            ..Function::default()
        }
    }

    /// The types of its arguments.
    pub fn argument_types(&self) -> &[Name] {
        &self.registers[..self.registers.len().min(self.arguments as usize)]
    }

    /// Whether its body is in the host.
    pub fn is_native(&self) -> bool {
        self.kind == FunctionKind::Native
    }

    /// Whether it is the region of a kernel.
    pub fn is_region(&self) -> bool {
        self.name.is_empty()
    }
}

impl Kernel {
    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        let index = self
            .attributes
            .binary_search_by(|(other, _)| other.as_str().cmp(name))
            .ok()?;
        self.attributes.get(index).map(|(_, attribute)| attribute)
    }
}

/// Builds one function, kernel by kernel. Functions that it references are added to the module
/// before it: adding returns their ids, and regions must precede it.
///
/// ```
/// use tenon_bef::{Function, FunctionBuilder, FunctionKind, KernelLocation, Module};
/// let mut module = Module::new();
/// let sink = module.add(Function::native("host.sink", ["i32"], []));
///
/// // A region that doubles its argument.
/// let mut body = FunctionBuilder::region();
/// let value = body.argument("i32");
/// let double = body.kernel("tfrt.add.i32").operands([value, value]).result("i32");
/// let body = module.add(body.returns([double]));
///
/// let mut main = FunctionBuilder::new("main", FunctionKind::Async);
/// main.attribute("tfrt.cost_threshold", 10i64);
/// let place = KernelLocation::FileLineCol { file: "main.py".into(), line: 3, column: 1 };
/// let three = main.kernel("tfrt.constant.i32").attribute("value", 3i32);
/// let three = three.location(place).result("i32");
/// let power = main.kernel("tfrt.repeat.i32").operands([three, three]).region(body);
/// let power = power.result("i32");
/// main.kernel("tfrt.call").operands([power]).function("callee", sink).done();
/// module.add(main.returns([power]));
///
/// let bytes = tenon_bef::encode(&module, &Default::default())?;
/// assert_eq!(tenon_bef::decode(&bytes)?, module);
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug)]
pub struct FunctionBuilder {
    function: Function,
}

impl FunctionBuilder {
    /// An empty function.
    pub fn new(name: impl Into<String>, kind: FunctionKind) -> Self {
        Self {
            function: Function {
                name: name.into(),
                kind,
                ..Function::default()
            },
        }
    }

    /// An empty region: an asynchronous function without a name.
    pub fn region() -> Self {
        Self::new("", FunctionKind::Async)
    }

    /// Sets the source location of the function.
    pub fn location(&mut self, location: KernelLocation) -> &mut Self {
        self.function.location = location;
        self
    }

    /// Sets the source location of the return.
    pub fn return_location(&mut self, location: KernelLocation) -> &mut Self {
        self.function.return_location = location;
        self
    }

    /// Adds an attribute of the function (`tfrt.cost_threshold`), replacing one of the same name.
    pub fn attribute(&mut self, name: impl Into<Name>, value: impl Into<Attribute>) -> &mut Self {
        insert(&mut self.function.attributes, name.into(), value.into());
        self
    }

    /// Adds an argument of a printed MLIR type. Arguments precede the registers that kernels
    /// define.
    ///
    /// # Panics
    /// If a kernel was added before.
    pub fn argument(&mut self, r#type: impl Into<Name>) -> RegisterId {
        assert!(
            self.function.kernels.is_empty(),
            "arguments are added before kernels"
        );
        self.function.arguments += 1;
        self.register(r#type.into())
    }

    /// Starts a kernel, which is added when its results are named.
    pub fn kernel(&mut self, name: impl Into<Name>) -> KernelBuilder<'_> {
        KernelBuilder {
            function: self,
            kernel: Kernel {
                name: name.into(),
                ..Kernel::default()
            },
        }
    }

    /// Finishes the function with the registers it returns.
    pub fn returns(mut self, results: impl IntoIterator<Item = RegisterId>) -> Function {
        self.function.results = results.into_iter().collect();
        self.function.result_types = (self.function.results.iter())
            .map(|register| {
                let r#type = self.function.registers.get(register.0 as usize);
                r#type.cloned().unwrap_or_else(|| "none".into())
            })
            .collect();
        self.function
    }

    fn register(&mut self, r#type: Name) -> RegisterId {
        let id = RegisterId(u32::try_from(self.function.registers.len()).unwrap_or(u32::MAX));
        self.function.registers.push(r#type);
        id
    }
}

/// Builds one kernel. Finished by [`done`](Self::done), [`result`](Self::result) or
/// [`results`](Self::results).
#[derive(Debug)]
#[must_use = "the kernel is added by `done`, `result` or `results`"]
pub struct KernelBuilder<'a> {
    function: &'a mut FunctionBuilder,
    kernel: Kernel,
}

impl KernelBuilder<'_> {
    /// Adds operands.
    pub fn operands(mut self, operands: impl IntoIterator<Item = RegisterId>) -> Self {
        self.kernel.operands.extend(operands);
        self
    }

    /// Adds an attribute, replacing one of the same name.
    pub fn attribute(mut self, name: impl Into<Name>, value: impl Into<Attribute>) -> Self {
        insert(&mut self.kernel.attributes, name.into(), value.into());
        self
    }

    /// Adds attributes.
    pub fn attributes<N: Into<Name>>(
        self,
        attributes: impl IntoIterator<Item = (N, Attribute)>,
    ) -> Self {
        attributes
            .into_iter()
            .fold(self, |kernel, (name, value)| kernel.attribute(name, value))
    }

    /// Adds a function reference under the attribute `name`. References are added sorted by name,
    /// regions last. A name that ends in `[]` is an element of a list of references.
    pub fn function(mut self, name: impl Into<Name>, function: FunctionId) -> Self {
        self.kernel.functions.push((name.into(), function));
        self
    }

    /// Adds a region.
    pub fn region(self, function: FunctionId) -> Self {
        self.function("", function)
    }

    /// Sets the source location of the kernel.
    pub fn location(mut self, location: KernelLocation) -> Self {
        self.kernel.location = location;
        self
    }

    /// Adds the kernel, which defines one register.
    pub fn result(self, r#type: impl Into<Name>) -> RegisterId {
        let [register] = self.results([r#type.into()]);
        register
    }

    /// Adds the kernel, which defines several registers.
    pub fn results<const N: usize, T: Into<Name>>(mut self, types: [T; N]) -> [RegisterId; N] {
        let registers = types.map(|r#type| self.function.register(r#type.into()));
        self.kernel.results.extend(registers);
        self.done();
        registers
    }

    /// Adds the kernel, which defines `count` registers of one type.
    pub fn result_list(self, r#type: &str, count: usize) -> Vec<RegisterId> {
        self.result_types(&vec![r#type; count])
    }

    /// Adds the kernel, which defines a register of each type.
    pub fn result_types(mut self, types: &[&str]) -> Vec<RegisterId> {
        let registers = types
            .iter()
            .map(|r#type| self.function.register((*r#type).into()));
        let registers: Vec<RegisterId> = registers.collect();
        self.kernel.results.extend(registers.iter().copied());
        self.done();
        registers
    }

    /// Adds the kernel without further results.
    pub fn done(self) {
        self.function.function.kernels.push(self.kernel);
    }
}

/// Inserts an attribute in the order of names.
fn insert(attributes: &mut Dictionary, name: Name, value: Attribute) {
    match attributes.binary_search_by(|(other, _)| other.cmp(&name)) {
        Ok(index) => attributes[index].1 = value,
        Err(index) => attributes.insert(index, (name, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_arguments_then_results() {
        let mut builder = FunctionBuilder::new("f", FunctionKind::Async);
        let chain = builder.argument("!tfrt.chain");
        let [quotient, rest] = builder.kernel("tfrt.div.i32").results(["i32", "i32"]);
        builder
            .kernel("sink")
            .operands([chain])
            .attribute("b", 1i32)
            .attribute("a", "x")
            .done();
        let function = builder.returns([rest, chain]);
        assert_eq!(
            (chain, quotient, rest),
            (RegisterId(0), RegisterId(1), RegisterId(2))
        );
        assert_eq!(function.registers, ["!tfrt.chain", "i32", "i32"]);
        assert_eq!(function.result_types, ["i32", "!tfrt.chain"]);
        assert_eq!(function.kernels[1].attributes[0].0, "a");
        assert_eq!(function.kernels[1].attribute("b"), Some(&Attribute::I32(1)));
        assert_eq!(function.kernels[1].attribute("c"), None);
    }
}
