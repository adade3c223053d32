//! JSON, read where it lies: no tree is built, and text is only copied where it has escapes.
//!
//! Requests carry tensors of a million numbers; each is read once, as the element type that it is meant for.

use std::borrow::Cow;

use crate::Refusal;

/// How deep arrays and objects may lie in each other. Tensors have few axes.
const DEPTH: usize = 32;

/// Reads a text from its beginning to its end.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

/// A number as it is written.
#[derive(Clone, Copy)]
pub(crate) struct Number<'a> {
    /// As the grammar of JSON has it.
    pub(crate) text: &'a str,
    /// Whether it is written without a fraction and without an exponent.
    pub(crate) is_whole: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Reader<'a> {
        Reader { text, at: 0, depth: 0 }
    }

    /// A refusal that says where.
    pub(crate) fn fail(&self, what: impl std::fmt::Display) -> Refusal {
        Refusal::BadInput(format!("JSON, byte {}: {what}", self.at))
    }

    /// How many bytes were not read yet.
    pub(crate) fn left(&self) -> usize {
        self.text.len() - self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The first byte of what is next, after any space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Refusal> {
        if self.peek() != Some(byte) {
            return Err(self.fail(format_args!("`{}` expected", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads `[`, if it is next and not too deep.
    pub(crate) fn open(&mut self) -> Result<bool, Refusal> {
        if !self.take(b'[') {
            return Ok(false);
        }
        self.deeper()?;
        Ok(true)
    }

    /// Reads `]`, if it is next.
    pub(crate) fn close(&mut self) -> bool {
        let found = self.take(b']');
        self.depth -= usize::from(found);
        found
    }

    /// Reads `,`, which must be next.
    pub(crate) fn comma(&mut self) -> Result<(), Refusal> {
        self.expect(b',')
    }

    fn deeper(&mut self) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > DEPTH { Err(self.fail(format_args!("more than {DEPTH} levels"))) } else { Ok(()) }
    }

    /// Reads an array, each element by `element`.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Refusal>) -> Result<(), Refusal> {
        if !self.open()? {
            return Err(self.fail("an array expected"));
        }
        if self.close() {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.close() {
                return Ok(());
            }
            self.comma()?;
        }
    }

    /// Reads an object, the value of each member by `member`, which is told the name.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if !self.take(b'{') {
            return Err(self.fail("an object expected"));
        }
        self.deeper()?;
        let mut first = true;
        while !self.take(b'}') {
            if !std::mem::take(&mut first) {
                self.comma()?;
            }
            let name = self.string()?;
            self.expect(b':')?;
            member(self, &name)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Refusal> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.byte() {
                Some(b'"') => {
                    let text = self.utf8(start, self.at)?;
                    self.at += 1;
                    return Ok(Cow::Borrowed(text));
                }
                Some(b'\\') => return self.escaped(start),
                Some(byte) if byte >= 0x20 => self.at += 1,
                _ => return Err(self.fail("a string that does not end")),
            }
        }
    }

    /// Reads the rest of a string that has escapes, the first of them next.
    fn escaped(&mut self, start: usize) -> Result<Cow<'a, str>, Refusal> {
        let mut text = self.utf8(start, self.at)?.to_owned();
        loop {
            let plain = self.at;
            while self.byte().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            text.push_str(self.utf8(plain, self.at)?);
            let ending = self.byte();
            self.at += 1;
            match ending {
                Some(b'"') => return Ok(Cow::Owned(text)),
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.fail("a string that does not end")),
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<char, Refusal> {
        let letter = self.byte();
        self.at += 1;
        Ok(match letter {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut unit = self.hexadecimal()?;
                // Characters beyond the first plane are two units, as in UTF-16.
                if (0xd800..0xdc00).contains(&unit) && self.text.get(self.at..self.at + 2) == Some(br"\u") {
                    self.at += 2;
                    let low = self.hexadecimal()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.fail("half of a character"));
                    }
                    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                }
                char::from_u32(unit).ok_or_else(|| self.fail("half of a character"))?
            }
            _ => return Err(self.fail("an unknown escape")),
        })
    }

    fn hexadecimal(&mut self) -> Result<u32, Refusal> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or_default();
        let digit = |value: u32, &digit: &u8| Some(value * 16 + char::from(digit).to_digit(16)?);
        let value = digits.iter().try_fold(0, digit).filter(|_| digits.len() == 4);
        let value = value.ok_or_else(|| self.fail("four hexadecimal digits expected"))?;
        self.at += 4;
        Ok(value)
    }

    fn utf8(&self, from: usize, to: usize) -> Result<&'a str, Refusal> {
        let bytes = self.text.get(from..to).unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| self.fail("not UTF-8"))
    }

    /// Reads a number.
    pub(crate) fn number(&mut self) -> Result<Number<'a>, Refusal> {
        self.peek();
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at - from
        };
        let zero = self.byte() == Some(b'0');
        let whole = digits(self);
        let mut good = whole == 1 || (whole > 1 && !zero);
        let mut is_whole = true;
        if self.byte() == Some(b'.') {
            is_whole = false;
            self.at += 1;
            good &= digits(self) > 0;
        }
        if let Some(b'e' | b'E') = self.byte() {
            is_whole = false;
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            good &= digits(self) > 0;
        }
        if !good {
            return Err(self.fail("a number expected"));
        }
        Ok(Number { text: self.utf8(start, self.at)?, is_whole })
    }

    /// Reads a number without sign and fraction.
    pub(crate) fn unsigned(&mut self) -> Result<u64, Refusal> {
        let number = self.number()?;
        number.text.parse().map_err(|_| self.fail(format_args!("`{}` is not a whole number", number.text)))
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Result<bool, Refusal> {
        for (word, value) in [("true", true), ("false", false)] {
            if self.word(word) {
                return Ok(value);
            }
        }
        Err(self.fail("`true` or `false` expected"))
    }

    /// Reads `null`, if it is next.
    pub(crate) fn null(&mut self) -> bool {
        self.word("null")
    }

    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Reads a value of any kind, and forgets it.
    pub(crate) fn skip(&mut self) -> Result<(), Refusal> {
        match self.peek() {
            Some(b'{') => self.object(|reader, _| reader.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b'"') => self.string().map(drop),
            Some(b't' | b'f') => self.boolean().map(drop),
            Some(b'n') if self.null() => Ok(()),
            _ => self.number().map(drop),
        }
    }

    /// Nothing but space may be left.
    pub(crate) fn end(&mut self) -> Result<(), Refusal> {
        if self.peek().is_some() { Err(self.fail("more than one value")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &[u8]) -> bool {
        let mut reader = Reader::new(text);
        reader.skip().and_then(|()| reader.end()).is_ok()
    }

    /// Texts that are nearly JSON: what is accepted is what another parser accepts.
    #[test]
    fn agrees_with_another_parser() {
        let seeds = [
            r#"{"a": [1, -2.5e+3, 0, 0.1, 1E-9], "b\n\u00e9\ud83d\ude00": {"c": null, "d": [true, false, []]}}"#,
            r#"[[[1,2],[3,4]],["x","\\\"\/\b\f\n\r\t"], {}, 12345678901234567890123, -0, "é"]"#,
        ];
        let letters = b"[]{},:\"\\0123456789-+.eEtrufalsn \n\x00\x1f\xc3\xa9/ud8";
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % limit as u64) as usize
        };
        let (mut accepted, mut refused) = (0, 0);
        for round in 0..200_000 {
            let mut text = seeds[round % 2].as_bytes().to_vec();
            for _ in 0..next(3) {
                let at = next(text.len());
                match next(3) {
                    0 => text[at] = letters[next(letters.len())],
                    1 => text.insert(at, letters[next(letters.len())]),
                    _ => drop(text.remove(at)),
                }
            }
            let theirs = serde_json::from_slice::<serde_json::Value>(&text);
            let ours = reads(&text);
            // Numbers beyond the range of a double are JSON all the same; here they are refused when they are converted.
            let out_of_range = theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            assert!(ours == theirs.is_ok() || out_of_range, "{ours}: {}", String::from_utf8_lossy(&text));
            if ours { accepted += 1 } else { refused += 1 }
        }
        assert!(accepted > 20_000 && refused > 20_000, "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn strings_are_what_another_parser_reads() {
        for text in [r#""""#, r#""plain""#, r#""\u0041\ud83d\ude00é\n\"""#, "\"\u{7f}\u{fffd}\""] {
            let theirs: String = serde_json::from_str(text).unwrap();
            assert_eq!(Reader::new(text.as_bytes()).string().unwrap(), theirs);
        }
    }

    #[test]
    fn depth_has_a_limit() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = |levels: usize| [open.repeat(levels), "1".into(), close.repeat(levels)].concat();
            assert!(reads(deep(32).as_bytes()));
            assert!(!reads(deep(33).as_bytes()));
            assert!(!reads(open.repeat(1 << 20).as_bytes()), "no stack overflows");
        }
    }
}
