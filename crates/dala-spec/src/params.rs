//! Named values for a kernel, and what a kernel says about them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use crate::{SpecError, suggest::nearest};

/// A value given for a param.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// One of a fixed list of words.
    Enum(String),
    /// A tuple of integers, such as a size.
    Ints(Vec<i64>),
    /// A list of floating-point numbers, such as a mean per channel.
    Floats(Vec<f64>),
}

impl ParamValue {
    fn kind_name(&self) -> &'static str {
        match self {
            ParamValue::Bool(_) => "a bool",
            ParamValue::Int(_) => "an int",
            ParamValue::Float(_) => "a float",
            ParamValue::Enum(_) => "a word",
            ParamValue::Ints(_) => "a tuple of ints",
            ParamValue::Floats(_) => "a list of floats",
        }
    }

    /// Whether it is a number that computes as an integer on integers: one without a fraction, up to where floats skip integers.
    pub fn is_whole(&self) -> bool {
        match self {
            ParamValue::Int(_) => true,
            ParamValue::Float(value) => value.fract() == 0.0 && value.abs() <= 2f64.powi(53),
            _ => false,
        }
    }

    /// The value as a number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            ParamValue::Int(v) => Some(*v as f64),
            ParamValue::Float(v) => Some(*v),
            _ => None,
        }
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
            let values: Vec<String> = values.iter().map(|v| format!("{v:?}")).collect();
            write!(f, "{{{}}}", values.join(", "))
        }
        match self {
            ParamValue::Bool(v) => write!(f, "{v}"),
            ParamValue::Int(v) => write!(f, "{v}"),
            ParamValue::Float(v) => write!(f, "{v:?}"),
            ParamValue::Enum(v) => f.write_str(v),
            ParamValue::Ints(v) => list(f, v),
            ParamValue::Floats(v) => list(f, v),
        }
    }
}

macro_rules! from_values {
    ($($rust:ty => $make:expr),+ $(,)?) => {$(
        impl From<$rust> for ParamValue {
            fn from(value: $rust) -> ParamValue {
                $make(value)
            }
        }
    )+};
}
from_values! {
    bool => ParamValue::Bool,
    i64 => ParamValue::Int,
    f64 => ParamValue::Float,
    f32 => |v: f32| ParamValue::Float(v.into()),
    &str => |v: &str| ParamValue::Enum(v.to_owned()),
    String => ParamValue::Enum,
    &String => |v: &String| ParamValue::Enum(v.clone()),
    &[f64] => |v: &[f64]| ParamValue::Floats(v.to_vec()),
    Vec<f64> => ParamValue::Floats,
    Vec<f32> => |v: Vec<f32>| ParamValue::Floats(v.into_iter().map(f64::from).collect()),
    &[i64] => |v: &[i64]| ParamValue::Ints(v.to_vec()),
    Vec<i64> => ParamValue::Ints,
}

/// Integers of other types. One that is beyond 64 bits with a sign becomes a float, which no kernel takes for an integer.
macro_rules! from_integers {
    ($($rust:ty),+ $(,)?) => {$(
        impl From<$rust> for ParamValue {
            fn from(value: $rust) -> ParamValue {
                i64::try_from(value).map_or(ParamValue::Float(value as f64), ParamValue::Int)
            }
        }

        impl From<Vec<$rust>> for ParamValue {
            fn from(values: Vec<$rust>) -> ParamValue {
                ParamValue::from(&values[..])
            }
        }

        impl From<&[$rust]> for ParamValue {
            fn from(values: &[$rust]) -> ParamValue {
                let ints: Result<Vec<i64>, _> = values.iter().map(|value| i64::try_from(*value)).collect();
                ints.map_or_else(
                    |_| ParamValue::Floats(values.iter().map(|value| *value as f64).collect()),
                    ParamValue::Ints,
                )
            }
        }
    )+};
}
from_integers!(i8, i16, i32, isize, u8, u16, u32, u64, usize);

macro_rules! from_arrays {
    ($($rust:ty),+ $(,)?) => {$(
        impl<const LEN: usize> From<[$rust; LEN]> for ParamValue {
            fn from(values: [$rust; LEN]) -> ParamValue {
                ParamValue::from(values.to_vec())
            }
        }
    )+};
}
from_arrays!(i32, i64, u32, usize, f32, f64);

