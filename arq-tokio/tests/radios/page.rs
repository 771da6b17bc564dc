// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The commands of `docs/two-radios.md` show what the page says.

use std::{env, fs, os::unix::process::CommandExt as _};

use super::support::{lab_or_skip, skipped, Role};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/two-radios.md");
const MARK: &str = "<!-- run:two-radios -->\n```sh\n";
const PROGRAM: &str = "target/release/examples/radios";

/// `sudo`, the build and `/run` are the test's; the rest is the page's. All that it starts ends with the next line of
/// input, with the client, which is started last, or after a minute.
fn script(commands: &str, program: &str) -> String {
    let commands = commands.replace(PROGRAM, &format!("timeout --foreground 60 {program}"));
    format!(
        "set -e\nsudo() {{ \"$@\"; }}\ncargo() {{ :; }}\nmount -t tmpfs tmpfs /run\nip link set lo up\n\
         exec 3<&0\n{{ read _ <&3 || :; kill -9 0; }} &\n{commands}\nwait $!\nkill -9 0\n"
    )
}

#[test]
fn the_commands_of_the_page_show_a_radio_that_pauses() {
    const TEST: &str = "the_commands_of_the_page";
    let page = fs::read_to_string(PAGE).unwrap();
    let commands = page.split_once(MARK).unwrap().1.split_once("```").unwrap().0;
    let here = env::current_exe().unwrap();
    let program = here.parent().unwrap().with_file_name("examples").join("radios");
    if !program.exists() {
        return skipped(TEST, "`cargo build -p arq-tokio --examples` has not been run");
    }
    let Some(lab) = lab_or_skip(TEST) else { return };
    let mut command = lab.host(0).command("sh");
    command.args(["-c", &script(commands, program.to_str().unwrap())]).process_group(0);
    let mut shell = Role::spawn(command).unwrap();
    for state in ["radio1 open", "radio1 paused", "radio1 open"] {
        let line = shell.logged(state);
        assert!(
            line.contains("answers, the slowest after") && line.contains("radio2 open"),
            "{line}"
        );
    }
    shell.tell("that was all");
    shell.until_it_ends();
}
