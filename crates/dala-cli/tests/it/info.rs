//! `dala info`.

use super::dala;

#[test]
fn json_describes_the_cpu_as_no_gpu() {
    let devices = dala(&["info", "--json"]).json();
    let cpu = devices.as_array().unwrap().iter().find(|device| device["backend"] == "cpu").unwrap();
    assert_eq!(cpu["gpu"], false);
    assert_eq!(cpu["kind"], "cpu");
    assert_eq!(cpu["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(cpu["dtypes"]["f32"], "native");
    assert_eq!(cpu["dtypes"].as_object().unwrap().len(), 12);
    assert!(cpu["limits"]["max_buffer_bytes"].as_u64().unwrap() > 0);
    for key in ["name", "driver", "memory_bytes"] {
        assert!(cpu.get(key).is_some(), "{key}");
    }
}

#[test]
fn people_see_the_same_devices_in_the_same_order() {
    let listed = dala(&["info", "--json"]).json();
    let text = dala(&["info"]).success();
    let headings: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let expected: Vec<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|device| format!("{}: {}", word(&device["id"]), word(&device["name"])))
        .collect();
    assert_eq!(headings, expected);
    assert!(text.contains("f32 native"));
}