/// [`Params`] by name, of whatever kinds.
///
/// ```
/// use dala_spec::{Params, params};
///
/// let radius: usize = 3;
/// let params = params! { radius: radius, border: "clamp", axes: [0, 1], sigma: 1.5 };
/// assert_eq!(params, Params::new().with("radius", 3).with("border", "clamp").with("axes", vec![0i64, 1]).with("sigma", 1.5));
/// assert!(params! {}.is_empty());
/// ```
#[macro_export]
macro_rules! params {
    ($($name:ident: $value:expr),* $(,)?) => {
        $crate::Params::new()$(.with(stringify!($name), $value))*
    };
}

/// Params as a caller gives them: names and values, unchecked.
///
/// ```
/// use dala_spec::Params;
/// let params = Params::new().with("gain", 1.5).with("border", "reflect");
/// assert_eq!(params.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(BTreeMap<String, ParamValue>);

impl Params {
    /// No params.
    pub fn new() -> Params {
        Params::default()
    }

    /// The same params with one more; a second value for a name replaces the first.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<ParamValue>) -> Params {
        self.0.insert(name.into(), value.into());
        self
    }

    /// How many params were given.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none were given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl From<()> for Params {
    fn from(_: ()) -> Params {
        Params::new()
    }
}

impl From<&Params> for Params {
    fn from(params: &Params) -> Params {
        params.clone()
    }
}

impl<N: Into<String>, V: Into<ParamValue>, const LEN: usize> From<[(N, V); LEN]> for Params {
    fn from(pairs: [(N, V); LEN]) -> Params {
        Params(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// The type of a param.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamKind {
    /// An integer; an integral float is taken too.
    Int,
    /// A float; an integer is taken too. It computes as a float whatever the data is.
    Float,
    /// A number that computes in the data's own type where its value allows: 2 on integers stays an integer,
    /// 2.5 on integers computes in f32 and rounds.
    Number,
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Enum(Vec<String>),
    /// A tuple of so many integers.
    Ints(usize),
    /// A list of integers, such as axes; one integer counts as a list of one.
    IntList,
    /// A list of floats.
    Floats,
}

impl ParamKind {
    /// One of these words.
    pub fn words(words: &[&str]) -> ParamKind {
        ParamKind::Enum(words.iter().map(|word| (*word).to_owned()).collect())
    }
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamKind::Int => f.write_str("int"),
            ParamKind::Float => f.write_str("float"),
            ParamKind::Number => f.write_str("number"),
            ParamKind::Bool => f.write_str("bool"),
            ParamKind::Enum(words) => f.write_str(&words.join(" | ")),
            ParamKind::Ints(len) => write!(f, "tuple of {len} ints"),
            ParamKind::IntList => f.write_str("list of ints"),
            ParamKind::Floats => f.write_str("list of floats"),
        }
    }
}

/// What a kernel says about one param. Made with [`param`].
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ParamSpec {
    /// The name.
    pub name: String,
    /// The type of its values.
    pub kind: ParamKind,
    /// The value used when none is given; without one the param is required.
    pub default: Option<ParamValue>,
    /// Smallest and largest value, for numbers.
    pub range: Option<(f64, f64)>,
    /// What it does, in a few words.
    pub summary: String,
}

/// The name of a param, to be written once: a kernel declares its param and reads it by the same constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamKey(&'static str);

