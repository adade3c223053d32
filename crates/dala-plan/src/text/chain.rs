//! Kernels in a row: `blur(radius=3) | sharpen(amount=0.5) | grayscale`.

use std::ops::Range;

use dala_spec::{ParamValue, Params};

use super::{INPUT, OUTPUT, PipelineText, TextError, number};
use crate::{PipelineSpec, StageSpec};

pub(super) fn read(text: &str) -> Result<PipelineText, TextError> {
    let mut reader = Reader { text, at: 0 };
    let mut calls = vec![reader.call("")?];
    loop {
        let (token, at) = reader.next()?;
        match token {
            Token::Symbol('|') => calls.push(reader.call(" after `|`")?),
            Token::End => break,
            other => {
                let expected = if text[..at.start].trim_end().ends_with(')') { "`|`" } else { "`(`, `|`" };
                return Err(reader.fail(format!("expected {expected} or the end, found {}", other.text()), at));
            }
        }
    }
    let mut spec = PipelineSpec::default();
    let mut source = number(&mut spec.cells, INPUT);
    let last = calls.len() - 1;
    for (index, (kernel, params)) in calls.into_iter().enumerate() {
        let name = if index == last { OUTPUT.to_owned() } else { format!("t{index}") };
        let output = number(&mut spec.cells, &name);
        spec.stages.push(StageSpec::Run { kernel, inputs: vec![source], outputs: vec![output], params });
        source = output;
    }
    Ok(PipelineText { spec })
}

