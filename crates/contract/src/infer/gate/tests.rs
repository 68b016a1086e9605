use proptest::prelude::*;

use super::*;

/// Matches every clean command, and is no form that skips the guard.
const ANY_CLEAN: &str = r"[\s\S]*";

fn allowed(command: &str, list: &[&str]) -> bool {
    let list: Vec<String> = list.iter().map(|&entry| entry.to_owned()).collect();
    gate(command, &list) == Gate::Allowed
}

fn hints(command: &str) -> &'static str {
    match gate(command, &[ANY_CLEAN.to_owned()]) {
        Gate::Allowed => "allowed",
        Gate::Refused { hint: found } => {
            assert_eq!(found, hint(command), "{command}");
            found
        }
    }
}

#[test]
fn an_entry_matches_the_whole_command_or_not_at_all() {
    for (command, entry, expected) in [
        ("gh", "gh", true),
        ("gh issue list", "gh", false),
        ("gh issue list", "gh issue.*", true),
        ("sudo gh issue list", "gh issue.*", false),
        ("  ls -la\n", "ls -la", true),
        ("ls -la > /dev/null 2>&1", "ls -la", true),
        ("ls", "^ls$", true),
        ("lsof", "ls|lsof", true),
        ("lsblk", "ls|lsof", false),
        ("echo 'a\nb'", "echo .*", true),
        ("ls", "", false),
        ("ls", "(", false),
        ("ls", "ls)|(?:.*", false),
        ("rm -rf x", "ls)|(?:.*", false),
        ("rm -rf x", "ls(?#", false),
        ("seq 1", r"seq \d", true),
        ("seq \u{661}", r"seq \d", false),
        ("seq \u{e9}", r"seq \w", false),
        ("a\u{a0}b", r"a\sb", false),
        ("seq \\d", r"seq \\d", true),
        ("x", "(x{1000}){1000}", false),
    ] {
        assert_eq!(allowed(command, &[entry]), expected, "{command} | {entry}");
    }
    assert!(allowed("ls", &["(", "", "ls"]));
    assert!(!allowed("ls", &[]));
}

#[test]
fn an_entry_names_a_program_where_all_that_it_lets_through_begins_with_a_word_it_spells_out() {
    let list = |entry: &str| [entry.to_owned()];
    for (command, entry) in [
        ("ls", "ls"),
        ("ls", "^ls$"),
        ("ls -la", "ls( .*)?"),
        ("git log -1", "git (diff|log)( .*)?"),
        ("make\ttest", r"make\s+test"),
        ("/srv/hooks/notify.sh done", r"/srv/hooks/notify\.sh .*"),
        ("LS x", "(?i)ls .*"),
        ("ls x", "l?s .*"),
        ("ls -la >/dev/null 2>&1", "ls -la"),
    ] {
        assert!(allowed(command, &[entry]), "{command} | {entry}");
        assert!(names(command, &list(entry)), "{command} | {entry}");
    }
    // All of them are let through, and say nothing of the program.
    for entry in [
        ".*",
        "(.*)",
        ".{0,}",
        r"[\s\S]*",
        r"\w+.*",
        "[a-z]+ .*",
        "ls.*",
        "ls .*|.*",
        "|ls .*",
        "(ls)?.*",
        "(?i).*",
        "ls( .*)?|[^ ]+ .*",
    ] {
        assert!(allowed("ls -la", &[entry]), "{entry}");
        assert!(!names("ls -la", &list(entry)), "{entry}");
    }
    for (command, entry) in [
        ("$HOOK x", r"\$HOOK .*"),
        ("A=b ls", "A=b .*"),
        ("/bin/ls", "/bin/.*"),
    ] {
        assert!(allowed(command, &[entry]), "{command} | {entry}");
        assert!(!names(command, &list(entry)), "{command} | {entry}");
    }
    // What the gate refuses is named by nothing.
    for (command, entry) in [
        ("ls x; rm y", "ls .*"),
        ("ls $(rm y)", "ls .*"),
        ("rm y", "ls .*"),
        ("rm y", "ls)|(?:rm .*"),
        ("", ""),
    ] {
        assert!(!names(command, &list(entry)), "{command} | {entry}");
    }
}

#[test]
fn a_list_that_lets_everything_through_skips_the_guard() {
    for entry in ALLOW_ALL {
        assert!(allowed("rm -rf $(pwd) | tee x; 'y", &[entry]), "{entry}");
        assert!(!allowed("  ", &[entry]), "{entry}");
    }
    assert!(allowed("a; b", &["ls", "  .*  "]));
    assert!(!allowed("a; b", &["(.*)"]));
}