impl ParamKey {
    /// The param called `name`.
    pub const fn new(name: &'static str) -> ParamKey {
        ParamKey(name)
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl From<ParamKey> for String {
    fn from(key: ParamKey) -> String {
        key.0.to_owned()
    }
}

/// A param called `name`, to be refined: `param("slope", ParamKind::Number).default(0)`.
pub fn param(name: impl Into<String>, kind: ParamKind) -> ParamSpec {
    ParamSpec { name: name.into(), kind, default: None, range: None, summary: String::new() }
}

impl ParamSpec {
    /// The value used when the caller gives none.
    pub fn default(mut self, value: impl Into<ParamValue>) -> ParamSpec {
        self.default = Some(value.into());
        self
    }

    /// The smallest and the largest value accepted.
    pub fn range(mut self, min: f64, max: f64) -> ParamSpec {
        self.range = Some((min, max));
        self
    }

    /// What the param does, in a few words.
    pub fn summary(mut self, text: impl Into<String>) -> ParamSpec {
        self.summary = text.into();
        self
    }

    fn check(&self, kernel: &str, value: &ParamValue) -> Result<ParamValue, SpecError> {
        let value = match (&self.kind, value) {
            (ParamKind::Int, ParamValue::Float(v)) if v.fract() == 0.0 && v.abs() <= 2f64.powi(53) => {
                ParamValue::Int(*v as i64)
            }
            (ParamKind::Float, ParamValue::Int(v)) => ParamValue::Float(*v as f64),
            (ParamKind::IntList, ParamValue::Int(v)) => ParamValue::Ints(vec![*v]),
            // An empty list has no type of its own.
            (ParamKind::IntList, ParamValue::Floats(v)) if v.is_empty() => ParamValue::Ints(Vec::new()),
            (ParamKind::Floats, ParamValue::Ints(v)) => ParamValue::Floats(v.iter().map(|v| *v as f64).collect()),
            (ParamKind::Int, ParamValue::Int(_))
            | (ParamKind::Float, ParamValue::Float(_))
            | (ParamKind::Number, ParamValue::Int(_) | ParamValue::Float(_))
            | (ParamKind::Bool, ParamValue::Bool(_))
            | (ParamKind::IntList, ParamValue::Ints(_))
            | (ParamKind::Floats, ParamValue::Floats(_)) => value.clone(),
            (ParamKind::Enum(words), ParamValue::Enum(word)) if words.contains(word) => value.clone(),
            (ParamKind::Ints(len), ParamValue::Ints(v)) if v.len() == *len => value.clone(),
            _ => {
                return Err(SpecError::ParamType {
                    kernel: kernel.to_owned(),
                    param: self.name.clone(),
                    expected: self.kind.to_string(),
                    actual: format!("{} ({value})", value.kind_name()),
                });
            }
        };
        if let (Some((min, max)), Some(number)) = (self.range, value.as_f64())
            && !(min..=max).contains(&number)
        {
            return Err(SpecError::ParamRange {
                kernel: kernel.to_owned(),
                param: self.name.clone(),
                min,
                max,
                actual: value.to_string(),
            });
        }
        Ok(value)
    }
}

/// Params checked against a spec: every one the kernel has, in the spec's order.
#[derive(Clone, Debug, Default)]
pub struct ResolvedParams {
    values: Vec<(String, ParamKind, ParamValue)>,
    /// The first that was read and is not there, or is not of that type: a fault of the kernel's.
    missed: OnceLock<ParamKey>,
}

impl PartialEq for ResolvedParams {
    fn eq(&self, other: &ResolvedParams) -> bool {
        self.values == other.values
    }
}

impl ResolvedParams {
    /// Checks `given` against `specs`, filling in defaults. Problems are added to `problems`.
    pub fn resolve(kernel: &str, specs: &[ParamSpec], given: &Params, problems: &mut Vec<SpecError>) -> ResolvedParams {
        for (name, _) in given.iter() {
            if !specs.iter().any(|spec| spec.name == name) {
                problems.push(SpecError::UnknownParam {
                    kernel: kernel.to_owned(),
                    param: name.to_owned(),
                    suggestion: nearest(name, specs.iter().map(|spec| spec.name.as_str())).map(str::to_owned),
                    known: specs.iter().map(|spec| spec.name.clone()).collect(),
                });
            }
        }
        let mut resolved = Vec::with_capacity(specs.len());
        for spec in specs {
            let value = match given.0.get(&spec.name).or(spec.default.as_ref()) {
                Some(value) => spec.check(kernel, value),
                None => Err(SpecError::MissingParam { kernel: kernel.to_owned(), param: spec.name.clone() }),
            };
            match value {
                Ok(value) => resolved.push((spec.name.clone(), spec.kind.clone(), value)),
                Err(problem) => problems.push(problem),
            }
        }
        ResolvedParams { values: resolved, missed: OnceLock::new() }
    }

    /// The value of the param called `name`.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.values.iter().find(|(own, _, _)| own == name).map(|(_, _, value)| value)
    }

    /// Whether the kernel has the param.
    pub fn has(&self, key: ParamKey) -> bool {
        self.get(key.0).is_some()
    }

    /// The name of a param that was read although the kernel has none of that name and type. What was computed from it is
    /// worthless.
    pub fn missed(&self) -> Option<&'static str> {
        self.missed.get().map(|key| key.0)
    }

    fn read<'a, T>(&'a self, key: ParamKey, value: impl Fn(&'a ParamValue) -> Option<T>) -> Option<T> {
        let found = self.get(key.0).and_then(value);
        if found.is_none() {
            // The first is enough.
            let _ = self.missed.set(key);
        }
        found
    }

    /// An integer param.
    pub fn int(&self, key: ParamKey) -> i64 {
        let int = |value: &ParamValue| if let ParamValue::Int(value) = value { Some(*value) } else { None };
        self.read(key, int).unwrap_or_default()
    }

    /// A numeric param.
    pub fn float(&self, key: ParamKey) -> f64 {
        self.read(key, ParamValue::as_f64).unwrap_or(f64::NAN)
    }

