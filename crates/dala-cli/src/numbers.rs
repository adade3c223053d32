//! Numbers as people write and read them.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use dala_compute::{DType, Data, ParamKind, ParamValue, Scalar, bf16, f16};
use serde::Serialize;

/// Reads numbers of an element type. One that the type cannot hold is an error, never another number.
pub(crate) fn parse_all<'a>(dtype: DType, texts: impl IntoIterator<Item = &'a str>) -> Result<Data> {
    let values: Vec<Scalar> = texts.into_iter().map(|text| parse(dtype, text)).collect::<Result<_>>()?;
    Ok(Data::collect(dtype, values))
}

fn parse(dtype: DType, text: &str) -> Result<Scalar> {
    let text = text.trim();
    let parsed = match dtype {
        DType::F32 => parse_as::<f32>(text),
        DType::F64 => parse_as::<f64>(text),
        DType::S32 => parse_as::<i32>(text),
        DType::S64 => parse_as::<i64>(text),
        DType::U32 => parse_as::<u32>(text),
        DType::U8 => parse_as::<u8>(text),
        DType::F16 => parse_as::<f16>(text),
        DType::BF16 => parse_as::<bf16>(text),
        DType::S8 => parse_as::<i8>(text),
        DType::S16 => parse_as::<i16>(text),
        DType::U16 => parse_as::<u16>(text),
        DType::U64 => parse_as::<u64>(text),
    };
    parsed.with_context(|| format!("cannot read `{text}` as {dtype}"))
}

fn parse_as<T>(text: &str) -> Result<Scalar>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static> + Into<Scalar>,
{
    let value: Scalar = text.parse::<T>()?.into();
    // Rust reads `1e99` as an infinite f32; only a written infinity has no digits.
    if value.as_f64().is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        bail!("number too large to fit in target type");
    }
    Ok(value)
}

/// Reads a param. Written as an integer it computes in the data's own type; otherwise it is a float.
pub(crate) fn parse_param(text: &str) -> Result<(ParamKind, ParamValue)> {
    if let Ok(whole) = text.trim().parse::<i64>() {
        return Ok((ParamKind::Number, ParamValue::Int(whole)));
    }
    let float = parse(DType::F64, text)?;
    Ok((ParamKind::Float, ParamValue::Float(float.as_f64())))
}

/// The shortest text that reads back as the same value: `4`, not `4.0`.
pub(crate) fn text(value: Scalar) -> String {
    match value {
        Scalar::F32(v) => v.to_string(),
        Scalar::F64(v) => v.to_string(),
        Scalar::F16(v) => v.to_string(),
        Scalar::BF16(v) => v.to_string(),
        integer => integer.to_string(),
    }
}

/// A value in JSON. NaN and infinities are strings: `null` would hide which of them it was.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum JsonNumber {
    Finite(Scalar),
    Other(String),
}

impl From<Scalar> for JsonNumber {
    fn from(value: Scalar) -> JsonNumber {
        if value.as_f64().is_finite() { JsonNumber::Finite(value) } else { JsonNumber::Other(text(value)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_as_they_were_printed() {
        for (dtype, texts) in [
            (DType::F32, vec!["4", "-0", "0.1", "NaN", "inf", "-inf", "16777216"]),
            (DType::F64, vec!["0.1", "-0", "0.30000000000000004"]),
            (DType::S64, vec!["-9223372036854775808", "9223372036854775807"]),
            (DType::U8, vec!["0", "255"]),
        ] {
            let data = parse_all(dtype, texts.iter().copied()).unwrap();
            assert_eq!(data.iter().map(text).collect::<Vec<_>>(), texts);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for (dtype, bad) in [
            (DType::U8, "256"),
            (DType::U8, "-1"),
            (DType::S32, "1.5"),
            (DType::F32, "1e99"),
            (DType::F64, "-1e999"),
            (DType::F32, "one"),
            (DType::F32, ""),
        ] {
            let error = parse(dtype, bad).unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read `{bad}` as {dtype}"));
        }
    }

    #[test]
    fn params_written_as_integers_stay_integers() {
        assert_eq!(parse_param(" -3").unwrap(), (ParamKind::Number, ParamValue::Int(-3)));
        assert_eq!(parse_param("3.0").unwrap(), (ParamKind::Float, ParamValue::Float(3.0)));
        assert!(parse_param("three").is_err());
    }

    #[test]
    fn json_keeps_the_shortest_form_and_names_what_it_cannot_hold() {
        let data = parse_all(DType::F32, ["0.1", "nan", "-inf"]).unwrap();
        let values: Vec<JsonNumber> = data.iter().map(JsonNumber::from).collect();
        assert_eq!(serde_json::to_string(&values).unwrap(), r#"[0.1,"NaN","-inf"]"#);
    }
}