enum Token<'a> {
    /// A kernel, a param or a word.
    Name(&'a str),
    /// Something that starts like a number.
    Number(&'a str),
    Symbol(char),
    End,
}

impl Token<'_> {
    fn text(&self) -> String {
        match self {
            Token::Name(text) | Token::Number(text) => format!("`{text}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    /// How many bytes were read.
    at: usize,
}

impl<'a> Reader<'a> {
    fn fail(&self, message: impl Into<String>, at: Range<usize>) -> TextError {
        TextError::new(message, self.text, at)
    }

    fn next(&mut self) -> Result<(Token<'a>, Range<usize>), TextError> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            // Under the place where something is missing, not behind the spaces after it.
            let end = self.text.trim_end().len();
            return Ok((Token::End, end..end));
        };
        let (token, len) = if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(&rest[..len]), len)
        } else if first.is_ascii_digit() || "+-.".contains(first) {
            let len = number_len(rest);
            (Token::Number(&rest[..len]), len)
        } else if "|(),=[]".contains(first) {
            (Token::Symbol(first), 1)
        } else {
            let hint = if "'\"`".contains(first) { ": words are written without quotes" } else { "" };
            return Err(self.fail(format!("unexpected character `{first}`{hint}"), start..start + first.len_utf8()));
        };
        self.at = start + len;
        Ok((token, start..start + len))
    }

    /// What comes next, without reading it.
    fn peek(&mut self) -> Result<Token<'a>, TextError> {
        let at = self.at;
        let token = self.next();
        self.at = at;
        token.map(|(token, _)| token)
    }

    /// A kernel and its params.
    fn call(&mut self, place: &str) -> Result<(String, Params), TextError> {
        let (token, at) = self.next()?;
        let Token::Name(kernel) = token else {
            let message = match (&token, self.text.trim()) {
                (Token::End, "") => "the chain is empty: write a kernel, such as `blur(radius=3)`".to_owned(),
                _ => format!("expected a kernel{place}, found {}", token.text()),
            };
            return Err(self.fail(message, at));
        };
        let mut params = Params::new();
        // What is wrong behind the name is the caller's to say.
        if matches!(self.peek(), Ok(Token::Symbol('('))) {
            self.next()?;
            params = self.params()?;
        }
        Ok((kernel.to_owned(), params))
    }

    /// Params up to and with `)`.
    fn params(&mut self) -> Result<Params, TextError> {
        let mut params = Params::new();
        loop {
            let (token, at) = self.next()?;
            let name = match token {
                Token::Name(name) => name,
                Token::Symbol(')') => return Ok(params),
                Token::Number(value) => {
                    return Err(self.fail(format!("params have names: write `name={value}`"), at));
                }
                other => return Err(self.fail(format!("expected a param or `)`, found {}", other.text()), at)),
            };
            if params.iter().any(|(own, _)| own == name) {
                return Err(self.fail(format!("the param `{name}` is given twice"), at));
            }
            match self.next()? {
                (Token::Symbol('='), _) => {}
                (other, at) => {
                    return Err(self.fail(format!("expected `=` after `{name}`, found {}", other.text()), at));
                }
            }
            params = params.with(name, self.value(name)?);
            match self.next()? {
                (Token::Symbol(','), _) => {}
                (Token::Symbol(')'), _) => return Ok(params),
                (other, at) => return Err(self.fail(format!("expected `,` or `)`, found {}", other.text()), at)),
            }
        }
    }

    fn value(&mut self, param: &str) -> Result<ParamValue, TextError> {
        let (token, at) = self.next()?;
        match token {
            Token::Name("true") => Ok(ParamValue::Bool(true)),
            Token::Name("false") => Ok(ParamValue::Bool(false)),
            Token::Name(name @ ("inf" | "nan")) | Token::Number(name) => self.number(name, at),
            Token::Name(word) => Ok(ParamValue::Enum(word.to_owned())),
            Token::Symbol('[') => self.list(']'),
            Token::Symbol('(') => self.list(')'),
            other => Err(self.fail(format!("expected a value for `{param}`, found {}", other.text()), at)),
        }
    }

    /// Numbers up to and with `close`.
    fn list(&mut self, close: char) -> Result<ParamValue, TextError> {
        let mut numbers = Vec::new();
        loop {
            let (token, at) = self.next()?;
            match token {
                Token::Name(name @ ("inf" | "nan")) | Token::Number(name) => numbers.push(self.number(name, at)?),
                Token::Symbol(symbol) if symbol == close => break,
                other => {
                    let message = format!("expected a number or `{close}` in a list, found {}", other.text());
                    return Err(self.fail(message, at));
                }
            }
            match self.next()? {
                (Token::Symbol(','), _) => {}
                (Token::Symbol(symbol), _) if symbol == close => break,
                (other, at) => {
                    return Err(self.fail(format!("expected `,` or `{close}`, found {}", other.text()), at));
                }
            }
        }
        Ok(list(numbers))
    }

    fn number(&self, text: &str, at: Range<usize>) -> Result<ParamValue, TextError> {
        if let Ok(whole) = text.parse() {
            return Ok(ParamValue::Int(whole));
        }
        if !text.contains(|c: char| !c.is_ascii_digit() && !"+-".contains(c)) && text.len() > 1 {
            return Err(self.fail(format!("`{text}` does not fit 64 bits: write it as `{text}.0`"), at));
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => {
                Err(self.fail(format!("`{text}` is too large for a float"), at))
            }
            Ok(float) => Ok(ParamValue::Float(float)),
            Err(_) => Err(self.fail(format!("`{text}` is not a number"), at)),
        }
    }
}

/// Integers if all of them are; no numbers at all fit every kind of list as integers.
pub(super) fn list(numbers: Vec<ParamValue>) -> ParamValue {
    let whole: Option<Vec<i64>> =
        numbers.iter().map(|number| if let ParamValue::Int(whole) = number { Some(*whole) } else { None }).collect();
    match whole {
        Some(whole) => ParamValue::Ints(whole),
        None => ParamValue::Floats(numbers.iter().filter_map(ParamValue::as_f64).collect()),
    }
}