    /// A true-or-false param.
    pub fn flag(&self, key: ParamKey) -> bool {
        let flag = |value: &ParamValue| if let ParamValue::Bool(value) = value { Some(*value) } else { None };
        self.read(key, flag).unwrap_or_default()
    }

    /// The chosen word of a param.
    pub fn word(&self, key: ParamKey) -> &str {
        self.read(key, |value| if let ParamValue::Enum(word) = value { Some(word.as_str()) } else { None })
            .unwrap_or_default()
    }

    /// The integers of a param.
    pub fn ints(&self, key: ParamKey) -> &[i64] {
        self.read(key, |value| if let ParamValue::Ints(values) = value { Some(&values[..]) } else { None })
            .unwrap_or_default()
    }

    /// The floats of a param.
    pub fn floats(&self, key: ParamKey) -> &[f64] {
        self.read(key, |value| if let ParamValue::Floats(values) = value { Some(&values[..]) } else { None })
            .unwrap_or_default()
    }

    /// Names, types and values in the spec's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamKind, &ParamValue)> {
        self.values.iter().map(|(name, kind, value)| (name.as_str(), kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(given: Params) -> Result<ResolvedParams, Vec<SpecError>> {
        let specs = [
            param("slope", ParamKind::Number).default(0).range(-1.0, 1.0),
            param("border", ParamKind::Enum(vec!["clamp".into(), "wrap".into()])).default("clamp"),
            param("radius", ParamKind::Int),
        ];
        let mut problems = Vec::new();
        let resolved = ResolvedParams::resolve("k", &specs, &given, &mut problems);
        if problems.is_empty() { Ok(resolved) } else { Err(problems) }
    }

    #[test]
    fn defaults_fill_in_and_integral_floats_are_ints() {
        let resolved = resolve(Params::new().with("radius", 3.0)).unwrap();
        assert_eq!(resolved.get("slope"), Some(&ParamValue::Int(0)));
        assert_eq!(resolved.get("radius"), Some(&ParamValue::Int(3)));
    }

    #[test]
    fn every_problem_is_reported() {
        let problems = resolve(Params::new().with("slop", 1).with("slope", 2).with("border", "mirror")).unwrap_err();
        let codes: Vec<_> = problems.iter().map(SpecError::code).collect();
        assert_eq!(codes, ["unknown_param", "param_out_of_range", "param_type", "missing_param"]);
        assert_eq!(problems[0].to_string(), "kernel `k` has no param `slop`, did you mean `slope`?");
    }

    #[test]
    fn missing_params_are_remembered() {
        let resolved = resolve(Params::new().with("radius", 3)).unwrap();
        assert_eq!(resolved.int(ParamKey::new("radius")), 3);
        assert_eq!(resolved.word(ParamKey::new("border")), "clamp");
        assert_eq!(resolved.missed(), None);
        assert_eq!(resolved.int(ParamKey::new("border")), 0);
        assert_eq!(resolved.missed(), Some("border"), "it is there, and no integer");
        let resolved = resolve(Params::new().with("radius", 3)).unwrap();
        assert!(resolved.float(ParamKey::new("sigma")).is_nan());
        assert_eq!(resolved.missed(), Some("sigma"));
    }

    #[test]
    fn integers_of_any_type_go_in_and_none_wraps() {
        assert_eq!(params! { a: 3usize, b: 3u8, c: -3i16, d: [1usize, 2], e: [0.5f32], f: &[1u64, 2][..] }.len(), 6);
        assert_eq!(ParamValue::from(i64::MAX as usize), ParamValue::Int(i64::MAX));
        assert_eq!(ParamValue::from([7usize, 8]), ParamValue::Ints(vec![7, 8]));
        let radius = resolve(params! { radius: 5usize }).unwrap();
        assert_eq!(radius.int(ParamKey::new("radius")), 5);
        for wide in [u64::MAX, i64::MAX as u64 + 1] {
            assert_eq!(resolve(params! { radius: wide }).unwrap_err()[0].code(), "param_type", "{wide}");
            let size = param("size", ParamKind::Ints(2));
            let mut problems = Vec::new();
            ResolvedParams::resolve("k", &[size], &params! { size: [1, wide as usize] }, &mut problems);
            assert_eq!(problems[0].code(), "param_type", "{wide}");
        }
    }

    #[test]
    fn nan_is_outside_every_range() {
        let problems = resolve(Params::new().with("radius", 1).with("slope", f64::NAN)).unwrap_err();
        assert_eq!(problems[0].code(), "param_out_of_range");
    }
}
