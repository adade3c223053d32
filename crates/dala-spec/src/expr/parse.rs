//! Text to expression: a tokeniser and a recursive-descent parser.

use std::sync::Arc;

use super::{Expr, ExprError, Function, Infix, Location, Node, Overflow};
use crate::{DType, nearest};

/// How deeply an expression may nest: enough for people, and short of any stack's end.
const MAX_DEPTH: usize = 100;
/// How many expressions may be inside each other. A sum is as high as it has terms, and everything that looks at an expression
/// goes down to its bottom: on stacks as small as those of Elixir's schedulers.
const MAX_HEIGHT: usize = 250;

/// The names an expression's text may use.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    inputs: Vec<String>,
    params: Vec<String>,
}

impl Scope {
    /// These inputs and params.
    pub fn new<I, P>(inputs: I, params: P) -> Scope
    where
        I: IntoIterator<Item: Into<String>>,
        P: IntoIterator<Item: Into<String>>,
    {
        Scope {
            inputs: inputs.into_iter().map(Into::into).collect(),
            params: params.into_iter().map(Into::into).collect(),
        }
    }
}

impl Expr {
    /// Parses `text`, in which the names of `scope` may appear.
    ///
    /// # Errors
    ///
    /// The first thing that does not parse, with its place.
    ///
    /// ```
    /// use dala_spec::{Expr, Scope};
    /// let error = Expr::parse("clamp(x * gian, 0, 1)", &Scope::new(["x"], ["gain"])).unwrap_err();
    /// assert_eq!(error.to_string(), "\
    /// unknown name `gian`, did you mean `gain`?
    ///   clamp(x * gian, 0, 1)
    ///             ^^^^");
    /// ```
    pub fn parse(text: &str, scope: &Scope) -> Result<Expr, ExprError> {
        let source: Arc<str> = text.into();
        let tokens = tokenise(&source)?;
        let mut parser = Parser { source, tokens, next: 0, depth: 0, scope, locals: Vec::new() };
        let expr = parser.with_locals()?;
        match parser.peek() {
            Token::End => Ok(expr),
            token => Err(parser.error_here(format!("expected an operator or the end, found {}", token.describe()))),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i64),
    Float(f64),
    Name(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Int(value) => format!("`{value}`"),
            Token::Float(value) => format!("`{value:?}`"),
            Token::Name(name) => format!("`{name}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Longer symbols first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 26] = [
    "<=", ">=", "==", "!=", "&&", "||", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "!", "(", ")", ",", ".", "=",
    "&", "|", "^", "~", ";",
];

/// Names that mean the same in every expression.
const WORDS: [&str; 5] = ["index", "channel", "true", "false", "let"];

fn tokenise(source: &Arc<str>) -> Result<Vec<(Token, usize, usize)>, ExprError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let error =
        |message: String, start, end| ExprError::new(message, &Some(Location { source: source.clone(), start, end }));
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if first.is_ascii_digit() {
            let len = number_len(rest);
            let text = &rest[..len];
            let token = if let Some(digits) = text.strip_prefix("0x") {
                let value = u64::from_str_radix(digits, 16).ok().and_then(|value| i64::try_from(value).ok());
                value.map(Token::Int).ok_or_else(|| format!("`{text}` does not fit 64 bits"))
            } else if text.contains(['.', 'e', 'E']) {
                match text.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(Token::Float(value)),
                    Ok(_) => Err(format!("`{text}` is too large for a float")),
                    Err(_) => Err(format!("`{text}` is not a number")),
                }
            } else {
                text.parse().map(Token::Int).map_err(|_| format!("`{text}` does not fit 64 bits"))
            };
            tokens.push((token.map_err(|message| error(message, at, at + len))?, at, at + len));
            at += len;
        } else if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push((Token::Name(rest[..len].to_owned()), at, at + len));
            at += len;
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push((Token::Symbol(symbol), at, at + symbol.len()));
            at += symbol.len();
        } else {
            return Err(error(format!("unexpected character `{first}`"), at, at + first.len_utf8()));
        }
    }
    tokens.push((Token::End, source.len(), source.len()));
    Ok(tokens)
}

