//! `dala eval`.

use super::{Run, dala};

/// Evaluates on the CPU device.
fn on_cpu(arguments: &[&str]) -> Run {
    dala(&[&["eval", "--device", "cpu"], arguments].concat())
}

#[test]
fn every_device_computes_the_same() {
    let listed = dala(&["info", "--json"]).json();
    for device in ["cpu", "vulkan", "gl"] {
        if device != "cpu" && !listed.as_array().unwrap().iter().any(|info| info["backend"] == device) {
            eprintln!("skipped: this machine or this build has no {device} device");
            continue;
        }
        let run = dala(&["eval", "relu(x) * 2", "--device", device, "--", "-1", "2", "3"]);
        assert_eq!(run.success(), "0 4 6\n", "{device}");
    }
}

#[test]
fn the_best_device_is_the_default() {
    let best = dala(&["info", "--json"]).json()[0]["backend"].clone();
    assert_eq!(dala(&["eval", "x + 1", "--json", "--", "1"]).json()["device"], best);
}

#[test]
fn a_bad_expression_is_shown_with_a_mark_under_the_mistake() {
    let message = on_cpu(&["relu(x) * gian", "--param", "gain=2", "--", "1"]).error(2);
    let expected = "error: unknown name `gian`, did you mean `gain`?\n  relu(x) * gian\n            ^^^^\n";
    assert_eq!(message, expected);
}

#[test]
fn an_expression_that_does_not_fit_its_types_is_marked_too() {
    let message = on_cpu(&["x + (x > 1)", "--", "1"]).error(2);
    assert!(message.starts_with("error: "), "{message}");
    assert!(message.ends_with("\n  x + (x > 1)\n       ^^^^^\n"), "{message}");
}

#[test]
fn pixels_saturate() {
    assert_eq!(on_cpu(&["x + 100", "--dtype", "u8", "--", "100", "200", "255"]).success(), "200 255 255\n");
    assert_eq!(on_cpu(&["x - 100", "--dtype", "u8", "--", "50", "200"]).success(), "0 100\n");
}

#[test]
fn params_are_bound_by_name() {
    assert_eq!(on_cpu(&["x * gain", "--param", "gain=2.5", "--", "1", "2"]).success(), "2.5 5\n");
    // A whole number leaves integers integers, beyond what a float holds.
    let run = on_cpu(&["x * n", "--param", "n=1", "--dtype", "s32", "--", "16777217"]);
    assert_eq!(run.success(), "16777217\n");
}

#[test]
fn further_inputs_and_single_elements_combine() {
    let run = on_cpu(&["x * y + z", "--input", "y=1,2,3", "--input", "z=-0.5", "--", "10", "20", "30"]);
    assert_eq!(run.success(), "9.5 39.5 89.5\n");
    let message = on_cpu(&["x + y", "--input", "y=1,2", "--", "1", "2", "3"]).error(2);
    assert_eq!(message, "error: input `y` of kernel `expression` must have shape {3}, found {2}\n");
    let message = on_cpu(&["x", "--input", "x=1", "--", "1"]).error(2);
    assert_eq!(message, "error: `x` is given twice\n");
}

#[test]
fn floats_are_printed_short_and_honestly() {
    let run = on_cpu(&["x", "--", "4.0", "0.1", "-0", "nan", "inf", "-inf"]);
    assert_eq!(run.success(), "4 0.1 -0 NaN inf -inf\n");
}

#[test]
fn the_output_may_have_another_type() {
    assert_eq!(on_cpu(&["x * 0.5", "--output-dtype", "s32", "--", "3", "5", "-8"]).success(), "2 2 -4\n");
}

#[test]
fn json_names_device_and_type() {
    let answer = on_cpu(&["x / 0", "--json", "--", "0.5", "0"]).json();
    assert_eq!(answer, serde_json::json!({"device": "cpu", "dtype": "f32", "values": ["inf", "NaN"]}));
}

#[test]
fn without_numbers_the_count_is_needed() {
    assert_eq!(on_cpu(&["index * index", "--count", "4", "--dtype", "s32"]).success(), "0 1 4 9\n");
    assert!(on_cpu(&["1 + 1"]).error(2).starts_with("error: nothing to compute on: give numbers after `--`"));
}

#[test]
fn numbers_that_do_not_fit_are_refused_with_the_cause() {
    let message = on_cpu(&["x", "--dtype", "u8", "--", "1", "300"]).error(2);
    let expected = "error: in the input `x`: cannot read `300` as u8: number too large to fit in target type\n";
    assert_eq!(message, expected);
}

#[test]
fn a_misspelt_option_is_not_taken_for_an_expression() {
    let message = dala(&["eval", "--jsn", "x", "--", "1"]).error(2);
    assert!(message.contains("'--jsn'") && message.contains("there is no such option"), "{message}");
}

#[test]
fn an_unknown_device_is_a_failure() {
    let message = dala(&["eval", "x", "--device", "abacus", "--", "1"]).error(2);
    assert!(message.starts_with("error: there is no device called `abacus`"), "{message}");
}

#[test]
fn tables_have_a_length_of_their_own() {
    let table = ["--input", "table=10,20,30"];
    let run = |expression: &str, rest: &[&str]| on_cpu(&[&[expression], &table[..], rest].concat());
    assert_eq!(run("gather(table, s32(x))", &["--", "2", "0", "1", "7"]).success(), "30 10 20 30\n");
    assert_eq!(run("gather(table, s32(x))", &["--", "1"]).success(), "20\n");
    assert_eq!(run("gather(table, 2 - index)", &["--count", "3"]).success(), "30 20 10\n");
    assert!(run("gather(table, index)", &[]).error(2).contains("--count"));
    assert!(run("gather(table, x)", &["--", "0.5"]).error(2).contains("an index is an integer"));
}