#[test]
fn what_is_not_one_clean_command_is_told() {
    for (command, expected) in [
        ("ls $(pwd)", SUBSTITUTION),
        ("ls `pwd`", SUBSTITUTION),
        ("ls \"$(pwd)\"", SUBSTITUTION),
        ("ls \"`pwd`\"", SUBSTITUTION),
        ("diff <(ls) x", SUBSTITUTION),
        ("tee >(cat)", SUBSTITUTION),
        ("ls ${ pwd; }", SUBSTITUTION),
        ("ls \"${| pwd; }\"", SUBSTITUTION),
        ("ls '$(pwd) `pwd` <(x)'", "allowed"),
        ("grep \"<(x)\" y", "allowed"),
        ("ls \\$\\(x\\)", "allowed"),
        ("ls 'x", QUOTES),
        ("ls \"x", QUOTES),
        ("ls \"x\\\"", QUOTES),
        ("ls 'x\\'", "allowed"),
        ("ls \"${x#\"y\"}\"", QUOTES),
        ("ls \"${x#y}\" 'z' ${x#'}'} \"}'\"", "allowed"),
        ("ls $'a\\'b'", "allowed"),
        ("a && b", SEVERAL),
        ("a || b", SEVERAL),
        ("a | b", SEVERAL),
        ("a |& b", SEVERAL),
        ("a ; b", SEVERAL),
        ("a & b", SEVERAL),
        ("a &", SEVERAL),
        ("a\nb", SEVERAL),
        ("a\rb", SEVERAL),
        ("a ';|&' \"\n&&\" \\; \\&", "allowed"),
        // A shell sees two commands in each of these, a plain reading of the quotes one.
        ("ls $'\\'' ; id #'", QUOTES),
        ("ls #'\nid #'", SEVERAL),
        ("(ls)#'\nid #'", SEVERAL),
        ("ls $$'\\' ; id #'", QUOTES),
        ("ls \"${x#'\"'}\" ; id #'", QUOTES),
        ("ls a\\>& id", SEVERAL),
        ("ls > x", REDIRECT),
        ("ls >> x", REDIRECT),
        ("ls >&x", REDIRECT),
        ("ls &> x", REDIRECT),
        ("ls >/dev/null -l", REDIRECT),
        ("ls > /dev/nullx", REDIRECT),
        ("ls 2> \"x\"", REDIRECT),
        ("grep '>' x", "allowed"),
        ("grep \">\" x", "allowed"),
        ("ls \\> x", "allowed"),
        ("sort < x", "allowed"),
        ("> /dev/null", ""),
        ("find . -name x -delete", FIND),
        ("find . -exec rm {} +", FIND),
        ("find . '-exec' rm {} +", FIND),
        ("find\t. -okdir rm {} +", FIND),
        ("find . -fprint0 x", FIND),
        ("find . -executable -name '*-delete'", "allowed"),
        ("grep -exec x", "allowed"),
        ("echo $HOME", VARIABLE),
        ("echo \"${HOME}\"", VARIABLE),
        ("printf %s $1", VARIABLE),
        ("gh issue create --body $TOKEN", VARIABLE),
        ("gh pr edit 1 --body \"$TOKEN\"", VARIABLE),
        ("echo '$HOME' \\$HOME 5$ \"$ \"", "allowed"),
        ("gh issue list --label $X", "allowed"),
        ("ls $HOME", "allowed"),
    ] {
        assert_eq!(hints(command), expected, "{command:?}");
    }
    assert_eq!(hint("rm -rf x"), "");
    assert_eq!(hint(""), "");
}

#[test]
fn only_redirections_that_write_nothing_are_taken_off_the_end() {
    for (command, cleaned) in [
        ("ls >/dev/null", "ls"),
        ("ls > /dev/null", "ls"),
        ("ls >>/dev/null", "ls"),
        ("ls 2>/dev/null", "ls"),
        ("ls &>/dev/null", "ls"),
        ("ls &>>/dev/null", "ls"),
        ("ls 2>&1", "ls"),
        ("ls 2>&-", "ls"),
        ("ls >&2", "ls"),
        ("ls >/dev/null 2>&1", "ls"),
        // The digit is part of the word here.
        ("ls2>/dev/null", "ls2"),
        ("ls '>/dev/null'", "ls '>/dev/null'"),
        ("ls \\>/dev/null", "ls \\>/dev/null"),
    ] {
        assert_eq!(clean(command), Ok(cleaned.to_owned()), "{command}");
    }
}

proptest! {
    #[test]
    fn any_command_and_list_have_an_answer(command in any::<String>(), list in proptest::collection::vec(any::<String>(), 0..4)) {
        let answer = gate(&command, &list);
prop_assert!(answer != Gate::Allowed || !list.is_empty());
    }

    #[test]
    fn an_unquoted_separator_is_never_let_through(
        before in r"[a-z0-9 $=/.,:~^%{}()\[\]-]{0,20}",
        separator in "[;\n`|]",
        behind in "[a-z'\" \\\\>&-]{0,20}",
    ) {
        let command = format!("x{before}{separator}{behind}x");
        prop_assert!(!allowed(&command, &[ANY_CLEAN]), "{command:?}");
    }

    #[test]
    fn what_is_let_through_has_nothing_to_mend(command in "[a-z $;|&<>()`'\"\\\\#\n-]{0,24}") {
        prop_assert!(!allowed(&command, &[ANY_CLEAN]) || hint(&command).is_empty());
    }
}
