//! The parser of the text form.

use super::elements::{from_fill, from_hex, from_list};
use super::lex::{Lexer, TextPosition, Token};
use crate::operator::operator;
use crate::ops::shapes::invalid;
use crate::{Attribute, Attributes, Graph, Node, ValueId};
use std::collections::HashMap;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, TensorType};

/// The maximum number of reported problems.
const MOST_ERRORS: usize = 20;

impl FromStr for Graph {
    type Err = Error;

    /// Parses the text form. Only the syntax is checked; [`verify`](crate::verify) checks the graph.
    /// Every line with a problem is reported, with its column.
    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text);
        parser.graph();
        match Error::from_all(parser.errors) {
            None => Ok(parser.graph),
            Some(error) => Err(error),
        }
    }
}

/// Parses statements of nodes, without a header. Every line with a problem is reported, with its column.
pub(crate) fn parse_nodes(text: &str) -> Result<Graph> {
    let mut parser = Parser::new(text);
    while parser.errors.len() < MOST_ERRORS {
        match parser.node_statement() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                parser.errors.push(error);
                parser.recover();
            }
        }
    }
    Error::from_all(parser.errors).map_or(Ok(parser.graph), Err)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The current token, and its position.
    token: Token,
    place: TextPosition,
    graph: Graph,
    values: HashMap<String, ValueId>,
    errors: Vec<Error>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let mut errors = Vec::new();
        // The position before the first token is line 1, column 1.
        let (token, place) = loop {
            match lexer.next() {
                Ok(found) => break found,
                Err(error) => {
                    errors.push(error);
                    lexer.skip_line();
                }
            }
        };
        let graph = Graph::default();
        Self {
            lexer,
            token,
            place,
            graph,
            values: HashMap::new(),
            errors,
        }
    }

    fn graph(&mut self) {
        if let Err(error) = self.skip_lines().and_then(|()| self.header()) {
            // Without a header the statements cannot be parsed.
            return self.errors.push(error);
        }
        loop {
            if self.errors.len() >= MOST_ERRORS {
                return;
            }
            match self.statement() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.errors.push(error);
                    self.recover();
                }
            }
        }
    }

    /// Continues after the line of a problem.
    fn recover(&mut self) {
        if self.lexer.failed() || !matches!(self.token, Token::Line | Token::End) {
            self.lexer.skip_line();
        }
        loop {
            match self.lexer.next() {
                Ok((token, place)) => {
                    (self.token, self.place) = (token, place);
                    return;
                }
                Err(error) => {
                    self.errors.push(error);
                    self.lexer.skip_line();
                }
            }
        }
    }

    fn header(&mut self) -> Result<()> {
        self.word("graph")?;
        self.graph.name = self.text()?;
        self.mark('(')?;
        self.graph.inputs = self.list(')', Self::typed_value)?;
        if self.token != Token::Arrow {
            return Err(self.unexpected("'->'"));
        }
        self.step()?;
        self.mark('(')?;
        self.graph.outputs = self.list(')', Self::typed_value)?;
        self.mark('{')
    }

    /// A statement; false after the closing brace.
    fn statement(&mut self) -> Result<bool> {
        self.skip_lines()?;
        match &self.token {
            Token::Mark('}') => {
                self.step()?;
                self.skip_lines()?;
                if self.token != Token::End {
                    return Err(self.unexpected("the end"));
                }
                return Ok(false);
            }
            Token::End => {
                let error = self.unexpected("'}'");
                self.errors.push(error);
                return Ok(false);
            }
            Token::Word(word) if word == "metadata" => self.metadata()?,
            Token::Word(word) if word == "const" => self.constant()?,
            Token::Word(word) if word == "value" => {
                self.step()?;
                self.typed_value()?;
            }
            _ => self.node()?,
        }
        if !matches!(self.token, Token::Line | Token::End | Token::Mark('}')) {
            return Err(self.unexpected("the end of the line"));
        }
        Ok(true)
    }

    /// A node without braces around it; false at the end of the text.
    fn node_statement(&mut self) -> Result<bool> {
        self.skip_lines()?;
        if self.token == Token::End {
            return Ok(false);
        }
        self.node()?;
        match self.token {
            Token::Line | Token::End => Ok(true),
            _ => Err(self.unexpected("the end of the line")),
        }
    }

    fn metadata(&mut self) -> Result<()> {
        self.step()?;
        let key = self.text()?;
        self.mark('=')?;
        let value = self.text()?;
        self.graph.metadata.insert(key, value);
        Ok(())
    }

    fn constant(&mut self) -> Result<()> {
        self.step()?;
        let place = self.place;
        let id = self.typed_value()?;
        self.mark('=')?;
        let value = self.graph.value(id);
        let ty = value.ty.clone().ok_or_else(|| {
            place.error(invalid(format!("constant '{}' has no type", value.name)))
        })?;
        let tensor = self.tensor(ty)?;
        if self.graph.value_mut(id).constant.replace(tensor).is_some() {
            let name = &self.graph.value(id).name;
            return Err(place.error(invalid(format!("constant '{name}' is defined twice"))));
        }
        Ok(())
    }

    fn node(&mut self) -> Result<()> {
        let mut outputs = Vec::new();
        let listed = matches!(&self.token, Token::Value(_))
            || matches!(&self.token, Token::Word(word) if word == "_");
        if listed {
            outputs = self.list('=', |parser| parser.operand(Self::typed_value))?;
        }
        let place = self.place;
        let Token::Word(name) = &self.token else {
            return Err(self.unexpected("an operator"));
        };
        let op = operator(name).ok_or_else(|| {
            place.error(Error::new(
                ErrorKind::Unsupported,
                format!("no operator is called '{name}'"),
            ))
        })?;
        self.step()?;
        self.mark('(')?;
        let inputs = self.list(')', |parser| parser.operand(Self::value))?;
        let mut attributes = Attributes::new();
        if self.token == Token::Mark('{') {
            self.step()?;
            for (name, value) in self.list('}', Self::attribute)? {
                attributes.set(name, value);
            }
        }
        let name = match &mut self.token {
            Token::Node(name) => {
                let name = std::mem::take(name);
                self.step()?;
                name
            }
            _ => String::new(),
        };
        self.graph.nodes.push(Node {
            name,
            op,
            attributes,
            inputs,
            outputs,
        });
        Ok(())
    }

    fn attribute(&mut self) -> Result<(String, Attribute)> {
        let name = match &mut self.token {
            Token::Word(name) | Token::Text(name) => std::mem::take(name),
            _ => return Err(self.unexpected("the name of an attribute")),
        };
        self.step()?;
        self.mark('=')?;
        let value = match &self.token {
            Token::Mark('[') => self.attribute_list()?,
            Token::Text(_) => Attribute::String(self.text()?),
            Token::Word(word) if word == "floats" || word == "strings" => {
                let floats = word == "floats";
                self.step()?;
                self.mark('[')?;
                self.mark(']')?;
                if floats {
                    Attribute::Floats(Vec::new())
                } else {
                    Attribute::Strings(Vec::new())
                }
            }
            Token::Word(word) if word.parse::<DataType>().is_ok() => {
                let ty = self.ty()?;
                Attribute::Tensor(self.tensor(ty)?)
            }
            _ => self.number_attribute()?,
        };
        Ok((name, value))
    }

    fn number_attribute(&mut self) -> Result<Attribute> {
        let place = self.place;
        let text = self.number()?;
        if is_float(&text) {
            return Ok(Attribute::Float(float(&text, place)?));
        }
        Ok(Attribute::Int(integer(&text, place)?))
    }

    /// A list of strings, of integers, or of floats when one of them is no integer.
    fn attribute_list(&mut self) -> Result<Attribute> {
        self.step()?;
        if matches!(self.token, Token::Text(_)) {
            return Ok(Attribute::Strings(self.list(']', Self::text)?));
        }
        let items = self.list(']', |parser| Ok((parser.place, parser.number()?)))?;
        if items.iter().any(|(_, text)| is_float(text)) {
            let values = items.iter().map(|(place, text)| float(text, *place));
            return Ok(Attribute::Floats(values.collect::<Result<_>>()?));
        }
        let values = items.iter().map(|(place, text)| integer(text, *place));
        Ok(Attribute::Ints(values.collect::<Result<_>>()?))
    }

    /// The elements of a tensor of type `ty`.
    fn tensor(&mut self, ty: TensorType) -> Result<Tensor> {
        let place = self.place;
        let form = match &self.token {
            Token::Mark('[') => String::new(),
            Token::Word(word) => word.clone(),
            _ => return Err(self.unexpected("elements")),
        };
        self.step()?;
        let tensor = match &*form {
            "" => {
                let texts = self.list(']', Self::number)?;
                from_list(ty, &texts.iter().map(String::as_str).collect::<Vec<_>>())
            }
            "fill" => from_fill(ty, &self.number()?),
            "hex" => from_hex(ty, &self.text()?),
            "hash" => {
                self.text()?;
                Err(invalid("the elements were left out when this was written")
                    .help("write the full text of the graph to read it back"))
            }
            _ => Err(invalid("elements are missing")
                .expected("a list, fill, hex")
                .found(format_args!("'{form}'"))),
        };
        tensor.map_err(|error| place.error(error))
    }

    /// `_`, or an item that `each` parses.
    fn operand(&mut self, each: impl Fn(&mut Self) -> Result<ValueId>) -> Result<Option<ValueId>> {
        if matches!(&self.token, Token::Word(word) if word == "_") {
            self.step()?;
            return Ok(None);
        }
        each(self).map(Some)
    }

    /// `%name`, with or without `: type`. The first occurrence of a name adds the value.
    fn typed_value(&mut self) -> Result<ValueId> {
        let place = self.place;
        let id = self.value()?;
        if self.token != Token::Mark(':') {
            return Ok(id);
        }
        self.step()?;
        let ty = self.ty()?;
        let value = self.graph.value_mut(id);
        match &value.ty {
            Some(known) if *known != ty => Err(place.error(
                invalid(format!("value '{}' is given two types", value.name))
                    .expected(known)
                    .found(&ty),
            )),
            _ => {
                value.ty = Some(ty);
                Ok(id)
            }
        }
    }

    fn value(&mut self) -> Result<ValueId> {
        let Token::Value(name) = &mut self.token else {
            return Err(self.unexpected("a value such as %x"));
        };
        let name = std::mem::take(name);
        self.step()?;
        if let Some(&id) = self.values.get(&name) {
            return Ok(id);
        }
        let id = self.graph.add_value(name.clone(), None);
        self.values.insert(name, id);
        Ok(id)
    }

    fn ty(&mut self) -> Result<TensorType> {
        let place = self.place;
        let Token::Word(name) = &self.token else {
            return Err(self.unexpected("a type"));
        };
        let dtype: DataType = name.parse().map_err(|error| place.error(error))?;
        self.step()?;
        self.mark('[')?;
        let dims: Vec<usize> = self.list(']', |parser| {
            let place = parser.place;
            let text = parser.number()?;
            text.parse().map_err(|_| {
                place.error(
                    invalid("an extent is not a whole number").found(format_args!("'{text}'")),
                )
            })
        })?;
        TensorType::new(dtype, dims).map_err(|error| place.error(error))
    }

    fn text(&mut self) -> Result<String> {
        let Token::Text(text) = &mut self.token else {
            return Err(self.unexpected("a quoted text"));
        };
        let text = std::mem::take(text);
        self.step()?;
        Ok(text)
    }

    /// The text of a number, or of `inf`, `nan`, `true` and `false`.
    fn number(&mut self) -> Result<String> {
        let number = match &mut self.token {
            Token::Number(text) => std::mem::take(text),
            Token::Word(word) if ["inf", "nan", "true", "false"].contains(&&**word) => {
                std::mem::take(word)
            }
            _ => return Err(self.unexpected("a number")),
        };
        self.step()?;
        Ok(number)
    }

    /// Items separated by commas, up to `end`; line breaks are allowed between them.
    fn list<T>(&mut self, end: char, each: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.skip_lines()?;
        while self.token != Token::Mark(end) {
            items.push(each(self)?);
            self.skip_lines()?;
            if self.token != Token::Mark(end) {
                if self.token != Token::Mark(',') {
                    return Err(self.unexpected(&format!("',' or '{end}'")));
                }
                self.step()?;
                self.skip_lines()?;
            }
        }
        self.step()?;
        Ok(items)
    }

    fn word(&mut self, word: &str) -> Result<()> {
        match &self.token {
            Token::Word(found) if found == word => self.step(),
            _ => Err(self.unexpected(&format!("'{word}'"))),
        }
    }

    fn mark(&mut self, mark: char) -> Result<()> {
        match self.token {
            Token::Mark(found) if found == mark => self.step(),
            _ => Err(self.unexpected(&format!("'{mark}'"))),
        }
    }

    fn skip_lines(&mut self) -> Result<()> {
        while self.token == Token::Line {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        (self.token, self.place) = self.lexer.next()?;
        Ok(())
    }

    fn unexpected(&self, expected: &str) -> Error {
        let error = invalid("the text is not that of a graph")
            .expected(expected)
            .found(&self.token);
        self.place.error(error)
    }
}

fn is_float(text: &str) -> bool {
    text.contains(['.', 'e', 'E', 'n'])
}

fn float(text: &str, place: TextPosition) -> Result<f32> {
    text.parse()
        .map_err(|_| place.error(invalid("this is not a number").found(format_args!("'{text}'"))))
}

fn integer(text: &str, place: TextPosition) -> Result<i64> {
    text.parse().map_err(|_| {
        place.error(invalid("this is not an integer of 64 bits").found(format_args!("'{text}'")))
    })
}
