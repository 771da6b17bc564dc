// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The library as C has it: installed by `make`, found by pkg-config, used by C programs, and watched by valgrind.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// This crate's folder.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said(&output));
    said(&output)
}

/// Whether the machine has a program; if not, that is said aloud.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    assert!(found || env::var("ARQ_REQUIRE_LAB").as_deref() != Ok("1"), "no {program}");
    if !found {
        println!("*** SKIPPED the C library: there is no {program}");
    }
    found
}

/// Where the library is installed, once for all tests.
fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libarq");
        let _ = fs::remove_dir_all(&prefix);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut make = Command::new("make");
        make.current_dir(here()).arg("install").arg("PROFILE=dev");
        make.env("CARGO_TARGET_DIR", target).arg(format!("PREFIX={}", prefix.display()));
        run(&mut make);
        prefix
    })
}

/// What pkg-config says to compile and link with.
fn flags(options: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    let flags = run(command.args(options).arg("arq"));
    flags.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program of this crate against the shared or the static library.
fn compile(source: &str, shared: bool) -> PathBuf {
    let stem = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = installed().join(format!("{stem}-{}", if shared { "shared" } else { "static" }));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]);
    cc.arg(here().join(source)).arg("-o").arg(&program).args(flags(&["--cflags"]));
    if shared {
        cc.args(flags(&["--libs"]));
    } else {
        cc.arg(installed().join("lib/libarq.a"));
        let private = flags(&["--libs", "--static"]);
        cc.args(private.iter().filter(|flag| *flag != "-larq" && !flag.starts_with("-L")));
    }
    run(&mut cc);
    program
}

fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", installed().join("lib"));
    command
}

fn can_compile() -> bool {
    ["cc", "make", "pkg-config"].into_iter().all(has)
}

#[test]
fn a_hundred_messages_arrive_over_a_wire_that_loses_a_tenth() {
    if !can_compile() {
        return;
    }
    for shared in [true, false] {
        let lossy = compile("examples/lossy.c", shared);
        for seed in 1..=8 {
            let text = run(program(&lossy).arg(seed.to_string()));
            assert!(text.contains("100 of 100 messages"), "seed {seed}: {text}");
            assert!(text.contains("client: closed locally\n"), "seed {seed}: {text}");
        }
    }
}

#[test]
fn null_and_bad_arguments_are_errors() {
    if !can_compile() {
        return;
    }
    for shared in [true, false] {
        run(&mut program(&compile("tests/c/misuse.c", shared)));
    }
}

#[test]
fn valgrind_finds_nothing() {
    if !can_compile() || !has("valgrind") {
        return;
    }
    for source in ["examples/lossy.c", "tests/c/misuse.c"] {
        let mut valgrind = Command::new("valgrind");
        valgrind.env("LD_LIBRARY_PATH", installed().join("lib"));
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.arg("--errors-for-leak-kinds=definite,indirect,possible");
        let text = run(valgrind.arg(compile(source, true)));
        assert!(!text.contains("=="), "{source}: {text}");
    }
}

#[test]
fn a_program_in_cpp_can_include_the_header() {
    if !can_compile() || !has("c++") {
        return;
    }
    let source = installed().join("header.cpp");
    fs::write(&source, "#include <arq.h>\nint main() { return arq_protocol_version() == 0; }\n")
        .unwrap();
    let program_path = installed().join("header");
    let mut cpp = Command::new("c++");
    cpp.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(&program_path);
    run(cpp.args(flags(&["--cflags", "--libs"])));
    run(&mut program(&program_path));
}

#[test]
fn the_header_declares_what_is_exported_and_the_loader_is_asked_for_an_interface() {
    let header = fs::read_to_string(here().join("include/arq.h")).unwrap();
    let source = fs::read_to_string(here().join("src/lib.rs")).unwrap();
    let exported: Vec<_> = source
        .lines()
        .filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next())
        .collect();
    assert!(exported.len() > 12, "{exported:?}");
    for name in &exported {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    let declared = header.lines().filter(|line| !line.starts_with([' ', '/']));
    let before = declared.filter_map(|line| Some(line.split_once('(')?.0));
    let names = before.filter_map(|before| before.split([' ', '*']).next_back());
    for name in names.filter(|name| name.starts_with("arq_")) {
        assert!(exported.contains(&name), "{name} is not in the library");
    }
    if cfg!(target_os = "linux") && can_compile() {
        let library = fs::read(installed().join("lib/libarq.so.0")).unwrap();
        let soname = b"libarq.so.0\0";
        assert!(library.windows(soname.len()).any(|bytes| bytes == soname));
    }
}
