//! `ifonly bench` starts the program `ifonly-bench`.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `ifonly bench` from a directory of its own, with an empty PATH.
fn bench(directory: &Path, arguments: &[&str]) -> Output {
    let program = directory.join("ifonly");
    if !program.exists() {
        std::fs::hard_link(env!("CARGO_BIN_EXE_ifonly"), &program).unwrap();
    }
    Command::new(program).arg("bench").args(arguments).env("PATH", "").output().unwrap()
}

/// On the file system of the executable, so that a hard link is possible.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_missing_program_is_an_error_that_says_how_to_build_it() {
    let directory = directory();
    for arguments in [&["--rows", "300"][..], &["--help"], &[]] {
        let output = bench(directory.path(), arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        for part in ["ifonly-bench was not found", "cargo build --release -p ifonly-bench", "cargo install"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[cfg(unix)]
#[test]
fn all_arguments_go_to_the_program_and_its_exit_code_comes_back() {
    let directory = directory();
    // A shell writes the program. If this process did, a child that the other test starts meanwhile
    // could inherit the open file, and the program could not be executed ("text file busy").
    let script = r##"printf '#!/bin/sh\necho "$@"\nexit 7\n' > "$0" && chmod 755 "$0""##;
    let written = Command::new("sh").arg("-c").arg(script).arg(directory.path().join("ifonly-bench")).status();
    assert!(written.unwrap().success());
    for arguments in [&["--rows", "3", "--http=sealed", "--json"][..], &["--help"], &["--version"], &["-h"]] {
        let output = bench(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), arguments.join(" "));
    }
}
