//! Readers that go away early, as in `dala kernels | head -1`.

use super::command;

#[test]
fn a_closed_reader_is_no_failure() {
    for arguments in [
        &["kernels"][..],
        &["kernels", "--json"],
        &["kernels", "relu"],
        &["info", "--json"],
        &["eval", "x", "--device", "cpu", "--", "1"],
        &["graph", "--filter", "blur", "--device", "cpu"],
        &["completions", "bash"],
        &["man"],
        &["verify", "--filter", "blur", "--size", "4x4x3", "--device", "cpu"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        // Closed before the command starts, so that its first write finds nobody.
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{arguments:?}: {stderr}");
    }
}