/// The length of the number at the start of `text`: digits, a fraction, an exponent.
fn number_len(text: &str) -> usize {
    if let Some(digits) = text.strip_prefix("0x") {
        return 2 + digits.bytes().take_while(u8::is_ascii_hexdigit).count();
    }
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut len = digits(0);
    if text[len..].starts_with('.') && digits(len + 1) > 0 {
        len += 1 + digits(len + 1);
    }
    if text[len..].starts_with(['e', 'E']) {
        let sign = usize::from(text[len + 1..].starts_with(['+', '-']));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    len
}

struct Parser<'a> {
    source: Arc<str>,
    tokens: Vec<(Token, usize, usize)>,
    next: usize,
    depth: usize,
    scope: &'a Scope,
    /// Values that were given names.
    locals: Vec<String>,
}

impl Parser<'_> {
    fn peek(&self) -> Token {
        self.tokens[self.next].0.clone()
    }

    fn start(&self) -> usize {
        self.tokens[self.next].1
    }

    /// The end of the token read last.
    fn end(&self) -> usize {
        self.next.checked_sub(1).map_or(0, |last| self.tokens[last].2)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = self.peek() == Token::Symbol(SYMBOLS.into_iter().find(|s| *s == symbol).unwrap_or(""));
        if found {
            self.next += 1;
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExprError> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.error_here(format!("expected `{symbol}`, found {}", self.peek().describe())))
    }

    fn error_here(&self, message: String) -> ExprError {
        let (_, start, end) = self.tokens[self.next];
        self.error_at(message, start, end)
    }

    fn error_at(&self, message: String, start: usize, end: usize) -> ExprError {
        ExprError::new(message, &Some(Location { source: self.source.clone(), start, end }))
    }

    /// An expression that begins at `start` and ends with the token read last.
    fn node(&self, node: Node, start: usize) -> Result<Expr, ExprError> {
        let at = Location { source: self.source.clone(), start, end: self.end() };
        let expr = Expr::at(node, Some(at));
        match expr.height > MAX_HEIGHT {
            true => Err(self.error_at(
                format!("more than {MAX_HEIGHT} operations on each other's results"),
                start,
                self.end(),
            )),
            false => Ok(expr),
        }
    }

    /// `let name = value;`, as often as it comes, and then an expression.
    fn with_locals(&mut self) -> Result<Expr, ExprError> {
        let mut named = Vec::new();
        while self.peek() == Token::Name("let".to_owned()) {
            let start = self.start();
            self.advance();
            let Token::Name(name) = self.peek() else {
                return Err(self.error_here(format!("expected a name, found {}", self.peek().describe())));
            };
            let known = self.scope.inputs.iter().chain(&self.scope.params).chain(&self.locals).any(|own| *own == name);
            if known || WORDS.contains(&name.as_str()) {
                return Err(self.error_here(format!("`{name}` means something already")));
            }
            self.advance();
            self.expect("=")?;
            let value = self.any()?;
            self.expect(";")?;
            self.locals.push(name.clone());
            named.push((name, value, start));
            if named.len() > MAX_HEIGHT {
                return Err(self.error_here(format!("more than {MAX_HEIGHT} values with names")));
            }
        }
        let mut expr = self.any()?;
        while let Some((name, value, start)) = named.pop() {
            expr = self.node(Node::Let(name, value, expr), start)?;
        }
        Ok(expr)
    }

    fn any(&mut self) -> Result<Expr, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_here(format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let expr = self.infix(0);
        self.depth -= 1;
        expr
    }

    /// Infix operators that bind at least so strongly.
    fn infix(&mut self, least: u8) -> Result<Expr, ExprError> {
        let start = self.start();
        let mut left = self.prefix()?;
        let mut compared = false;
        while let Some((_, op, strength)) = self.operator().filter(|(_, _, strength)| *strength >= least) {
            let (_, from, to) = self.tokens[self.next];
            self.next += 1;
            if matches!(op, Infix::Compare(_)) && std::mem::replace(&mut compared, true) {
                return Err(self.error_at("comparisons do not chain: use `&&`".to_owned(), from, to));
            }
            compared &= matches!(op, Infix::Compare(_));
            let right = self.infix(strength + 1)?;
            left = self.node(Node::Infix(op, left, right), start)?;
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, Infix, u8)> {
        let Token::Symbol(symbol) = self.peek() else { return None };
        Infix::ALL.into_iter().find(|(own, ..)| *own == symbol)
    }

    fn prefix(&mut self) -> Result<Expr, ExprError> {
        let start = self.start();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error_here(format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let expr = if self.take("-") {
            let operand = self.prefix()?;
            // A minus before a number belongs to the number, so that the smallest integer can be written.
            match *operand.node {
                Node::Int(value) => self.node(Node::Int(value.wrapping_neg()), start)?,
                Node::Float(value) => self.node(Node::Float(-value), start)?,
                _ => self.node(Node::Negate(operand), start)?,
            }
        } else if self.take("!") {
            let operand = self.prefix()?;
            self.node(Node::Not(operand), start)?
        } else if self.take("~") {
            let operand = self.prefix()?;
            self.node(Node::BitNot(operand), start)?
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// A primary, perhaps with a channel: `x.r`.
    fn postfix(&mut self) -> Result<Expr, ExprError> {
        let start = self.start();
        let mut expr = self.primary()?;
        while self.take(".") {
            let channel = match self.peek() {
                Token::Name(name) => ["r", "g", "b", "a"].into_iter().position(|channel| channel == name),
                _ => None,
            };
            let Some(channel) = channel else {
                return Err(self.error_here(format!("expected r, g, b or a, found {}", self.peek().describe())));
            };
            self.advance();
            expr = self.node(Node::ChannelOf(expr, channel), start)?;
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, ExprError> {
        let start = self.start();
        match self.peek() {
            Token::Int(value) => {
                self.advance();
                self.node(Node::Int(value), start)
            }
            Token::Float(value) => {
                self.advance();
                self.node(Node::Float(value), start)
            }
            Token::Name(name) => {
                self.advance();
                if self.take("(") { self.call(&name, start) } else { self.name(&name, start) }
            }
            Token::Symbol("(") => {
                self.advance();
                let inner = self.any()?;
                self.expect(")")?;
                Ok(inner)
            }
            token => Err(self.error_here(format!("expected a value, found {}", token.describe()))),
        }
    }

    fn name(&self, name: &str, start: usize) -> Result<Expr, ExprError> {
        let node = if self.locals.iter().any(|local| local == name) {
            Node::Local(name.to_owned())
        } else if self.scope.inputs.iter().any(|input| input == name) {
            Node::Input(name.to_owned())
        } else if self.scope.params.iter().any(|param| param == name) {
            Node::Param(name.to_owned())
        } else {
            match name {
                "index" => Node::Index,
                "channel" => Node::Channel,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                _ => return Err(self.unknown(name, start)),
            }
        };
        self.node(node, start)
    }

    fn unknown(&self, name: &str, start: usize) -> ExprError {
        let end = start + name.len();
        if name == "let" {
            return self.error_at("`let` stands at the beginning: `let a = x * x; a + 1`".to_owned(), start, end);
        }
        let callable = Function::from_name(name).is_some() || Overflow::cast_from_name(name).is_some();
        if callable || ["coord", "dim", "gather"].contains(&name) {
            return self.error_at(format!("`{name}` is a function: write `{name}(…)`"), start, end);
        }
        let own = self.scope.inputs.iter().chain(&self.scope.params).chain(&self.locals).map(String::as_str);
        let candidates = own.chain(WORDS);
        match nearest(name, candidates) {
            Some(close) => self.error_at(format!("unknown name `{name}`, did you mean `{close}`?"), start, end),
            None => self.error_at(format!("unknown name `{name}`"), start, end),
        }
    }

    /// The arguments and the meaning of a call; its name and `(` are read.
    fn call(&mut self, name: &str, start: usize) -> Result<Expr, ExprError> {
        let name_end = start + name.len();
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.any()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        let arity = |parser: &Self, min: usize, max: usize| {
            if (min..=max).contains(&arguments.len()) {
                return Ok(());
            }
            let wanted = if min == max { format!("{min}") } else { format!("{min} or {max}") };
            let plural = if max == 1 { "" } else { "s" };
            let found = arguments.len();
            let message = format!("`{name}` takes {wanted} argument{plural}, found {found}");
            Err(parser.error_at(message, start, name_end))
        };
        if let Some(function) = Function::from_name(name) {
            arity(self, function.arity().0, function.arity().1)?;
            return self.node(Node::Call(function, arguments), start);
        }
        if let Some((overflow, dtype)) = Overflow::cast_from_name(name) {
            arity(self, 1, 1)?;
            return self.node(Node::Cast(overflow, dtype, arguments.remove(0)), start);
        }
        match name {
            "coord" | "dim" => {
                arity(self, 1, 1)?;
                let axis = self.small_literal(&arguments[0], "an axis")?;
                self.node(if name == "coord" { Node::Coord(axis) } else { Node::Dim(axis) }, start)
            }
            "channel" => {
                arity(self, 2, 2)?;
                let channel = self.small_literal(&arguments[1], "a channel")?;
                self.node(Node::ChannelOf(arguments.swap_remove(0), channel), start)
            }
            "gather" => {
                arity(self, 2, 2)?;
                let index = arguments.remove(1);
                self.node(Node::Gather(arguments.remove(0), index), start)
            }
            _ => {
                let names = Function::all().map(Function::name);
                let names =
                    names.chain(DType::ALL.into_iter().map(DType::name)).chain(["coord", "dim", "channel", "gather"]);
                let hint = nearest(name, names).map(|close| format!(", did you mean `{close}`?")).unwrap_or_default();
                Err(self.error_at(format!("unknown function `{name}`{hint}"), start, name_end))
            }
        }
    }

    fn small_literal(&self, expr: &Expr, what: &str) -> Result<usize, ExprError> {
        match *expr.node {
            Node::Int(value @ 0..=255) => Ok(value as usize),
            _ => Err(ExprError::new(format!("{what} is a whole number from 0, written out"), &expr.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expr, ExprError> {
        Expr::parse(text, &Scope::new(["x", "y"], ["gain"]))
    }

    #[test]
    fn prints_what_it_read() {
        for text in [
            "clamp(x * gain + 1, 0, 1)",
            "x - (y - 1)",
            "x - y - 1",
            "-x * 2",
            "-(x * 2)",
            "select(x > 0 && !(y <= 1), x, y)",
            "f32(coord(1)) / f32(dim(1))",
            "x.r * 0.25 + channel",
            "index % 2",
            "u8(x)",
            "1e-10 + x * 0.1",
            "(x < y) == (y < x)",
            "gather(x, s32(y) + 1)",
            "x & 255 | y << 8 ^ ~x >> 3",
            "(x | 1) * 2 - (y & 3)",
            "x & 1 == 0 || (x >> 1) - 1 < y",
            "wrap_u8(x + 1) + saturate_s32(y)",
            "atan2(x, y) + rem(x, y) - mod(x, y)",
            "select(is_nan(x), 0, minimum(x, y))",
            "let a = x * gain; let b = a + 1; a / b",
        ] {
            let printed = parse(text).unwrap().to_string();
            assert_eq!(printed, text);
            assert_eq!(parse(&printed).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn errors_point_at_the_character() {
        for (text, message, span) in [
            ("x +", "expected a value, found the end", (3, 3)),
            ("x $ y", "unexpected character `$`", (2, 3)),
            ("clmap(x, 0, 1)", "unknown function `clmap`, did you mean `clamp`?", (0, 5)),
            ("clamp(x, 0)", "`clamp` takes 3 arguments, found 2", (0, 5)),
            ("x y", "expected an operator or the end, found `y`", (2, 3)),
            ("0 < x < 1", "comparisons do not chain: use `&&`", (6, 7)),
            ("(x", "expected `)`, found the end", (2, 2)),
            ("é + x", "unknown name `é`", (0, 1)),
            ("x + é", "unknown name `é`", (4, 5)),
            ("relu * 2", "`relu` is a function: write `relu(…)`", (0, 4)),
            ("coord(x)", "an axis is a whole number from 0, written out", (6, 7)),
            ("99999999999999999999", "`99999999999999999999` does not fit 64 bits", (0, 20)),
            ("0x10000000000000000", "`0x10000000000000000` does not fit 64 bits", (0, 19)),
            ("0x", "`0x` does not fit 64 bits", (0, 2)),
            ("let x = 1; x", "`x` means something already", (4, 5)),
            ("let a = x a", "expected `;`, found `a`", (10, 11)),
            ("let a = b; a", "unknown name `b`", (8, 9)),
            ("(let a = x; a)", "`let` stands at the beginning: `let a = x * x; a + 1`", (1, 4)),
            ("wrap_f32(x)", "unknown function `wrap_f32`", (0, 8)),
            ("x + 7e308", "`7e308` is too large for a float", (4, 9)),
            ("", "expected a value, found the end", (0, 0)),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.message.as_str(), error.span), (message, Some(span)), "in {text}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        for text in ["(".repeat(100_000), "-".repeat(100_000), format!("x{}", " + x".repeat(100_000))] {
            assert!(parse(&text).is_err());
        }
    }

    /// Everything that looks at an expression, on a thread with the stack of one of Elixir's schedulers for long work.
    fn on_a_small_stack(text: String) -> Result<(), ExprError> {
        let work = move || {
            let scope = Scope::new(["x", "y"], ["gain"]);
            let expr = Expr::parse(&text, &scope)?;
            let _ = (expr.to_string(), expr.tolerance(|_| false), expr.only_gathers("x"));
            let spec = crate::KernelSpec::pointwise("k").input("x", crate::FLOATS).input("y", crate::FLOATS);
            let spec = spec.param(crate::param("gain", crate::ParamKind::Number).default(1));
            let ty = crate::TensorType::new(DType::F32, [3]);
            let signature = crate::validate(&spec, &[ty.clone(), ty.clone()], &ty, &crate::Params::new()).unwrap();
            crate::Program::build(&expr.with_inputs(&[("y", Expr::input("x"))]), &["x", "y"], &signature).map(drop)
        };
        std::thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap()
    }

    /// In bytes; Elixir's have 320 KiB.
    const STACK: usize = 256 << 10;

    #[test]
    fn what_is_read_needs_little_stack() {
        let nested = |open: &str, close: &str| {
            let text = |times: usize| format!("{}x{}", open.repeat(times), close.repeat(times));
            // As deep as it goes.
            let most = (1..300).rev().find(|times| parse(&text(*times)).is_ok()).unwrap();
            on_a_small_stack(text(most)).unwrap();
            assert!(on_a_small_stack(text(most + 1)).is_err(), "{open}");
        };
        nested("(", ")");
        nested("-", "");
        nested("", " + x");
        nested("", " * y - 1");
        nested("~s32(", ")");
        nested("(1 | s32(", "))");
        nested("min(1, ", ")");
        nested("select(x > 1 && y < 2, ", ", 1 + gain)");
        nested("clamp(", " + 1, 0, 1)");
        nested("gelu(", ")");
        nested("(1 + ", ")");
        nested("f32(s32(", "))");
        nested("(", " + x * y + x * y)");
        nested("gather(x, s32(", "))");
        let named = |count: usize| -> String {
            let next = |text: String, at: usize| format!("{text}let a{at} = a{0} * a{0} + x; ", at - 1);
            (1..count).fold("let a0 = x * y; ".to_owned(), next) + &format!("a{}", count - 1)
        };
        on_a_small_stack(named(200)).unwrap();
        assert!(on_a_small_stack(named(1000)).is_err());
        for long in [" + x", ".r", " && true", " < 1"] {
            assert!(on_a_small_stack(format!("x{}", long.repeat(100_000))).is_err());
        }
        // Every bracket begins a sum that is inside the next.
        let tower = format!("{}x{}", "(".repeat(40), format!("{})", " + x".repeat(900)).repeat(40));
        assert!(on_a_small_stack(tower).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse(&text).map_err(|error| error.to_string());
        }

        #[test]
        fn no_token_soup_panics(tokens in proptest::collection::vec(proptest::sample::select(vec![
            "x", "gain", "(", ")", ",", "+", "-", "*", "/", "%", "<", "==", "&&", "!", "&", "|", "^", "~", "<<", ">>", ".", "r", "1", "2.5", "min", "coord", "f32", "select",
        ]), 0..30)) {
            let _ = parse(&tokens.join(" ")).map_err(|error| error.to_string());
        }
    }
}
