//! `dala kernels`.

use super::dala;

#[test]
fn the_list_has_one_line_per_kernel() {
    let text = dala(&["kernels"]).success();
    let relu: Vec<&str> = text.lines().filter(|line| line.starts_with("relu ")).collect();
    assert_eq!(relu.len(), 1, "{text}");
    assert!(relu[0].contains("pointwise"), "{text}");
    assert_eq!(text.lines().count(), 1 + dala(&["kernels", "--json"]).json().as_array().unwrap().len());
}

#[test]
fn json_has_the_whole_spec_of_every_kernel() {
    let kernels = dala(&["kernels", "--json"]).json();
    let kernels = kernels.as_array().unwrap();
    assert!(kernels.iter().any(|kernel| kernel["name"] == "relu"));
    for kernel in kernels {
        for key in ["name", "aliases", "summary", "class", "inputs", "output", "params"] {
            assert!(kernel.get(key).is_some(), "{key} of {kernel}");
        }
    }
}

#[test]
fn an_alias_finds_its_kernel() {
    let text = dala(&["kernels", "multiply"]).success();
    assert!(text.starts_with("elementwise_mul: "), "{text}");
    assert!(text.contains("\n  b  f32, f64, s32, s64, u32, u8, f16, bf16, s8, s16, u16, u64\n"), "{text}");
    assert!(text.contains("\nparams:\n  overflow"), "{text}");
    let found = dala(&["kernels", "multiply", "--json"]).json();
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(found[0]["name"], "elementwise_mul");
}

#[test]
fn params_are_told_with_kind_default_and_summary() {
    let text = dala(&["kernels", "clamp"]).success();
    assert!(text.contains("min  number, default 0: smallest value"), "{text}");
}

#[test]
fn an_unknown_name_is_a_negative_answer_with_a_suggestion() {
    for arguments in [&["kernels", "rleu"][..], &["kernels", "rleu", "--json"]] {
        assert_eq!(dala(arguments).error(1), "error: no kernel is called `rleu`, did you mean `relu`?\n");
    }
}