/// The length of what starts like a number, with everything that is glued to it.
fn number_len(text: &str) -> usize {
    let mut exponent = true;
    let mut len = 0;
    for c in text.chars() {
        let sign = "+-".contains(c) && exponent;
        if !sign && !c.is_alphanumeric() && !"._".contains(c) {
            break;
        }
        // A sign is at the start, or after the `e` of an exponent.
        exponent = "eE".contains(c) && len > 0;
        len += c.len_utf8();
    }
    len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn params(chain: &str) -> Params {
        match PipelineText::from_chain(chain).unwrap().spec(&[]).stages.swap_remove(0) {
            StageSpec::Run { params, .. } => params,
            other => panic!("{other:?}"),
        }
    }

    fn message(chain: &str) -> String {
        PipelineText::from_chain(chain).unwrap_err().to_string()
    }

    #[test]
    fn a_chain_goes_from_the_input_through_transients_to_the_output() {
        let text = PipelineText::from_chain("blur(radius=3) | sharpen(amount=0.5) | grayscale").unwrap();
        assert_eq!(text.names(), ["input", "t0", "t1", "output"]);
        let run = |kernel: &str, from, to, params| StageSpec::Run {
            kernel: kernel.to_owned(),
            inputs: vec![from],
            outputs: vec![to],
            params,
        };
        let expected = [
            run("blur", 0, 1, Params::new().with("radius", 3)),
            run("sharpen", 1, 2, Params::new().with("amount", 0.5)),
            run("grayscale", 2, 3, Params::new()),
        ];
        assert_eq!(text.spec(&[]).stages, expected);
    }

    #[test]
    fn one_kernel_is_a_chain() {
        assert_eq!(PipelineText::from_chain(" relu ").unwrap().names(), ["input", "output"]);
        assert_eq!(PipelineText::from_chain("relu()"), PipelineText::from_chain("relu"));
    }

    #[test]
    fn white_space_may_be_anywhere_between_words() {
        let spread = PipelineText::from_chain("\n blur \t( radius\n = 3 , sigma= 1 , )|\n relu\r\n").unwrap();
        assert_eq!(spread, PipelineText::from_chain("blur(radius=3,sigma=1)|relu").unwrap());
    }

    #[test]
    fn values_are_what_they_look_like() {
        let expected = Params::new()
            .with("a", 3)
            .with("b", -2)
            .with("c", 1.5)
            .with("d", 1e-5)
            .with("e", true)
            .with("f", false)
            .with("g", "reflect")
            .with("h", f64::NEG_INFINITY)
            .with("i", f64::INFINITY)
            .with("j", 0.5)
            .with("k", 7);
        let given = "k(a=3, b=-2, c=1.5, d=1e-5, e=true, f=false, g=reflect, h=-inf, i=inf, j=.5, k=+7)";
        assert_eq!(params(given), expected);
    }

    #[test]
    fn lists_have_either_brackets_and_hold_integers_if_all_are() {
        let expected = Params::new()
            .with("a", vec![1i64, 2])
            .with("b", vec![1i64, -2])
            .with("c", vec![1.0, 2.5])
            .with("d", Vec::<i64>::new())
            .with("e", vec![4i64]);
        assert_eq!(params("k(a=[1, 2], b=(1,-2), c=[1, 2.5], d=[], e=(4,))"), expected);
    }

    #[test]
    fn an_empty_chain_says_what_to_write() {
        assert_eq!(message("  "), "the chain is empty: write a kernel, such as `blur(radius=3)`");
    }

    #[test]
    fn a_missing_kernel_is_marked_where_it_should_be() {
        assert_eq!(message("blur | "), "expected a kernel after `|`, found the end\n  blur | \n        ^");
        assert_eq!(message("| blur"), "expected a kernel, found `|`\n  | blur\n  ^");
        assert_eq!(message("blur || relu"), "expected a kernel after `|`, found `|`\n  blur || relu\n        ^");
    }

    #[test]
    fn kernels_need_a_bar_between_them() {
        assert_eq!(
            message("blur(radius=3) sharpen"),
            "expected `|` or the end, found `sharpen`\n  blur(radius=3) sharpen\n                 ^^^^^^^"
        );
        assert_eq!(message("blur relu"), "expected `(`, `|` or the end, found `relu`\n  blur relu\n       ^^^^");
    }

    #[test]
    fn params_need_names_and_values() {
        assert_eq!(message("blur(3)"), "params have names: write `name=3`\n  blur(3)\n       ^");
        assert_eq!(
            message("blur(radius 3)"),
            "expected `=` after `radius`, found `3`\n  blur(radius 3)\n              ^"
        );
        assert_eq!(
            message("blur(radius=)"),
            "expected a value for `radius`, found `)`\n  blur(radius=)\n              ^"
        );
        assert_eq!(message("blur(=3)"), "expected a param or `)`, found `=`\n  blur(=3)\n       ^");
    }

    #[test]
    fn an_open_bracket_is_missed_at_the_end() {
        assert_eq!(message("blur(radius=3"), "expected `,` or `)`, found the end\n  blur(radius=3\n               ^");
        assert_eq!(message("k(a=[1, 2)"), "expected `,` or `]`, found `)`\n  k(a=[1, 2)\n           ^");
    }

    #[test]
    fn a_param_is_given_once() {
        assert_eq!(
            message("blur(radius=3, radius=4)"),
            "the param `radius` is given twice\n  blur(radius=3, radius=4)\n                 ^^^^^^"
        );
    }

    #[test]
    fn numbers_that_are_none_are_marked_whole() {
        assert_eq!(message("blur(radius=3px)"), "`3px` is not a number\n  blur(radius=3px)\n              ^^^");
        assert_eq!(message("k(a=1e999)"), "`1e999` is too large for a float\n  k(a=1e999)\n      ^^^^^");
        assert_eq!(message("k(a=-)"), "`-` is not a number\n  k(a=-)\n      ^");
        assert_eq!(
            message("k(a=9223372036854775808)"),
            "`9223372036854775808` does not fit 64 bits: write it as `9223372036854775808.0`\n  \
             k(a=9223372036854775808)\n      ^^^^^^^^^^^^^^^^^^^"
        );
    }

    #[test]
    fn lists_hold_numbers_only() {
        assert_eq!(
            message("k(a=[1, reflect])"),
            "expected a number or `]` in a list, found `reflect`\n  k(a=[1, reflect])\n          ^^^^^^^"
        );
    }

    #[test]
    fn characters_without_a_meaning_are_refused() {
        assert_eq!(message("blur; relu"), "unexpected character `;`\n  blur; relu\n      ^");
        assert_eq!(
            message("blur(border=\"wrap\")"),
            "unexpected character `\"`: words are written without quotes\n  blur(border=\"wrap\")\n              ^"
        );
    }

    #[test]
    fn of_several_lines_the_right_one_is_shown() {
        assert_eq!(
            message("blur(radius=3)\n| sharpen(amount)\n"),
            "line 2, column 17: expected `=` after `amount`, found `)`\n  | sharpen(amount)\n                  ^"
        );
    }

    fn value() -> impl Strategy<Value = String> {
        let float = || prop_oneof![any::<f64>().prop_filter("a NaN equals nothing", |v| !v.is_nan()), -9.0..9.0];
        let floats = prop::collection::vec(float(), 0..4).prop_map(|values| format!("{values:?}"));
        let ints = prop::collection::vec(any::<i64>(), 0..4)
            .prop_map(|values| format!("({})", values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ,\t")));
        prop_oneof![
            any::<i64>().prop_map(|value| value.to_string()),
            float().prop_map(|value| format!("{value:?}")),
            any::<bool>().prop_map(|value| value.to_string()),
            "[a-zA-Z_äß][a-zA-Z0-9_é]{0,8}".prop_filter("a NaN equals nothing", |word| word != "nan"),
            floats,
            ints,
        ]
    }

    fn chain() -> impl Strategy<Value = String> {
        let name = "[a-z_ü][a-z0-9_]{0,10}";
        let call = (name, prop::collection::btree_map(name, value(), 0..4)).prop_map(|(kernel, params)| {
            let params: Vec<String> = params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{kernel}({})", params.join(", "))
        });
        prop::collection::vec(call, 1..6).prop_map(|calls| calls.join("\n | "))
    }

    proptest! {
        #[test]
        fn chains_can_be_saved_as_files(chain in chain()) {
            let text = PipelineText::from_chain(&chain).unwrap();
            prop_assert_eq!(PipelineText::from_toml(&text.to_toml()), Ok(text));
        }

        #[test]
        fn no_text_panics(text in "\\PC*", soup in "[a-b|(),=\\[\\]0-9.e+\\- \n\"ä]{0,20}") {
            for text in [text, soup] {
                if let Err(error) = PipelineText::from_chain(&text) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}
